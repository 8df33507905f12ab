"""Mistakes that a user can mend, and how to tell them from crashes."""

from __future__ import annotations

import difflib
import dis
import importlib.util
from collections.abc import Iterable
from types import TracebackType


class UserError(ValueError):
    """Something that the user can mend, in one line: where it is, what was given, what would be right."""


class FolderError(UserError):
    """A folder or file that cannot be written."""


def check_installed(package: str, what: str) -> None:
    """Refuse what needs a package that the core does without, where that package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{what} needs {package}: pip install {package}")


def is_mistake(error: BaseException, *modules: str) -> bool:
    """Whether the user can mend an error; anything else is a crash, a fault in code.

    A mistake is a `UserError`, a file that cannot be read or written, or a refusal: an error that is raised by turnout
    itself or by one of the further `modules`. What numpy, jax or polars raise when turnout calls them is a crash.
    """
    if isinstance(error, UserError) or (isinstance(error, OSError) and error.filename is not None):
        return True
    refusals = (ValueError, TypeError, OSError, ImportError)
    return isinstance(error, refusals) and _is_raised_in(error, {name.split(".")[0] for name in ("turnout", *modules)})


def frames(error: BaseException) -> list[TracebackType]:
    """The calls that led to an error, the innermost last."""
    calls, call = [], error.__traceback__
    while call is not None:
        calls.append(call)
        call = call.tb_next
    return calls


def package_of(call: TracebackType) -> str:
    """The package whose code made the call."""
    return str(call.tb_frame.f_globals.get("__name__", "")).split(".")[0]


def _is_raised_in(error: BaseException, packages: set[str]) -> bool:
    """Whether the error comes from a `raise` in one of the packages.

    The innermost frame does not tell by itself: numpy has none for its compiled code, and jax takes its own away.
    """
    calls = frames(error)
    if not calls or package_of(calls[-1]) not in packages:
        return False
    return dis.opname[calls[-1].tb_frame.f_code.co_code[calls[-1].tb_lasti]] == "RAISE_VARARGS"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that tells the closest of the known names and all of them, for the end of a message."""
    names = sorted(known)
    if not names:
        return "there are none"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{suggestion}known: {', '.join(names)}"
