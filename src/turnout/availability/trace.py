"""Availability as it was recorded."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from turnout.availability.base import Process
from turnout.availability.recorded.phones import is_published, read_published
from turnout.availability.recorded.time_slots import DAY, MAX_SLOTS, slots_covered, slots_within
from turnout.declarations import Count, Counts, Positive, checked
from turnout.errors import check_installed
from turnout.files.downloads import table_file
from turnout.files.integrity import refuse_panics
from turnout.files.opened import note
from turnout.types import Mask, RandomKey, Round

MAX_BYTES = 2**32  # of a recording, at one bit per client and slot
COLUMNS = ("client_id", "start_s", "end_s", "state")


class Trace(Process[tuple[()]]):
    """A recording played back, one slot per round; eight clients share a byte."""

    bits: UInt8[Array, "rounds bytes"]
    length: Counts  # how many rounds were recorded
    wraps: bool = eqx.field(static=True)  # start again at the end; otherwise nobody is available from then on

    @property
    def num_clients(self) -> int:
        return self.length.shape[-1]

    def init(self, key: RandomKey) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], t: Round, key: RandomKey) -> tuple[tuple[()], Mask]:
        t = jnp.asarray(t, self.length.dtype)
        row = jnp.mod(t, self.length) if self.wraps else jnp.minimum(t, self.length - 1)
        client = jnp.arange(self.num_clients)
        byte = self.bits[row, client // 8]
        on = (byte >> (7 - client % 8).astype(jnp.uint8)) & 1 == 1
        return state, on if self.wraps else on & (t < self.length)


@checked
def trace(
    path: str,
    slot: Positive,
    num_clients: Count | None = None,
    end: Literal["wrap", "stop"] = "wrap",
    align: bool = False,
) -> Trace:
    """Read intervals `client_id, start_s, end_s, state` from a CSV (also .csv.gz) or Parquet file.

    A file that does not exist at `path` is looked for in the folder that TURNOUT_DATA names. Published recordings of
    real phones (`turnout.availability.recorded.phones`) are downloaded if they are not there either.

    A round is a slot of `slot` seconds. A client is available in it if its state in the middle of the slot is 1; time
    without a row counts as absent. Clients come in order of first appearance; `num_clients` takes the first ones. Round
    0 begins with the earliest row of the file. With `align`, round 0 is a midnight of the file's clock. Each client
    then begins with its own first day and wraps, or stops, after its own number of whole days: the hour of the day is
    kept.
    """
    if not 0 < slot < np.inf:
        raise ValueError(f"slot = {slot}: must be a positive number of seconds")
    if end not in ("wrap", "stop"):
        raise ValueError(f'end = "{end}": must be "wrap" or "stop"')
    client, start, stop, on = _intervals(*_table(path))
    recorded = int(client.max()) + 1
    count = recorded if num_clients is None else num_clients
    if count > recorded:
        raise ValueError(f"{path}: num_clients = {count}, but the trace holds {recorded}: give at most that")
    origin, seconds = _windows(client, start, stop, recorded, align, wraps=end == "wrap")
    _refuse_long(path, seconds[:count], slot)
    length = slots_within(seconds, slot)
    keep = on & (client < count)
    client, start, stop = client[keep], start[keep] - origin[client[keep]], stop[keep] - origin[client[keep]]
    first, last = slots_covered(start, stop, slot)
    bits = _pack(client, first, last, length[:count])
    return Trace(jnp.asarray(bits), jnp.asarray(length[:count], jnp.int32), end == "wrap")


def _refuse_long(path: str, seconds: np.ndarray, slot: float) -> None:
    """Refuse recordings of too many slots before there is room made for them."""
    slots, count = float(np.max(seconds) / slot), len(seconds)
    if slots > MAX_SLOTS or slots * count / 8 > MAX_BYTES:
        raise ValueError(
            f"{path}: lasts {np.max(seconds):.3g} s, {slots:.3g} slots of {slot:g} s for {count} clients; there is "
            f"room for {MAX_SLOTS:,} slots and {MAX_BYTES >> 30} GiB: are the times seconds? Or take longer slots"
        )


def _windows(
    client: np.ndarray, start: np.ndarray, stop: np.ndarray, count: int, align: bool, wraps: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of each client's time, in seconds."""
    if not align:
        return np.full(count, start.min()), np.full(count, stop.max() - start.min())
    begin, finish = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(begin, client, start)
    np.maximum.at(finish, client, stop)
    midnight = np.floor(begin / DAY) * DAY
    # When it wraps, the hours after the last whole day fill the hours between midnight and the first row.
    return midnight, np.ceil((finish - (begin if wraps else midnight)) / DAY) * DAY


def _pack(client: np.ndarray, first: np.ndarray, last: np.ndarray, length: np.ndarray) -> np.ndarray:
    """One bit per client and round, the first client in the highest bit; eight clients are packed at a time."""
    # Intervals beyond a client's length wrap to its beginning.
    client, first, last = np.tile(client, 2), np.r_[first, first - length[client]], np.r_[last, last - length[client]]
    first, last = np.maximum(first, 0), np.minimum(last, length[client])
    order = np.argsort(client, kind="stable")
    order = order[(first < last)[order]]
    client, first, last = client[order], first[order], last[order]
    rounds = int(length.max())
    bits = np.zeros((rounds, (len(length) + 7) // 8), np.uint8)
    for column in range(bits.shape[1]):
        rows = slice(*np.searchsorted(client, [8 * column, 8 * column + 8]))
        changes = np.zeros((8, rounds + 1), np.int32)
        np.add.at(changes, (client[rows] % 8, first[rows]), 1)
        np.add.at(changes, (client[rows] % 8, last[rows]), -1)
        bits[:, column] = np.packbits(changes[:, :rounds].cumsum(axis=1) > 0, axis=0)[0]
    return bits


def _intervals(path: str, table: dict[str, list[Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Client index, start, end and state of every row, after checks."""
    names, start, stop, state = _columns(path, table)
    _refuse_row(path, names, (state != 0) & (state != 1), lambda r: f"has state {state[r]:g}; must be 0 or 1")
    _refuse_row(
        path,
        names,
        stop <= start,
        lambda r: f"ends at {stop[r]:.15g}, not after its start {start[r]:.15g}; must be later",
    )
    _, appearance, index = np.unique(names, return_index=True, return_inverse=True)
    client = np.argsort(np.argsort(appearance))[index]
    _refuse_disorder(path, names, client, start, stop)
    return client, start, stop, state == 1


def _columns(path: str, table: dict[str, list[Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four columns: the first as text, the others as numbers."""
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ValueError(f"{path}: no column {', '.join(missing)}; the columns must be {', '.join(COLUMNS)}")
    if not table["client_id"]:
        raise ValueError(f"{path}: holds no intervals; there must be at least one row")
    names = np.asarray(["" if name is None else str(name) for name in table["client_id"]])
    _refuse_row(path, names, names == "", lambda r: "has no client_id; every row needs one")

    def numbers(name: str) -> np.ndarray:
        column = table[name]
        values = np.asarray([_number(value) for value in column])
        _refuse_row(path, names, ~np.isfinite(values), lambda r: f"has {name} = {column[r]!r}; must be a number")
        return values

    return names, numbers("start_s"), numbers("end_s"), numbers("state")


def _table(path: str) -> tuple[str, dict[str, list[Any]]]:
    """The path of a trace, and its columns as they are in the file."""
    if is_published(path):
        return path, dict(zip(COLUMNS, map(list, zip(*read_published(path), strict=True)), strict=True))
    file = str(table_file(path))
    return file, _parquet(file) if file.endswith(".parquet") else _csv(file)


def _csv(path: str) -> dict[str, list[str | None]]:
    """Columns as text, by the standard library alone, since polars may not be installed."""
    try:
        with _open(path) as file:
            rows = list(csv.reader(file))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: cannot be read as a {Path(path).suffix} file: {error}") from error
    if not rows:
        raise ValueError(f"{path}: is empty; there must be a header ({','.join(COLUMNS)}) and a row")
    header, *body = rows
    body = [row for row in body if row]
    for number, row in enumerate(body):
        if len(row) > len(header):
            raise ValueError(f"{path}: row {number + 1} has {len(row)} values; the header has {len(header)}")
    return {
        name: [(row[place] if place < len(row) else "") or None for row in body] for place, name in enumerate(header)
    }


def _open(path: str) -> io.TextIOWrapper:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", newline="", encoding="utf-8")
    return open(path, newline="", encoding="utf-8")


def _parquet(path: str) -> dict[str, list[Any]]:
    check_installed("polars", f"{path}: a Parquet file")
    import polars

    note(path)
    try:
        with refuse_panics(path):
            return polars.read_parquet(path).to_dict(as_series=False)
    except polars.exceptions.PolarsError as error:
        raise ValueError(f"{path}: cannot be read as a {Path(path).suffix} file: {error}") from error


def _number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):  # Parquet may hold anything
        return np.nan


def _refuse_disorder(path: str, names: np.ndarray, client: np.ndarray, start: np.ndarray, stop: np.ndarray) -> None:
    order = np.argsort(client, kind="stable")
    before, after = order[:-1], order[1:]
    clash = (client[before] == client[after]) & (start[after] < stop[before])
    bad, previous = np.zeros(len(client), bool), np.zeros(len(client), np.int64)
    bad[after[clash]] = True
    previous[after] = before
    _refuse_row(
        path,
        names,
        bad,
        lambda r: (
            f"starts at {start[r]:.15g}, before the client's row {previous[r] + 1} ends at {stop[previous[r]]:.15g}; "
            "the intervals of a client must be in order and must not overlap"
        ),
    )


def _refuse_row(path: str, names: np.ndarray, bad: np.ndarray, complaint: Callable[[int], str]) -> None:
    """Name the first bad row, counted from 1 without the header."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{path}: row {row + 1} (client {names[row]}) {complaint(row)}")
