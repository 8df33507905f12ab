"""The columns that a log may have, under any of their usual names, and the shapes of logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from turnout.metrics import TRAIN_LOSS
from turnout.workbench.diagnosis.reading.errors import LogError

# The first of these names that a file has is used.
ALIASES: dict[str, tuple[str, ...]] = {
    "client": (
        *("client", "client_id", "cid", "node_id", "node", "partition_id", "device_id", "device", "user_id", "user"),
        *("participant_id", "participant", "worker_id", "worker", "phone_id", "phone", "hostname", "uuid"),
    ),
    "round": ("round", "server_round", "rnd", "current_round", "round_id", "global_round", "communication_round"),
    "start": (
        *("start", "start_s", "start_time", "begin", "begin_time", "started_at", "session_start", "connected_at"),
        *("started", "start_ts", "t_start", "began_at", "sent_at", "dispatched_at", "train_start", "fit_start"),
    ),
    "end": (
        *("end", "end_s", "end_time", "stop", "stop_time", "ended_at", "session_end", "disconnected_at"),
        *("ended", "end_ts", "t_end", "finish", "finished", "finish_time", "finished_at", "completed_at"),
        *("arrived_at", "received_at", "train_end", "fit_end"),
    ),
    "duration": (
        *("duration", "duration_s", "elapsed", "elapsed_s", "elapsed_time", "seconds", "fit_time", "train_time"),
        *("training_time", "wall_time"),
    ),
    "state": ("state", "online", "available"),
    "event": ("event", "event_type"),
    "time": ("time", "timestamp", "time_s", "ts", "datetime", "created_at"),
    "size": ("size", "num_examples", "num_samples", "examples", "dataset_size"),
    "loss": ("loss", TRAIN_LOSS),
    "arrived": ("arrived", "received", "success", "succeeded", "completed"),
    "asked": ("asked", "selected", "sampled", "invited"),
    "steps": ("steps", "num_steps", "local_steps"),
    "target": ("target",),
}
TEXT = ("client", "event")
FLAGS = ("arrived", "asked", "state")
TIMES = ("start", "end", "time")

INTERVALS, EVENTS, ROUNDS = ("client", "start", "end"), ("round", "client", "event"), ("round", "client")
WORK = ("client", "start")  # and an end or a duration
LENGTHS = ("start", "end", "duration")  # of work
OPTIONAL = {
    INTERVALS: ("state", "size"),
    EVENTS: ("time", "size", "loss", "steps"),
    ROUNDS: ("time", "size", "loss", "arrived", "asked", "steps", *LENGTHS),
    WORK: ("end", "duration", "size", "loss", "arrived", "steps"),
}
# Without a round these tell that a row with a start and an end is a piece of work: columns, and names of its ends.
COLUMNS_OF_WORK = {"duration", "loss", "arrived", "steps"}
NAMES_OF_WORK = {
    *("started", "sentat", "dispatchedat", "trainstart", "fitstart", "ended", "finish", "finished"),
    *("finishtime", "finishedat", "completedat", "arrivedat", "receivedat", "trainend", "fitend"),
}
SESSIONS, OF_WORK = "sessions", "work"  # what the user may say that rows with a start and an end are
SHAPES = "a log has the columns round,client or client,start,end[,state] or timestamp,round,client,event"


def recognise_columns(
    header: Iterable[str], named: Mapping[str, str] = MappingProxyType({})
) -> tuple[dict[str, str], list[str]]:
    """The file's own name of each recognised column, and warnings about two columns that mean the same.

    Capitals, blanks, hyphens, underscores and dots do not matter: `Device ID` is `device_id`. `named` says which column
    of the file is which.
    """
    header = list(header)
    _refuse_unknown(header, named)
    present: dict[str, str] = {}
    for name in header:
        present.setdefault(_letters(name), name)
    file_names, warnings = {}, []
    for column, aliases in ALIASES.items():
        names = [present[_letters(alias)] for alias in aliases if _letters(alias) in present]
        if column in named:
            names = [next(name for name in header if name.strip() == named[column].strip())]
        names = [name for name in names if column in named or name.strip() not in map(str.strip, named.values())]
        if names:
            file_names[column] = names[0]
        if len(names) > 1:
            warnings.append(f"columns {' and '.join(names)} all mean the {column}; {names[0]} was used")
    return file_names, warnings


def _letters(name: str) -> str:
    """A name without capitals and without what stands between its words."""
    return re.sub(r"[\s_.\-]+", "", name.strip().lower())


def _refuse_unknown(header: list[str], named: Mapping[str, str]) -> None:
    for column, name in named.items():
        if column not in ALIASES:
            raise LogError(f"columns: {column}: is no column of a log; there are {', '.join(ALIASES)}")
        if name.strip() not in map(str.strip, header):
            raise LogError(f"columns: {column} = {name!r}: the file has no such column, but {_shown(header)}")


def _shown(header: list[str]) -> str:
    return ", ".join(name.strip() for name in header[:12]) + (", …" if len(header) > 12 else "")


def shape_of(path: str, header: list[str], recognised: Mapping[str, str], shows: str | None = None) -> tuple[str, ...]:
    """The shape of a log, by its columns; `shows`: what the user says of them.

    Rows with a start and an end are work if they have a round, or something else that only work has; else they are
    stretches of time in which a client was there.
    """
    columns = set(recognised)
    timed = {"client", "start"} < columns and bool(columns & {"end", "duration"})
    if shows == OF_WORK and not (columns & {"end", "duration"} and (timed or columns >= set(ROUNDS))):
        raise LogError(
            f"{path}: shows = {OF_WORK!r}, but there are no times of work among {_shown(header)}; a log of work has "
            "the columns [round,]client,started and ended or duration"
        )
    if shows == SESSIONS or "state" in columns:
        shapes = (INTERVALS, EVENTS, ROUNDS)
    elif timed and "round" not in columns and (shows == OF_WORK or _are_work(recognised)):
        shapes = (WORK,)
    else:
        shapes = (EVENTS, ROUNDS, INTERVALS)
    for shape in shapes:
        if columns >= set(shape):
            return shape
    nearest = max((ROUNDS, EVENTS, INTERVALS), key=lambda shape: len(columns & set(shape)) / len(shape))
    missing = [name for name in nearest if name not in columns]
    shapes = f"the nearest shape of a log is {','.join(nearest)}" if columns & set(nearest) else SHAPES
    raise LogError(
        f"{path}: no column {', '.join(missing)} among {_shown(header)}; {shapes}. "
        f'Say which column it is: --columns {missing[0]}="{header[0].strip()}"'
    )


def _are_work(recognised: Mapping[str, str]) -> bool:
    """Whether the columns beside client, start and end are those of work."""
    names = {_letters(recognised[column]) for column in ("start", "end") if column in recognised}
    return bool(COLUMNS_OF_WORK & set(recognised) or NAMES_OF_WORK & names)
