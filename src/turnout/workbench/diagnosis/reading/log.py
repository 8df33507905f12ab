"""A participation log after reading: who was present in which slots."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int32, Shaped

from turnout.declarations import Numbers, hold
from turnout.declarations.kinds import as_array
from turnout.errors import nearest

Clients = Sequence[int] | Int[np.ndarray, " selected"]
Bounds = int | Int[np.ndarray, " runs"]


@dataclass(frozen=True)
class Runs:
    """Stretches of slots, sorted by client, then by first slot; those of a client neither overlap nor touch."""

    client: Int32[np.ndarray, " runs"]
    first: Int32[np.ndarray, " runs"]  # first slot
    end: Int32[np.ndarray, " runs"]  # the slot after the last

    @property
    def length(self) -> Int32[np.ndarray, " runs"]:
        """Number of slots in each stretch."""
        return self.end - self.first

    def slots_of(self, num_clients: int) -> Int[np.ndarray, " clients"]:
        """Number of slots in each client's stretches."""
        return np.bincount(self.client, self.length, minlength=num_clients).astype(np.int64)

    def matrix(self, clients: Clients, num_slots: int) -> Bool[np.ndarray, "selected slots"]:
        """True in the stretches: one row per entry of `clients`, in that order, and one column per slot."""
        wanted = np.asarray(clients, np.int64)
        low, high = np.searchsorted(self.client, wanted), np.searchsorted(self.client, wanted, side="right")
        row = np.repeat(np.arange(len(wanted)), high - low)
        run = np.arange(len(row)) + np.repeat(low - np.r_[0, np.cumsum(high - low)[:-1]], high - low)
        change = np.zeros((len(wanted), num_slots + 1), np.int8)
        np.add.at(change, (row, self.first[run]), np.int8(1))
        np.add.at(change, (row, self.end[run]), np.int8(-1))
        return np.cumsum(change[:, :-1], axis=1, dtype=np.int8) > 0

    @classmethod
    def merge(
        cls, client: Int[np.ndarray, " rows"], first: Int[np.ndarray, " rows"], end: Int[np.ndarray, " rows"]
    ) -> Runs:
        """The stretches that rows [first, end) cover together; rows may overlap, touch and come in any order."""
        nonempty = first < end
        client, first, end = client[nonempty], first[nonempty], end[nonempty]
        order = np.lexsort((first, client))
        client, first, end = client[order], first[order], end[order]
        if len(client) == 0:
            return cls(*(np.zeros(0, np.int32) for _ in range(3)))
        # One running maximum gives the latest end so far of every client: each client is shifted above the one before.
        lift = (client.astype(np.int64) - client[0]) * (int(end.max()) - int(first.min()) + 1)
        reached = np.maximum.accumulate(end + lift)
        begins = np.r_[True, (first + lift)[1:] > reached[:-1]]
        begins |= np.r_[True, client[1:] != client[:-1]]
        last = np.r_[np.flatnonzero(begins)[1:] - 1, len(client) - 1]
        ends = reached[last] - lift[last]
        return cls(client[begins].astype(np.int32), first[begins].astype(np.int32), ends.astype(np.int32))

    def clip(self, begin: Bounds, end: Bounds) -> Runs:
        """The parts of the stretches from slot `begin` to before slot `end`: one of each for all, or for each run."""
        return Runs.merge(self.client, np.maximum(self.first, begin), np.minimum(self.end, end))

    @classmethod
    def union(cls, parts: Sequence[Runs]) -> Runs:
        """The stretches that any of these covers."""
        columns = zip(*((part.client, part.first, part.end) for part in parts), strict=True)
        return cls.merge(*(np.concatenate(column) for column in columns))

    def complement(self, num_clients: int, num_slots: int) -> Runs:
        """The slots of each client that no stretch covers."""
        everyone = np.arange(num_clients)
        firsts = np.concatenate([np.zeros(num_clients, np.int64), self.end])
        ends = np.concatenate([self.first, np.full(num_clients, num_slots)])
        from_client, to_client = np.concatenate([everyone, self.client]), np.concatenate([self.client, everyone])
        begin, stop = np.lexsort((firsts, from_client)), np.lexsort((ends, to_client))
        return Runs.merge(from_client[begin], firsts[begin], ends[stop])

    @classmethod
    def from_matrix(cls, matrix: Bool[np.ndarray, "clients slots"]) -> Runs:
        """The stretches of true values in each row."""
        edge = np.zeros((matrix.shape[0], 1), np.int8)
        change = np.diff(matrix.astype(np.int8), axis=1, prepend=edge, append=edge)
        client, first = np.nonzero(change > 0)
        end = np.nonzero(change < 0)[1]
        return cls(client.astype(np.int32), first.astype(np.int32), end.astype(np.int32))


_OF_FLEET = {
    "slot_seconds": Annotated[float | None, Numbers(0, above=True)],
    "clock_start": float | int,
    "first_round": int,
    "dated": bool,
    "zone": str,
}
_OF_CLIENTS = {
    "sizes": (0, math.inf),
    "losses": (-math.inf, math.inf),
    "arrived": (0, 1),
    "steps": (0, math.inf),
    "target": (0, 1),
}


def _check_given(
    present: np.ndarray, names: Sequence[str] | None, watched: np.ndarray | None, fields: Mapping[str, Any]
) -> None:
    """Refuse what cannot be a log: no table of truth values, or fields that mean nothing."""
    hold("names", names, Sequence[str] | None)
    for name, table in (("present", present), ("watched", watched)):
        whole = isinstance(table, np.ndarray) and table.dtype == np.bool_ and table.ndim == 2
        if not whole and (table is not None or name == "present"):
            raise TypeError(f"{name} must be an array of truth values, one row per client and one column per slot")
    if watched is not None and watched.shape != present.shape:
        raise ValueError(f"watched has shape {watched.shape}, but present {present.shape}: they must be the same")
    known = {one.name for one in dataclasses.fields(Log)}
    for name, value in fields.items():
        if name not in known:
            raise TypeError(f"a log has no field {name!r}: {nearest(name, known)}")
        if name in _OF_FLEET:
            hold(name, value, _OF_FLEET[name])
        elif name in _OF_CLIENTS and value is not None:
            numbers, (low, high) = as_array(value), _OF_CLIENTS[name]
            if numbers is None or numbers.dtype.kind == "b":
                raise TypeError(f"{name} must be numbers, one per client, not {type(value).__name__}")
            # NaN is a client of which it is not known.
            if numbers.shape != present.shape[:1] or ((numbers < low) | (numbers > high) | np.isinf(numbers)).any():
                raise ValueError(f"{name} must be {len(present)} numbers from {low} to {high}, one per client")


AVAILABILITY, PARTICIPATION = "availability", "participation"


@dataclass(frozen=True)
class Shows:
    """What a log shows of a client that is absent: that it could not take part, or only that it did not."""

    kind: str  # AVAILABILITY or PARTICIPATION
    because: str  # how that is known, in words
    surely: bool = False  # whether the log itself or the user says so
    otherwise: str = ""  # what to say if its rows are something else


@dataclass(frozen=True)
class LoggedWork:
    """Pieces of work of which the log says how long they took, or at least how long."""

    client: Int32[np.ndarray, " pieces"]
    slot: Int[np.ndarray, " pieces"]  # in which it began
    seconds: Float[np.ndarray, " pieces"]  # from start to end; of work without an end, what it surely took
    ended: Bool[np.ndarray, " pieces"]  # whether the end is known
    steps: Float[np.ndarray, " pieces"] | None  # local steps
    running: int  # pieces that were still running when the log ended
    given_up: int  # without an end, though their client began something else later
    because: str  # why times are taken for those of work, in words
    surely: bool = False  # whether the user says so
    in_rounds: bool = True  # whether the log says in which round work was asked for


@dataclass(frozen=True)
class Log:
    """Who was present, slot by slot; a slot is a round of the log, or a stretch of time of fixed length.

    Clients are numbered in the order in which the log first names them, or in that of a list of all clients.
    """

    names: Shaped[np.ndarray, " clients"]  # text
    num_slots: int  # slots 0 to num_slots - 1
    present: Runs  # when each client was present
    watched: Runs | None = None  # when each client was observed at all; None: always
    slot_seconds: float | None = None  # None: rounds without a clock
    clock_start: float = 0.0  # start of slot 0, in seconds after a midnight of the log's clock; of Monday if `dated`
    sizes: Float[np.ndarray, " clients"] | None = None  # examples of a client
    losses: Float[np.ndarray, " clients"] | None = None  # mean reported loss, NaN if there is none
    arrived: Float[np.ndarray, " clients"] | None = None  # share of participations whose update arrived
    steps: Float[np.ndarray, " clients"] | None = None  # mean number of local steps
    warnings: tuple[str, ...] = ()  # what was dropped or corrected while reading
    target: Float[np.ndarray, " clients"] | None = None  # α, how much each should count, with sum 1; None: not stated
    uploads: Int[np.ndarray, " clients"] | None = None  # participations of which `arrived` says whether they arrived
    first_round: int = 0  # the log's own number of slot 0
    averaged: Runs | None = None  # whose updates arrived; None: everybody present was asked, or the log does not say
    dated: bool = False  # whether the times are dates, so that the day of the week is known
    zone: str = ""  # the time zone of the clock; "": the log does not say
    begins: Float[np.ndarray, " slots"] | None = None  # when each slot began, in seconds, since 1970 if `dated`

    shows: Shows | None = None  # None: nothing says what the log shows
    work: LoggedWork | None = None  # None: the log does not say how long work takes

    @property
    def num_clients(self) -> int:
        return len(self.names)

    @property
    def slot_hours(self) -> float:
        """Length of a slot; without a clock, a slot is the unit of time."""
        return self.slot_seconds / 3600 if self.slot_seconds else 1.0

    @property
    def slots_since_midnight(self) -> float:
        """From a midnight of the log's clock to slot 0; 0 without a clock."""
        return self.clock_start / self.slot_seconds if self.slot_seconds else 0.0

    def matrix(self, clients: Clients | None = None) -> Bool[np.ndarray, "selected slots"]:
        """Who was present: one row per entry of `clients` (all if None), one column per slot.

        The whole matrix of a million clients does not fit in memory; ask for a part of the clients at a time.
        """
        return self.present.matrix(range(self.num_clients) if clients is None else clients, self.num_slots)

    def watched_matrix(self, clients: Clients | None = None) -> Bool[np.ndarray, "selected slots"]:
        """Who was observed, present or not, in the shape of `matrix`."""
        chosen = range(self.num_clients) if clients is None else clients
        if self.watched is not None:
            return self.watched.matrix(chosen, self.num_slots)
        return np.ones((len(chosen), self.num_slots), bool)

    @classmethod
    def from_matrix(
        cls,
        present: Bool[np.ndarray, "clients slots"],
        names: Sequence[str] | None = None,
        watched: Bool[np.ndarray, "clients slots"] | None = None,
        **fields: Any,
    ) -> Log:
        """Build a log from a table of presence; clients are named 0, 1, 2, … if not given, unwatched means absent.

        `fields` are further fields of the log, such as `slot_seconds` and `sizes`.
        """
        _check_given(present, names, watched, fields)
        labels = np.array([str(k) for k in range(len(present))] if names is None else list(names), dtype=np.str_)
        if len(labels) != len(present):
            raise ValueError(f"{len(labels)} names for {len(present)} clients; give one name per row")
        observed = present if watched is None else present & watched
        windows = None if watched is None else Runs.from_matrix(watched)
        return cls(labels, present.shape[1], Runs.from_matrix(observed), windows, **fields)
