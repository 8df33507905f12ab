"""Samples in a table of the user, also of a CSV or Parquet file: the client, the label and the features of each row."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnout.errors import UserError, check_installed, nearest
from turnout.files.downloads import table_file
from turnout.files.integrity import refuse_panics
from turnout.files.opened import note
from turnout.tasks.data.partition import PARTS
from turnout.tasks.models.model import LOSSES

if TYPE_CHECKING:
    import polars as pl


LARGEST = float(np.finfo(np.float32).max)
MOST_FRACTIONS = 20  # classes that are numbers but not whole; more are taken for numbers to predict
LOSS_NAMES = ("cross_entropy", "logistic", "squared")
DAMAGED = (EOFError, OSError, zlib.error)  # what reading a file raises
DELIMITERS = ",;\t"


@dataclass(frozen=True)
class SampleTable:
    """The rows of a table as arrays, with its names of clients, classes and features."""

    inputs: np.ndarray  # one row per sample; columns of numbers in double precision: statistics come before the cast
    labels: np.ndarray  # indices into `classes`, or numbers
    owners: np.ndarray  # indices into `clients`
    parts: np.ndarray | None  # as by `partition.divide`, if the table has such a column
    clients: tuple[str, ...] | None  # in the order in which the table first names them; none where they are numbers
    num_clients: int
    classes: tuple[str, ...]  # sorted, numbers by size; none where labels are numbers to predict
    features: tuple[str, ...]


def table_of(
    rows: pl.DataFrame,
    where: Where,
    client: str = "client",
    label: str = "label",
    features: tuple[str, ...] = (),
    part: str | None = None,
    loss: str = "cross_entropy",
    inputs: np.ndarray | None = None,
) -> SampleTable:
    """The samples in rows of text, where missing cells are null; `inputs` are given if they are not such columns."""
    if loss not in LOSS_NAMES:
        raise ValueError(f"loss is {loss!r}; it must be one of {', '.join(map(repr, LOSS_NAMES))}")
    special = [client, label, *([] if part is None else [part])]
    for name in (*special, *features):
        if name not in rows.columns:
            raise ValueError(f"{where.source}: there is no column {name!r}: {nearest(name, rows.columns)}")
    if len(set(special)) < len(special):
        raise ValueError(
            f"{where.source}: client, label and part must be different columns, given {', '.join(special)}"
        )
    others = () if inputs is not None else tuple(name for name in rows.columns if name not in special)
    wanted = features or others
    if not wanted and inputs is None:
        raise ValueError(f"{where.source}: there is no column to predict from; it has {', '.join(rows.columns)} only")
    where.check_filled(rows, special)
    names = rows[client].unique(maintain_order=True).to_list()
    labels, classes = _labels(rows, label, LOSSES[loss].labels, where)
    return SampleTable(
        inputs=np.stack([where.numbers(rows, name) for name in wanted], axis=1) if inputs is None else inputs,
        labels=labels,
        owners=_indices(rows, client, names),
        parts=None if part is None else _parts(rows, part, where),
        clients=tuple(names),
        num_clients=len(names),
        classes=classes,
        features=wanted,
    )


@dataclass(frozen=True)
class Where:
    """Checks whose errors name the source, the row and the column."""

    source: str
    first: int = 2  # number of the first row, after a header
    unit: str = "line"

    def row(self, index: int) -> str:
        return f"{self.source}: {self.unit} {index + self.first}"

    def check_filled(self, rows: pl.DataFrame, names: list[str]) -> None:
        for name in names:
            missing = rows[name].is_null().arg_true()
            if missing.len():
                raise ValueError(
                    f"{self.row(missing[0])}: {name!r} is empty, as in {missing.len()} rows; fill it or drop the rows"
                )

    def numbers(self, rows: pl.DataFrame, name: str) -> np.ndarray:
        """A column of numbers that single precision can hold."""
        import polars as pl

        self.check_filled(rows, [name])
        values = rows[name].cast(pl.Float64, strict=False)
        bad = (~(values.abs() <= LARGEST)).fill_null(True).arg_true()
        if bad.len():
            raise ValueError(
                f"{self.row(bad[0])}: {name!r} is {rows[name][bad[0]]!r}, not a finite number of "
                f"single precision, as in {bad.len()} rows; make numbers of them, or name the columns to predict from "
                "in features"
            )
        return values.to_numpy()


def _labels(rows: pl.DataFrame, name: str, kind: str, where: Where) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers as they are, classes as indices in sorted order."""
    import polars as pl

    if kind == "real":
        return where.numbers(rows, name), ()
    texts = rows[name].unique()
    as_numbers = texts.cast(pl.Float64, strict=False)
    order = texts.to_frame("text").with_columns(number=as_numbers).sort("number", "text", nulls_last=True)
    classes = order["text"].to_list()
    if len(classes) > MOST_FRACTIONS and ((as_numbers % 1 != 0) & as_numbers.is_finite()).any():
        raise ValueError(
            f"{where.source}: {name!r} has {len(classes)} different values, and not all are whole numbers; to predict "
            "numbers, set loss to 'squared'"
        )
    if len(classes) < 2 or (kind == "binary" and len(classes) > 2):
        wanted = "exactly two" if kind == "binary" else "two or more"
        raise ValueError(
            f"{where.source}: {name!r} has {len(classes)} different values, {', '.join(classes[:5])}; there must be "
            f"{wanted} classes"
        )
    return _indices(rows, name, classes), tuple(classes)


def _indices(rows: pl.DataFrame, name: str, values: list[str]) -> np.ndarray:
    import polars as pl

    return rows[name].replace_strict(values, range(len(values)), return_dtype=pl.Int64).to_numpy()


def _parts(rows: pl.DataFrame, name: str, where: Where) -> np.ndarray:
    unknown = (~rows[name].is_in(list(PARTS))).arg_true()
    if unknown.len():
        raise ValueError(
            f"{where.row(unknown[0])}: {name!r} is {rows[name][unknown[0]]!r}; it must be one of {', '.join(PARTS)}"
        )
    return np.array([PARTS[value] for value in rows[name].to_list()], np.int8)


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
