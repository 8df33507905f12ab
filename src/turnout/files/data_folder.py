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


def located(path: str) -> Path:
    """A table as the user names it, from here or from the folder."""
    found = Path(path) if Path(path).is_file() else given(path)
    if found is None or not found.is_file():
        raise FileNotFoundError(
            f"{path}: there is no such file, here or in the folder that {FOLDER} names; "
            "give the path of a CSV, .csv.gz or Parquet file"
        )
    return found
