"""The next character of a text, each client an author or a document."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.documents import Documents, documents
from turnout.tasks.data.partition import TEST, TRAIN, VALIDATION
from turnout.tasks.models.model import Model
from turnout.tasks.models.sequences import lstm, transformer

OTHER = 0  # token of all characters that are too rare for one of their own


# Long: the docstring explains many arguments.
def text(  # noqa: PLR0913 (the keys of a task's table)
    path: str | None = None,
    client: str = "client",
    column: str = "text",
    context: int = 20,
    stride: int = 1,
    model: Literal["lstm", "transformer"] | Model = "lstm",
    width: int = 64,
    num_characters: int = 100,
    min_size: int = 10,
    ridge: float = 0.0,
    importance: Literal["size", "uniform"] = "size",
    validation: float = 0.1,
    test: float = 0.2,
) -> DataTask:
    """Predict the next character from the `context` characters before it.

    Args:
        path: a folder with one .txt file per client; a .txt file in which a line "## name" begins the text of a client;
            or a CSV or Parquet file. Without one, short letters of ten authors are generated.
        client: column of the clients in a CSV or Parquet file.
        column: column of the texts there; those of a client are joined, one per line.
        context: characters before the one to predict.
        stride: characters from one sample of a client to the next.
        model: "lstm", "transformer" (two layers, four heads), or a model of your own, from tokens to logits.
        width: of the embedding and of the layers.
        num_characters: the most frequent characters have a token of their own, all others share one.
        min_size: clients with fewer samples are left out.
        ridge: factor of the penalty ½ ‖w‖².
        importance: how much a client counts: by its training samples ("size"), or all alike ("uniform").
        validation: share of each client's text that is held out for validation, before the part for testing.
        test: share at the end of each client's text that is held out for testing.

    """
    if min(context, stride, width, num_characters, min_size) < 1 or not (
        min(validation, test) >= 0 > validation + test - 1
    ):
        raise ValueError(
            f"context={context}, stride={stride}, width={width}, num_characters={num_characters}, min_size={min_size}, "
            f"validation={validation}, test={test}: counts must be at least 1, shares not negative and together below 1"
        )
    texts = documents(path, client, column)
    samples = {name: -(-(len(words) - context) // stride) for name, words in texts.items()}
    kept = {name: words for name, words in texts.items() if samples[name] >= min_size}
    if not kept:
        raise ValueError(f"no text is long enough for {min_size} samples of {context} characters and the next")
    tokens = tokens_of(kept, num_characters)
    windows = [np.lib.stride_tricks.sliding_window_view(codes, context + 1)[::stride] for codes in tokens]
    sizes = [len(rows) for rows in windows]
    rows, vocabulary = np.concatenate(windows).astype(np.int32), int(max(codes.max() for codes in tokens)) + 1
    return from_pool(
        rows[:, :-1],
        rows[:, -1].astype(np.int64),
        np.repeat(np.arange(len(kept)), sizes),
        np.concatenate([in_order(size, validation, test) for size in sizes]),
        model=_model(model, vocabulary, context, width),
        ridge=ridge,
        importance=importance,
        names=tuple(kept),
    )


def tokens_of(texts: Documents, num_characters: int) -> list[np.ndarray]:
    """The characters of each text as whole numbers; 1 and up for the most frequent ones, in sorted order."""
    counts = Counter()
    for words in texts.values():
        counts.update(words)
    frequent = sorted(character for character, _ in counts.most_common(num_characters))
    token = {character: place for place, character in enumerate(frequent, start=OTHER + 1)}
    return [np.array([token.get(character, OTHER) for character in words], np.int64) for words in texts.values()]


def in_order(size: int, validation: float, test: float) -> np.ndarray:
    """Parts of a text's samples: the last ones test, those before validate, so that no held-out one is trained on."""
    num_test, num_validation = int(test * size + 1e-9), int(validation * size + 1e-9)
    parts = np.full(size, TRAIN, np.int8)
    parts[size - num_test - num_validation :] = VALIDATION
    parts[size - num_test :] = TEST
    return parts


def _model(model: str | Model, vocabulary: int, context: int, width: int) -> Model:
    if isinstance(model, Model):
        return model
    if model not in ("lstm", "transformer"):
        raise ValueError(f"model is {model!r}; it must be 'lstm', 'transformer' or a Model")
    return lstm(vocabulary, width) if model == "lstm" else transformer(vocabulary, context, width)
