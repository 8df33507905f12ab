"""The folder of the user's own data files, which an environment variable names."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "TURNOUT_DATA"


def given(path: str) -> Path | None:
    """That file of the folder, if it is there."""
    folder = os.environ.get(FOLDER)
    found = Path(folder).expanduser() / path if folder else None
    return found if found is not None and found.exists() else None
