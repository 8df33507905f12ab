"""Logs with one row per event, as Flower servers write them: timestamp, round, node, event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turnout.workbench.diagnosis.reading.log import AVAILABILITY, PARTICIPATION, Log, Runs, Shows
from turnout.workbench.diagnosis.reading.round_rows import count_slots, log_of_rounds, runs_of_points, slots_of_rounds
from turnout.workbench.diagnosis.reading.round_times import clock_of
from turnout.workbench.diagnosis.reading.row_codes import Rows, warn_of_dropped

# The kinds of events, each with its usual names; capitals, spaces and hyphens do not matter.
VOCABULARY: dict[str, tuple[str, ...]] = {
    "available": ("available", "online", "connected"),
    "asked": ("asked", "sampled", "selected", "invited", "configure_fit", "configure_train", "fit_ins"),
    "arrived": ("arrived", "train", "fit", "reply", "success", "completed", "fit_res", "train_reply"),
    "failed": ("failed", "failure", "error", "timeout", "dropped", "dropout"),
    "unknown": ("unknown", "listed", "busy"),  # nothing is known of the client in this round
    "round": ("round", "start", "round_start"),  # of the server: a round began, whoever came
    "": ("end", "round_end", "evaluate", "evaluate_res", "evaluate_reply", "aggregate"),
}
VOCABULARY[""] += ("unavailable", "offline", "member", "late")  # they say nothing of who was there
KIND_OF_EVENT = {name: kind for kind, names in VOCABULARY.items() for name in names}
TOOK_PART = ("asked", "arrived", "failed")


def from_events(rows: Rows, num_rounds: int | None, slot_seconds: float | None) -> Log:
    """A client was present in a round if the log says that it was available, was asked, replied or failed.

    The share of arrivals is the share of rounds with a reply among those in which the client was asked. It is known
    only if the log has rows of clients that were asked or that failed. In a round in which nothing is known of a client
    it was not watched; a client that is only named, as a member of the fleet, never came. Where not everybody present
    was asked, as in a run that samples, weights are those of the updates that arrived.
    """
    kind, warnings = _kinds(rows)
    of_client = np.isin(kind, ("available", *TOOK_PART))
    unknown = kind == "unknown"
    slot, first = slots_of_rounds(rows, of_client | unknown | (kind == "round"))
    rows.refuse(of_client & (rows.codes["client"] < 0), lambda r: "has an event of a client, but no client")
    num_slots = count_slots(rows, slot, first, num_rounds)
    clock, more = clock_of(rows, slot, num_slots, slot_seconds)
    count = len(rows.names["client"])
    present, _ = runs_of_points(rows.codes["client"][of_client], slot[of_client], num_slots)
    repeated = _find_repeated(rows, of_client, slot, num_slots)
    warnings += [*more, *warn_of_dropped(rows, repeated, "duplicate rows")]
    counted = of_client & ~repeated
    log = log_of_rounds(rows, num_slots, present, clock, counted, warnings)
    watched = _find_watched(log, rows.codes["client"][unknown], slot[unknown]) if unknown.any() else None
    arrived, uploads = _share_arrived(rows.codes["client"], slot, kind, count)
    averaged = _find_averaged(rows.codes["client"], slot, kind, num_slots)
    shows = Shows(PARTICIPATION, "it names only clients that were asked or replied")
    if np.isin(kind, ("available", "unknown")).any():
        shows = Shows(AVAILABILITY, "it tells who was there apart from who was asked", surely=True)
    log = replace(log, arrived=arrived, uploads=uploads, watched=watched, first_round=first)
    return replace(log, averaged=averaged, shows=shows)


def _find_averaged(client: np.ndarray, slot: np.ndarray, kind: np.ndarray, num_slots: int) -> Runs | None:
    """Whose updates arrived, if the log tells of clients that were there, or listed, but not asked; else None."""
    points = client.astype(np.int64) * num_slots + slot
    listed, asked = (np.isin(kind, kinds) for kinds in (("available", "unknown"), TOOK_PART))
    arrived = kind == "arrived"
    if not arrived.any() or np.isin(points[listed], points[asked]).all():
        return None
    return runs_of_points(client[arrived], slot[arrived], num_slots)[0]


def _find_watched(log: Log, client: np.ndarray, slot: np.ndarray) -> Runs:
    """When each client was observed: always but at these points, and wherever it was present."""
    watched = np.ones((log.num_clients, log.num_slots), bool)
    watched[client, slot] = False
    return Runs.from_matrix(watched | log.matrix())


def _kinds(rows: Rows) -> tuple[np.ndarray, list[str]]:
    """The kind of each row, "" if it does not matter, and one warning per unknown event."""
    events, warnings = rows.codes["event"], []
    rows.refuse((events < 0) & (rows.codes["client"] >= 0), lambda r: "has no event; every row needs one")
    meaning = []
    for code, name in enumerate(rows.names["event"].tolist()):
        plain = name.lower().replace(" ", "_").replace("-", "_")
        meaning.append(KIND_OF_EVENT.get(plain, ""))
        if plain not in KIND_OF_EVENT:
            warnings += warn_of_dropped(rows, events == code, f'rows with the unknown event "{name}"')
    return np.array([*meaning, ""])[events], warnings  # code -1 reads the last entry


def _find_repeated(rows: Rows, of_client: np.ndarray, slot: np.ndarray, num_slots: int) -> np.ndarray:
    """Which rows repeat an event of the same client and round."""
    repeated = np.zeros(rows.count, bool)
    for code in range(len(rows.names["event"])):
        which = np.flatnonzero(of_client & (rows.codes["event"] == code))
        if len(which):
            _, twice = runs_of_points(rows.codes["client"][which], slot[which], num_slots)
            repeated[which[twice]] = True
    return repeated


def _share_arrived(
    client: np.ndarray, slot: np.ndarray, kind: np.ndarray, count: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Share of the participations of each client that arrived, and how many they were."""
    if not np.isin(kind, ("asked", "failed")).any():
        return None, None

    def rounds(*kinds: str) -> np.ndarray:
        which = np.isin(kind, kinds)
        pairs = np.unique(client[which].astype(np.int64) * (int(slot.max()) + 1) + slot[which])
        return np.bincount(pairs // (int(slot.max()) + 1), minlength=count)

    took_part = rounds(*TOOK_PART)
    return np.divide(rounds("arrived"), took_part, out=np.full(count, np.nan), where=took_part > 0), took_part
