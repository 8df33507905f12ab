"""Sums over runs, per slot or per client, in time proportional to the number of runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Complex, Float, Int, Shaped

from turnout.statistics import evenly
from turnout.workbench.diagnosis.reading.log import Log, Runs

PerClient = Float[np.ndarray, " clients"]
PerSlot = Float[np.ndarray, " slots"]

MIN_WATCHED_SHARE = 0.1  # of the largest number of watched clients, for a slot to represent the fleet


def watched_runs(log: Log) -> Runs:
    """The runs in which each client was observed, also if that is always."""
    if log.watched is not None:
        return log.watched
    everyone = np.arange(log.num_clients, dtype=np.int32)
    return Runs(everyone, np.zeros_like(everyone), np.full_like(everyone, log.num_slots))


def watched_slots(log: Log) -> Int[np.ndarray, " clients"]:
    """Number of slots in which each client was observed."""
    return watched_runs(log).slots_of(log.num_clients)


def per_slot(runs: Runs, num_slots: int, weight: PerClient | None = None) -> PerSlot:
    """Sum of the clients' weights (1 each if None) over those whose runs hold the slot."""
    of_run = None if weight is None else weight[runs.client]
    begins = np.bincount(runs.first, of_run, minlength=num_slots + 1)
    ends = np.bincount(runs.end, of_run, minlength=num_slots + 1)
    if weight is None:  # whole numbers are exact
        return np.cumsum(begins - ends)[:num_slots].astype(np.float64)
    held = np.cumsum(begins - ends)[:num_slots]
    nobody = per_slot(runs, num_slots) == 0
    return np.where(nobody, 0.0, held)


def over_runs(runs: Runs, value: Shaped[np.ndarray, " slots"], num_clients: int) -> Shaped[np.ndarray, " clients"]:
    """Sum of a real or complex value of the slots over each client's runs."""
    total = np.concatenate([np.zeros(1, value.dtype), np.cumsum(value)])
    of_run = total[runs.end] - total[runs.first]
    if np.iscomplexobj(of_run):
        parts = (np.real(of_run), np.imag(of_run))
        real, imaginary = (np.bincount(runs.client, part, minlength=num_clients) for part in parts)
        return real + 1j * imaginary
    return np.bincount(runs.client, of_run, minlength=num_clients)


def transform(runs: Runs, frequency: float, num_slots: int, num_clients: int) -> Complex[np.ndarray, " clients"]:
    """Fourier sums Σ_t exp(-2πi f t) over each client's runs, f in cycles per slot."""
    return over_runs(runs, np.exp(-2j * np.pi * frequency * np.arange(num_slots)), num_clients)


def excess_of(log: Log, pi: PerClient) -> tuple[PerSlot, PerSlot]:
    """Share of the watched clients that is present, minus the share that their π predicts, and how many are watched.

    So it does not depend on which clients are watched when.
    """
    observed = watched_runs(log)
    watched = per_slot(observed, log.num_slots)
    expected = per_slot(observed, log.num_slots, np.nan_to_num(pi))
    return (per_slot(log.present, log.num_slots) - expected) / np.maximum(watched, 1), watched


def representative(watched: PerSlot) -> Bool[np.ndarray, " slots"]:
    """Slots in which enough clients are watched to stand for the fleet: a tenth of the most that ever are."""
    return watched >= max(1.0, MIN_WATCHED_SHARE * float(watched.max(initial=0.0)))


def holders(inner: Runs, outer: Runs, num_slots: int) -> Int[np.ndarray, " runs"]:
    """Index of the outer run that contains each inner one."""
    lifted = outer.client.astype(np.int64) * num_slots + outer.first
    return np.searchsorted(lifted, inner.client.astype(np.int64) * num_slots + inner.first, side="right") - 1


RUNS = ("present", "watched", "averaged")  # fields of a log


def select(log: Log, clients: Int[np.ndarray, " selected"]) -> Log:
    """The log restricted to these clients, given in ascending order."""
    clients = np.asarray(clients)

    def cut(runs: Runs) -> Runs:
        place = np.full(log.num_clients, -1, np.int32)
        place[clients] = np.arange(len(clients), dtype=np.int32)
        kept = place[runs.client] >= 0
        return Runs(place[runs.client[kept]], runs.first[kept], runs.end[kept])

    columns = {
        name: None if getattr(log, name) is None else getattr(log, name)[clients]
        for name in ("sizes", "losses", "arrived", "steps", "target", "uploads")
    }
    runs = {name: None if (own := getattr(log, name)) is None else cut(own) for name in RUNS}
    return replace(log, names=log.names[clients], **runs, **columns)


def window(log: Log, first: int, end: int) -> Log:
    """The log from slot `first` to before slot `end`, renumbered from 0."""

    def cut(runs: Runs) -> Runs:
        begin, stop = np.maximum(runs.first, first) - first, np.minimum(runs.end, end) - first
        kept = begin < stop
        return Runs(runs.client[kept], begin[kept].astype(np.int32), stop[kept].astype(np.int32))

    clock = log.clock_start + first * (log.slot_seconds or 0.0)
    runs = {name: None if (own := getattr(log, name)) is None else cut(own) for name in RUNS}
    begins = None if log.begins is None else log.begins[first:end]
    return replace(log, num_slots=end - first, clock_start=clock, begins=begins, **runs)


def sample(log: Log, most_cells: int, most_clients: int) -> Int[np.ndarray, " selected"]:
    """Clients spread evenly over the fleet, such that their matrix has at most so many cells and rows."""
    count = max(2, min(most_clients, most_cells // max(log.num_slots, 1)))
    return evenly(log.num_clients, count)


def own_time(log: Log) -> tuple[Runs, Runs]:
    """Runs of presence and watched runs in each client's own time: only its watched slots, numbered from 0.

    There is then one watched run per client. Runs of presence may touch where unwatched time was left out.
    """
    observed = watched_runs(log)
    length = observed.length.astype(np.int64)
    passed = np.cumsum(length) - length
    begins = np.searchsorted(observed.client, np.arange(log.num_clients))
    of_client = np.concatenate([passed, [length.sum()]])[begins]
    shift = (observed.first - (passed - of_client[observed.client]))[holders(log.present, observed, log.num_slots)]
    present = Runs(
        log.present.client, (log.present.first - shift).astype(np.int32), (log.present.end - shift).astype(np.int32)
    )
    everyone = np.arange(log.num_clients, dtype=np.int32)
    return present, Runs(everyone, np.zeros_like(everyone), observed.slots_of(log.num_clients).astype(np.int32))


def per_block(
    runs: Runs, length: Int[np.ndarray, " clients"], num_clients: int, count: int
) -> Float[np.ndarray, "clients blocks"]:
    """Number of slots of each client's runs in each of `count` blocks of the client's own length, from slot 0 on."""
    width = length[runs.client].astype(np.int64)
    first, end = runs.first.astype(np.int64), np.minimum(runs.end, count * width)
    kept = first < end
    client, first, end, width = runs.client[kept].astype(np.int64), first[kept], end[kept], width[kept]
    sums = np.zeros(num_clients * count)
    while len(client):  # runs that cross the edge of a block go round again with their rest
        block = first // width
        cut = np.minimum(end, (block + 1) * width)
        sums += np.bincount(client * count + block, cut - first, minlength=num_clients * count)
        rest = cut < end
        client, first, end, width = client[rest], cut[rest], end[rest], width[rest]
    return sums.reshape(num_clients, count)
