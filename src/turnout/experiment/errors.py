"""What can be wrong with an experiment."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ExperimentError(ValueError):
    """A mistake in an experiment, in one line: where it is, what was given, what is expected."""


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint that names the closest known word and all that exist, for the end of a message."""
    known = sorted(words)
    if not known:
        return "there are none"
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}known: {', '.join(known)}"
