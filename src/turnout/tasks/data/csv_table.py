"""CSV and Parquet files of the user, as tables of samples."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.errors import UserError, check_installed
from turnout.files.data_folder import table_file
from turnout.files.opened import note
from turnout.files.panics import refuse_panics
from turnout.tasks.data.sample_table import SampleTable, Where, table_of

if TYPE_CHECKING:
    import polars as pl

DAMAGED = (EOFError, OSError, zlib.error)  # what reading a file raises
DELIMITERS = ",;\t"


def read_table(
    path: str,
    client: str = "client",
    label: str = "label",
    features: tuple[str, ...] = (),
    part: str | None = None,
    loss: str = "cross_entropy",
) -> SampleTable:
    """Read a CSV (also .csv.gz) or Parquet file; the `loss` says what a label is, as in `tasks.from_csv`."""
    return table_of(text_rows(path), Where(path), client, label, features, part, loss)


def text_rows(path: str) -> pl.DataFrame:
    """Every cell as text, so that an error can quote it; blank cells are missing."""
    file = table_file(path)
    check_installed("polars", f"{path}: a table of samples")
    import polars as pl

    try:
        if file.suffix == ".parquet":
            note(file)
            with refuse_panics(path):
                rows = pl.read_parquet(file).cast(pl.String)
        else:
            content = _unpack(file)
            rows = pl.read_csv(content, infer_schema=False, separator=_delimiter(content))
    except UserError:
        raise
    except (pl.exceptions.PolarsError, ValueError, *DAMAGED) as error:
        reason = " ".join(str(error).split()).split(". ")[0]
        raise ValueError(f"{path}: cannot be read as a table: {reason}") from None
    if not rows.height:
        raise ValueError(f"{path}: has no row; there must be a header and one row per sample")
    rows.columns = [name.strip() for name in rows.columns]
    stripped = rows.with_columns(pl.all().str.strip_chars())
    return stripped.with_columns(pl.when(pl.all() != "").then(pl.all()))


def _unpack(file: Path) -> bytes:
    """The content of a file; unlike polars, gzip notices when it is cut off or damaged."""
    content = file.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _delimiter(content: bytes) -> str:
    """The delimiter that is most frequent in the header."""
    header = content[: 1 << 20].partition(b"\n")[0].decode("utf-8")
    return max(DELIMITERS, key=header.count)
