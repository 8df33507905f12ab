"""The rows of a table as numbers and codes, read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from turnout.files.integrity import refuse_panics
from turnout.workbench.diagnosis.reading.columns import FLAGS, TEXT, TIMES
from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.numbering import Numbering
from turnout.workbench.diagnosis.reading.table import LogTable, first_line, refuse_file

if TYPE_CHECKING:
    import polars as pl

ROWS_AT_ONCE = 1 << 21
MAX_NAME_LETTERS = 256
TRUTH = {"true": "1", "false": "0"}
DATES = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
DATE, OFFSET, DIGIT = r"^\s*\d{4}-\d\d-", r"([zZ]|[+-]\d\d:?\d\d)\s*$", r"\d"


@dataclass(frozen=True)
class Rows:
    """The requested columns, under our names."""

    table: LogTable
    codes: dict[str, np.ndarray]  # int32, -1 for an empty field
    names: dict[str, np.ndarray]  # what the codes stand for, in order of first appearance
    numbers: dict[str, np.ndarray]  # float64, NaN if there is no number; seconds for times
    not_numbers: dict[str, tuple[int, str]]  # the first row whose text is no number, and that text
    columns: dict[str, str]  # the file's own names
    clocks: frozenset[str]  # how times are given: "UTC" with an offset from it, "own" without, "seconds" as numbers

    @property
    def count(self) -> int:
        return len(self.codes["client"])

    @property
    def mixed_clocks(self) -> bool:
        """Whether some times state an offset from UTC and some do not."""
        return {"UTC", "own"} <= self.clocks

    def refuse(self, bad: np.ndarray, complaint: Callable[[int], str]) -> None:
        """If a row is bad, raise an error that names the first one and its client."""
        if bad.any():
            row = int(np.argmax(bad))
            code = int(self.codes["client"][row])
            who = "" if code < 0 else f" (client {self.names['client'][code]})"
            raise LogError(f"{self.table.path}: {self.table.place(row)}{who} {complaint(row)}")

    def show(self, column: str, row: int) -> str:
        """The value in a column, as an error message shows it."""
        number = self.numbers[column][row]
        where, text = self.not_numbers.get(column, (-1, ""))
        return repr(text) if where == row else "nothing" if np.isnan(number) else f"{number:.15g}"

    def refuse_text(self, column: str, must: str) -> None:
        """Refuse a text where a number belongs."""
        if column in self.not_numbers:
            row = self.not_numbers[column][0]
            self.refuse(np.arange(self.count) == row, lambda r: f"has {column} = {self.show(column, r)}; {must}")


def read_rows(table: LogTable, columns: dict[str, str]) -> Rows:
    """Read columns (our name: the file's), `ROWS_AT_ONCE` rows at a time; a row keeps a few bytes per column."""
    import polars as pl

    numberings = {name: Numbering() for name in columns if name in TEXT}
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in columns}
    not_numbers: dict[str, tuple[int, str]] = {}
    clocks: set[str] = set()
    done = 0
    try:
        with refuse_panics(table.path):
            for batch in _batches(table, columns):
                for name in columns:
                    if name in TEXT:
                        pieces[name].append(numberings[name].codes(batch[name].cast(pl.String)))
                    else:
                        values, not_number = _numbers(batch[name], flag=name in FLAGS, time=name in TIMES)
                        pieces[name].append(values)
                        if name in TIMES:
                            clocks |= _clocks(batch[name])
                        if not_number is not None:
                            not_numbers.setdefault(name, (done + not_number, str(batch[name][not_number])))
                done += batch.height
    except (pl.exceptions.PolarsError, OSError) as error:
        refuse_file(table)
        raise LogError(f"{table.path}: cannot be read as {table.format} ({first_line(error)})") from error
    if not done:
        raise LogError(f"{table.path}: has a header but no rows; there must be at least one")
    numbers = {name: np.concatenate(pieces.pop(name)) for name in columns if name not in TEXT}
    codes, names = {}, {}
    for name, numbering in numberings.items():
        codes[name] = np.concatenate(pieces.pop(name))
        _refuse_long(table, name, codes[name], numbering.names)
        codes[name], names[name] = _trim(codes[name], numbering.names)
    return Rows(table, codes, names, numbers, not_numbers, columns, frozenset(clocks))


def _refuse_long(table: LogTable, column: str, codes: np.ndarray, names: pl.Series) -> None:
    """Refuse long names: arrays of text have a fixed width, so one long name makes all of them long."""
    letters = names.str.len_chars().to_numpy()
    if letters.max(initial=0) > MAX_NAME_LETTERS:
        row = int(np.argmax(np.isin(codes, np.flatnonzero(letters > MAX_NAME_LETTERS))))
        raise LogError(
            f"{table.path}: {table.place(row)} has a {column} of {letters[codes[row]]:,} letters; at most "
            f"{MAX_NAME_LETTERS} are allowed: is a quotation mark not closed?"
        )


def _batches(table: LogTable, columns: dict[str, str]) -> Iterator[pl.DataFrame]:
    import polars as pl

    if table.format == "parquet":
        frame = pl.scan_parquet(table.file)
    elif table.format == "jsonl":
        frame = pl.scan_ndjson(table.file, schema={name: pl.String for name in columns.values()})
    else:
        frame = pl.scan_csv(table.file, infer_schema=False, separator=table.delimiter)
    wanted = frame.select(pl.col(theirs).alias(ours) for ours, theirs in columns.items())
    yield from wanted.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=True)


def _trim(codes: np.ndarray, names: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Strip blanks around the names; a name of blanks alone counts as empty."""
    plain = names.str.strip_chars()
    if not (plain == names).all() or (plain == "").any():
        numbering = Numbering()
        renumbered = numbering.codes(plain.set(plain == "", None))
        codes, plain = np.r_[renumbered, np.int32(-1)][codes], numbering.names  # code -1 reads the last entry
    return codes, plain.to_numpy().astype(np.str_)


def _numbers(column: pl.Series, flag: bool, time: bool) -> tuple[np.ndarray, int | None]:
    """Numbers, NaN if empty, and the first row whose text is no number; times may be ISO 8601, converted to UTC."""
    import polars as pl

    if column.dtype in (pl.Datetime, pl.Date):
        return (column.dt.epoch("us") / 1e6).fill_null(np.nan).to_numpy(), None
    if column.dtype != pl.String:
        return column.cast(pl.Float64).fill_null(np.nan).to_numpy(), None
    values = column.cast(pl.Float64, strict=False)
    unread = values.is_null() & column.is_not_null()
    if unread.any():
        text = column.str.strip_chars()
        text = text.str.to_lowercase().replace(TRUTH) if flag else text
        values = text.cast(pl.Float64, strict=False)
        values = _seconds(text, values) if time else values
        unread = values.is_null() & text.is_not_null() & (text != "")
    return values.fill_null(np.nan).to_numpy(), unread.arg_max() if unread.any() else None


def _seconds(text: pl.Series, numbers: pl.Series) -> pl.Series:
    """Numbers unchanged, ISO 8601 as seconds since 1970; without an offset the log's own clock is kept."""
    import polars as pl

    plain = pl.col("text").str.replace("T", " ", literal=True)
    ways = [plain.str.to_datetime(form, strict=False, time_unit="us").dt.epoch("us") for form in DATES]
    offset = pl.col("text").str.to_datetime("%+", strict=False, time_unit="us", time_zone="UTC").dt.epoch("us")
    frame = pl.DataFrame({"text": text, "numbers": numbers})
    return frame.select(pl.coalesce("numbers", *(way / 1e6 for way in [*ways, offset]))).to_series()


def _clocks(column: pl.Series) -> set[str]:
    """How the times of a column are given."""
    import polars as pl

    if isinstance(column.dtype, pl.Datetime):
        return {"own" if column.dtype.time_zone is None else "UTC"}
    if column.dtype == pl.Date:
        return {"own"}
    if column.dtype != pl.String:
        return {"seconds"}
    dates = column.filter(column.str.contains(DATE))
    zoned = int(dates.str.contains(OFFSET).sum())
    counts = {"UTC": zoned, "own": len(dates) - zoned, "seconds": column.str.contains(DIGIT).sum() - len(dates)}
    return {clock for clock, count in counts.items() if count}


def warn_of_dropped(rows: Rows, which: np.ndarray, what: str) -> list[str]:
    """A warning about rows that do not count."""
    count = int(which.sum())
    if not count:
        return []
    place = rows.table.place(int(np.argmax(which)))
    if count == 1:
        return [f"1 of the {what} was dropped, at {place}"]
    return [f"{count:,} {what} were dropped, the first at {place}"]
