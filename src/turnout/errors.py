"""Mistakes that a user can mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something that the user can mend, in one line: where it is, what was given, what would be right."""


class FolderError(UserError):
    """A folder or file that cannot be written."""


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint that names the closest known word and all that exist, for the end of a message."""
    known = sorted(words)
    if not known:
        return "there are none"
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}known: {', '.join(known)}"
