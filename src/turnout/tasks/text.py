"""The next character of a text, each client an author or a document.

Texts come from a folder, a file, a table, or a small generator that needs no file.
"""

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from turnout.declarations import Count, NotNegative, Share, checked
from turnout.errors import nearest
from turnout.files.downloads import FOLDER, given
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TEST, TRAIN, VALIDATION
from turnout.tasks.data.sample_table import text_rows
from turnout.tasks.models.adapters import Adapt, on_base
from turnout.tasks.models.model import Model
from turnout.tasks.models.sequences import lstm, transformer

Documents = dict[str, str]  # text by author or document
HEADING = "## "  # begins a line of a .txt file that names the author of what follows

NUM_SENTENCES = 80  # of each author of the generated text
KEEPERS = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hugo", "Ilse", "Jon")
SUBJECTS = (
    "the wind",
    "the lamp",
    "a ship",
    "the fog",
    "my dog",
    "the boat",
    "a gull",
    "the tide",
    "the ladder",
    "rain",
)
VERBS = ("came", "went", "turned", "waited", "returned", "rested", "sang", "grew", "faded", "stayed")
PLACES = ("by the rocks", "at the pier", "near the tower", "over the bay", "in the north", "under the stairs")
TIMES = ("at dawn", "at noon", "before supper", "all night", "twice today", "again")
ENDINGS = (".", "!", "...", " - so be it.", ", I think.")
OTHER = 0  # token of all characters that are too rare for one of their own


def documents(path: str | None = None, client: str = "client", column: str = "text") -> Documents:
    """The texts of a folder (one .txt file each), of a .txt file with headings, or of a table; else generated ones."""
    if path is None:
        return lighthouse_letters()
    place = Path(path) if Path(path).exists() else given(path)
    if place is None:
        raise FileNotFoundError(f"{path}: there is no such file or folder, here or in the folder that {FOLDER} names")
    if place.is_dir():
        texts = {file.stem: _read(file) for file in sorted(place.glob("*.txt"))}
        if not texts:
            raise ValueError(f"{path}: the folder has no .txt file; give one per author or document")
        return texts
    return _by_heading(path, _read(place)) if place.suffix == ".txt" else _of_table(path, client, column)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: is not text in UTF-8: {error.reason} at byte {error.start}") from None


def _by_heading(path: str, text: str) -> Documents:
    texts: dict[str, list[str]] = {}
    before, *stretches = f"\n{text}".split(f"\n{HEADING}")
    if before.strip() or not stretches:
        raise ValueError(
            f"{path}: must begin with a line {HEADING + 'name'!r}, and have one wherever another author or document "
            "begins; or give a folder with one .txt file each"
        )
    for stretch in stretches:
        name, _, body = stretch.partition("\n")
        texts.setdefault(name.strip(), []).append(body)
    return {name: "\n".join(bodies) for name, bodies in texts.items()}


def _of_table(path: str, client: str, column: str) -> Documents:
    """The texts of each client, one per line."""
    rows = text_rows(path)
    for name in (client, column):
        if name not in rows.columns:
            raise ValueError(f"{path}: there is no column {name!r}: {nearest(name, rows.columns)}")
    texts: dict[str, list[str]] = {}
    for author, line in rows.select(client, column).drop_nulls().iter_rows():
        texts.setdefault(author, []).append(line)
    return {author: "\n".join(lines) for author, lines in texts.items()}


def lighthouse_letters() -> Documents:
    """Short letters of ten keepers of lighthouses, drawn from a small grammar.

    Each keeper has subjects, places and an ending of their own that they prefer, so that texts differ as authors do.
    """
    return {name: _letter(np.random.default_rng(number)) for number, name in enumerate(KEEPERS)}


def _letter(generator: np.random.Generator) -> str:
    lists = (SUBJECTS, VERBS, PLACES, TIMES, ENDINGS)
    tastes = [generator.dirichlet(np.full(len(words), 0.5)) for words in lists]
    sentences = []
    for _ in range(NUM_SENTENCES):
        subject, verb, place, when, end = (
            words[generator.choice(len(words), p=taste)] for words, taste in zip(lists, tastes, strict=True)
        )
        sentences.append(f"{subject[0].upper()}{subject[1:]} {verb} {place} {when}{end}")
    return " ".join(sentences)


# Long: the docstring explains many arguments.
@checked
def text(  # noqa: PLR0913 (the keys of a task's table)
    path: str | None = None,
    client: str = "client",
    column: str = "text",
    context: Count = 20,
    stride: Count = 1,
    model: Literal["lstm", "transformer"] | Model = "lstm",
    width: Count = 64,
    num_characters: Count = 100,
    min_size: Count = 10,
    ridge: NotNegative = 0.0,
    importance: Literal["size", "uniform"] = "size",
    validation: Share = 0.1,
    test: Share = 0.2,
    layers: Count | None = None,
    heads: Count | None = None,
    remat: bool | None = None,
    adapt: Adapt | None = None,
) -> DataTask:
    """Predict the next character from the `context` characters before it.

    Args:
        path: a folder with one .txt file per client; a .txt file in which a line "## name" begins the text of a client;
            or a CSV or Parquet file. Without one, short letters of ten authors are generated.
        client: column of the clients in a CSV or Parquet file.
        column: column of the texts there; those of a client are joined, one per line.
        context: characters before the one to predict.
        stride: characters from one sample of a client to the next.
        model: "lstm", "transformer", or a model of your own, from tokens to logits.
        width: of the embedding and of the layers.
        num_characters: the most frequent characters have a token of their own, all others share one.
        min_size: clients with fewer samples are left out.
        ridge: factor of the penalty ½ ‖w‖².
        importance: how much a client counts: by its training samples ("size"), or all alike ("uniform").
        validation: share of each client's text that is held out for validation, before the part for testing.
        test: share at the end of each client's text that is held out for testing.
        layers: of a transformer, two if not given.
        heads: of a transformer, four if not given.
        remat: a transformer computes its blocks again for the gradient instead of keeping what they computed.
        adapt: train adapters of a base that is in a folder, instead of the whole model.

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
        model=on_base(_model(model, vocabulary, context, width, layers, heads, remat), adapt),
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


def _model(
    model: str | Model,
    vocabulary: int,
    context: int,
    width: int,
    layers: int | None,
    heads: int | None,
    remat: bool | None,
) -> Model:
    given = {"layers": layers, "heads": heads, "remat": remat}
    of_transformer = {name: value for name, value in given.items() if value is not None}
    if of_transformer and model != "transformer":
        raise ValueError(f"{', '.join(of_transformer)}: only the model 'transformer' has them")
    if isinstance(model, Model):
        return model
    if model not in ("lstm", "transformer"):
        raise ValueError(f"model is {model!r}; it must be 'lstm', 'transformer' or a Model")
    return lstm(vocabulary, width) if model == "lstm" else transformer(vocabulary, context, width, **of_transformer)
