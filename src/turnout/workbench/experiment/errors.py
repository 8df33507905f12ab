from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turnout.errors import UserError, is_mistake, nearest

OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)  # no mistake of the experiment


class ExperimentError(UserError):
    """A mistake in an experiment, in one line: where it is, what was given, what is expected."""


def check_keys(given: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Refuse keys that there are not, and name the nearest one."""
    for key in given:
        if key not in known:
            place = f"{where}: " if where else ""
            raise ExperimentError(f"{place}unknown key {key!r}: {nearest(key, known)}")


@contextmanager
def mistakes_at(where: str, *modules: str) -> Iterator[None]:
    """Turn a mistake inside into an `ExperimentError` that says where it is; a crash passes through.

    `modules` are those beside turnout whose errors are refusals: where the class of a user, or of optax, is defined.
    """
    try:
        yield
    except ExperimentError:
        raise
    except Exception as error:
        if not is_mistake(error, *modules) or getattr(error, "errno", None) in OF_THE_DISK:
            raise
        raise ExperimentError(f"{where}: {error}" if where else str(error)) from error


@contextmanager
def files_of(folder: Path, what: str) -> Iterator[None]:
    """Turn whatever goes wrong with the contents of somebody's files into an `ExperimentError` that names the folder.

    Files that turnout did not write may hold anything, so that any error can come of them, even a panic of polars,
    which is no Exception.
    """
    try:
        yield
    except (UserError, OSError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        why = " ".join(str(error).split())[:200]
        raise ExperimentError(f"{folder}: its files do not fit together as {what}: {why}") from error
