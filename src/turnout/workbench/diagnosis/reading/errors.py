from __future__ import annotations

from turnout.errors import UserError


class LogError(UserError):
    """A log that cannot be read: one line that says which file, where in it, what is wrong and what would be right."""
