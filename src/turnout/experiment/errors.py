from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from turnout.errors import UserError, is_mistake


class ExperimentError(UserError):
    """A mistake in an experiment, in one line: where it is, what was given, what is expected."""


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
        if not is_mistake(error, *modules):
            raise
        raise ExperimentError(f"{where}: {error}" if where else str(error)) from error
