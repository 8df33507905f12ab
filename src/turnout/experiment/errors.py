from __future__ import annotations

from turnout.errors import UserError


class ExperimentError(UserError):
    """A mistake in an experiment, in one line: where it is, what was given, what is expected."""
