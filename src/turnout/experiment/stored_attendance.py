"""Attendance, read back from a run folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from turnout.simulator.attendance import MAX_ROUNDS, STATES, Attendance, watched_clients

ATTENDANCE = "attendance.parquet"
LOG = "participation.csv"  # of a run on real nodes
RANKS = {"available": 1, "asked": 2, "failed": 2, "arrived": 3}  # of events: indices into STATES


def stored_attendances(folder: Path, clients: pl.DataFrame) -> dict[str, Attendance]:
    """Attendance by label, given the table of the folder's clients; empty for folders without one."""
    if (folder / ATTENDANCE).is_file():
        rows = pl.read_parquet(folder / ATTENDANCE)
        parts = rows.partition_by("label", as_dict=True, maintain_order=True)
        return {str(label): _of_rows(part) for (label,), part in parts.items()}
    if not (folder / LOG).is_file() or "name" not in clients.columns:
        return {}
    of_log = _of_log(pl.read_csv(folder / LOG, schema_overrides={"client": pl.String}), clients)
    return {} if of_log is None else {str(clients["label"][0]): of_log}


def _of_rows(rows: pl.DataFrame) -> Attendance:
    rounds, clients = (rows[name].unique(maintain_order=True).to_numpy() for name in ("round", "client"))
    codes = rows["state"].cast(pl.Enum(STATES)).to_physical().to_numpy()
    states = codes.astype(np.uint8).reshape(len(rounds), len(clients))
    return Attendance(int(rows["seed"][0]), rounds, clients, states)


def _of_log(events: pl.DataFrame, clients: pl.DataFrame) -> Attendance | None:
    """Attendance from the events of real nodes, whose rounds count from 0, thinned as that of a simulation."""
    if not events.height or not clients.height:
        return None
    numbers = dict(zip(clients["name"].to_list(), clients["client"].to_list(), strict=True))
    ranked = events.filter(pl.col("event").is_in(list(RANKS)) & pl.col("client").is_in(list(numbers))).select(
        "round",
        pl.col("client").replace_strict(numbers, return_dtype=pl.Int64),
        rank=pl.col("event").replace_strict(RANKS, return_dtype=pl.UInt8),
    )
    rounds = int(np.max(events["round"].to_numpy())) + 1
    whole = np.zeros((rounds, len(numbers)), np.uint8)
    np.maximum.at(whole, (ranked["round"].to_numpy(), ranked["client"].to_numpy()), ranked["rank"].to_numpy())
    shown, watched = np.arange(0, rounds, -(-rounds // MAX_ROUNDS)), watched_clients(len(numbers))
    return Attendance(int(clients["seed"][0]), shown + 1, watched, whole[np.ix_(shown, watched)])
