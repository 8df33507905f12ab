"""The columns that a log may have, under any of their usual names, and the shapes of logs."""

from __future__ import annotations

from collections.abc import Iterable

from turnout.diagnosis.reading.errors import LogError
from turnout.metrics import TRAIN_LOSS

# The first of these names that a file has is used.
ALIASES: dict[str, tuple[str, ...]] = {
    "client": ("client", "client_id", "cid", "node_id", "node", "partition_id", "device_id", "device", "user_id"),
    "round": ("round", "server_round", "rnd", "current_round", "round_id"),
    "start": ("start", "start_s", "start_time", "begin"),
    "end": ("end", "end_s", "end_time", "stop"),
    "state": ("state",),
    "event": ("event", "event_type"),
    "time": ("time", "timestamp", "time_s", "ts"),
    "size": ("size", "num_examples", "num_samples", "examples"),
    "loss": ("loss", TRAIN_LOSS),
    "arrived": ("arrived", "received"),
    "steps": ("steps", "num_steps", "local_steps"),
    "target": ("target",),
}
TEXT = ("client", "event")
FLAGS = ("arrived", "state")
TIMES = ("start", "end", "time")

INTERVALS, EVENTS, ROUNDS = ("client", "start", "end"), ("round", "client", "event"), ("round", "client")
OPTIONAL = {
    INTERVALS: ("state", "size"),
    EVENTS: ("time", "size", "loss", "steps"),
    ROUNDS: ("time", "size", "loss", "arrived", "steps"),
}
SHAPES = "a log has the columns round,client or client,start,end[,state] or timestamp,round,client,event"


def recognised_columns(header: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """The file's own name of each recognised column, and warnings about two columns that mean the same."""
    present = {}
    for name in header:
        present.setdefault(name.strip().lower(), name)
    file_names, warnings = {}, []
    for column, aliases in ALIASES.items():
        names = [present[alias] for alias in aliases if alias in present]
        if names:
            file_names[column] = names[0]
        if len(names) > 1:
            warnings.append(f"columns {' and '.join(names)} all mean the {column}; {names[0]} was used")
    return file_names, warnings


def shape_of(path: str, header: list[str], recognised: Iterable[str]) -> tuple[str, ...]:
    """The shape of a log, by its columns."""
    columns = set(recognised)
    for shape in (INTERVALS, EVENTS, ROUNDS):
        if columns >= set(shape):
            return shape
    nearest = max((ROUNDS, EVENTS, INTERVALS), key=lambda shape: len(columns & set(shape)) / len(shape))
    missing = [name for name in nearest if name not in columns]
    shown = ", ".join(name.strip() for name in header[:12]) + (", …" if len(header) > 12 else "")
    raise LogError(f"{path}: no column {', '.join(missing)} among {shown}; {SHAPES}")
