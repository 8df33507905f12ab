"""The folder of the user's own data files, which an environment variable names."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "TURNOUT_DATA"


def given(path: str) -> Path | None:
    """The file of that path in the data folder, if it exists."""
    folder = os.environ.get(FOLDER)
    file = Path(folder).expanduser() / path if folder else None
    return file if file is not None and file.exists() else None


def table_file(path: str) -> Path:
    """The table that the user names, in the current folder or in the data folder."""
    file = Path(path) if Path(path).is_file() else given(path)
    if file is None or not file.is_file():
        raise FileNotFoundError(
            f"{path}: there is no such file, here or in the folder that {FOLDER} names; "
            "give the path of a CSV, .csv.gz or Parquet file"
        )
    return file
