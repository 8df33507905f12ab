"""A file of rows in CSV, JSON Lines or Parquet: how it is opened, and errors that say what is wrong with it."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Literal

from turnout.files.integrity import refuse_panics
from turnout.workbench.diagnosis.reading.errors import LogError

LINES_FOR_KEYS = 1000  # of a JSON Lines file, from which its keys are read
DELIMITERS = ",;\t"
# A first line as Flower, or Python's logging, prints it: a level at the beginning, or after a date.
CONSOLE = re.compile(
    r"(\x1b\[\d+m|[\d\-:.,/ T|]|\[)*(INFO|WARNING|DEBUG|ERROR|WARN)\b(\x1b\[\d+m|[ \]|])*[:|\-]?[ \t\]|]"
)


@dataclass(frozen=True)
class LogTable:
    """The file of the rows and the names of its columns."""

    path: str  # as the user wrote it
    file: Path  # the same, unpacked
    format: Literal["csv", "jsonl", "parquet"]
    header: list[str]
    delimiter: str = ","

    def place(self, row: int) -> str:
        """The place of a row, counted from 0, in the file; the header of a CSV is line 1."""
        if self.format == "csv":
            return f"line {row + 2}"
        if self.format == "parquet":
            return f"row {row + 1}"
        with self.file.open("rb") as lines:  # blank lines are no rows
            filled = (number for number, line in enumerate(lines, 1) if line.strip())
            return f"line {next(islice(filled, row, None))}"


@contextmanager
def open_table(path: str) -> Iterator[LogTable]:
    """The table in a file; a gzipped file is unpacked temporarily."""
    file = Path(path)
    if file.is_dir():
        raise LogError(f"{path}: is a folder; give a CSV, .csv.gz, .jsonl, .jsonl.gz or Parquet file")
    if not file.is_file():
        raise LogError(f"{path}: there is no such file; give a CSV, .csv.gz, .jsonl, .jsonl.gz or Parquet file")
    with file.open("rb") as raw, tempfile.TemporaryDirectory(prefix="turnout-") as folder:
        start = raw.read(4)
        if start[:2] == b"\x1f\x8b":
            file = Path(folder) / file.stem
            _unpack(path, file)
        with file.open("rb") as unpacked:
            yield _recognise(path, file, unpacked)


def _unpack(path: str, to: Path) -> None:
    try:
        with gzip.open(path) as packed, to.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        size = to.stat().st_size
        raise LogError(
            f"{path}: the gzip stream is cut off or damaged after line {_count_lines(to)} ({size:,} bytes unpacked: "
            f"{error}); copy or write the file again"
        ) from None


def _count_lines(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(1 for _ in lines)


def _recognise(path: str, file: Path, start: IO[bytes]) -> LogTable:
    """Format and header, by the first bytes; the file's ending matters only for Parquet."""
    first = start.readline(1 << 20)
    if not first.strip():
        if start.read(1 << 20).strip():
            raise LogError(f"{path}: line 1 is blank; the header must be the first line")
        raise LogError(f"{path}: is empty; there must be a header, such as round,client, and a row")
    if first[:4] == b"PAR1" or file.suffix == ".parquet":
        return LogTable(path, file, "parquet", _parquet_header(path, file))
    if b"\0" in first:
        raise LogError(f"{path}: line 1 holds zero bytes; save the file as UTF-8 text (not UTF-16), or as Parquet")
    text = _decode(path, first, 1, 0).removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        return LogTable(path, file, "jsonl", _keys(path, file))
    if CONSOLE.match(text):
        raise LogError(
            f"{path}: is what a server printed, which does not say which clients took part; give the folder of "
            'FlowerStrategy(..., files=Files(record="runs/fleet")), or write one row round,client per result in '
            "aggregate_train"
        )
    text = text.rstrip("\r\n")
    delimiter = max(DELIMITERS, key=text.count)
    return LogTable(path, file, "csv", next(csv.reader([text], delimiter=delimiter)), delimiter)


def _parquet_header(path: str, file: Path) -> list[str]:
    import polars as pl

    try:
        with refuse_panics(path):
            return pl.scan_parquet(file).collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise LogError(f"{path}: is not a whole Parquet file ({first_line(error)}); write it again") from None


def _keys(path: str, file: Path) -> list[str]:
    keys: dict[str, None] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(islice(lines, LINES_FOR_KEYS), 1):
            if line.strip():
                keys |= dict.fromkeys(_json_object(path, line, number))
    return list(keys)


def _json_object(path: str, line: bytes, number: int) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        _decode(path, line, number, 0)
        record = None
    if not isinstance(record, dict):
        shown = line.strip()[:40].decode(errors="replace")
        raise LogError(f"{path}: line {number} is not a JSON object ({shown}); every line must be one, in braces")
    return record


def _decode(path: str, line: bytes, number: int, offset: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise LogError(
            f"{path}: line {number} is not UTF-8 (byte 0x{line[error.start]:02x} at offset {offset + error.start:,} "
            "of the file); save the file as UTF-8"
        ) from None


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def refuse_file(table: LogTable) -> None:
    """Search line by line for what the fast reader could not read, and raise an error that names it."""
    if table.format == "parquet":
        return
    offset, opened = 0, None  # where a quotation mark was opened that is not closed yet
    with table.file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = _decode(table.path, line, number, offset)
            offset += len(line)
            if table.format == "csv":
                _refuse_fields(table, text, number)
                if line.count(b'"') % 2:
                    opened = number if opened is None else None
            elif line.strip():
                _json_object(table.path, line, number)
    if opened is not None:
        raise LogError(f"{table.path}: line {opened} opens a quotation mark that is never closed; close or remove it")


def _refuse_fields(table: LogTable, text: str, number: int) -> None:
    if text.count(table.delimiter) < len(table.header):
        return
    fields = len(next(csv.reader([text], delimiter=table.delimiter)))
    if fields > len(table.header):
        raise LogError(
            f"{table.path}: line {number} has {fields} fields, but the header has {len(table.header)}; "
            "put a text that holds the separator in double quotes"
        )
