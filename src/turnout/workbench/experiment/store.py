"""A run folder, written and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from turnout.declarations import checked
from turnout.files.integrity import refuse_panics
from turnout.files.manifest import read_contents
from turnout.files.whole import free_folder, renew_folder, whole_or_absent
from turnout.simulator.ages import NUM_BINS, STARTS
from turnout.simulator.attendance import MAX_ROUNDS, STATES, Attendance, watched_clients
from turnout.simulator.history import KINDS, History
from turnout.workbench.experiment import circumstances, toml
from turnout.workbench.experiment.errors import ExperimentError, files_of
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.former import former_settings
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.sweep import Point, point_label, points
from turnout.workbench.experiment.trust import Code, names_code

OF_RUN = (
    "rate_factors",
    "title",
    "labels",
    "seeds",
    "seconds",
    "seconds_of_a_run",
    "tick_seconds",
)  # keys of `run.json`
CLIENT_MARKS = ("label", "strategy", "seed", "client", "target", "pi", "lam", "duration", "name")
OF_FLEET = {"target", "pi", "lam", "duration"}  # columns that are the same for every seed in one world
NUMBERS = ("experiment.toml", "run.json", "history.parquet", "clients.parquet", "models.npz")
ATTENDANCE = "attendance.parquet"
AGES = "ages.parquet"  # of updates, where work takes time
UNFINISHED = "unfinished"  # folder inside a run folder, until its run is finished
LOG = "participation.csv"  # of a run on real nodes
SESSIONS = "sessions.csv"  # when the clients of such a run were online
RANKS = {"available": 1, "asked": 2, "failed": 2, "arrived": 3}  # of events: indices into STATES

Extra = Callable[[Run, Path], Any]  # writes further files into the folder


@checked
def save(run: Run, out: str | Path, extra: Extra | None = None) -> Path:
    """Write a run folder; if anything fails on the way, nothing is left behind."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        write_run(run, work)
        if extra is not None:
            extra(run, work)
    return folder


def renew(run: Run, folder: Path, extra: Extra | None = None) -> None:
    """Write a run again that has continued; other files in its folder stay.

    All files are written first and then replace the old ones together, so that the folder is whole at any moment.
    """
    with renew_folder(folder) as work:
        write_run(run, work)
        if extra is not None:
            extra(run, work)


def write_run(run: Run, work: Path) -> None:
    """Write the numbers of a run, and how they came about, into a folder."""
    (work / "experiment.toml").write_text(run.toml, encoding="utf-8")
    run.frame().write_parquet(work / "history.parquet")
    run.clients_frame().write_parquet(work / "clients.parquet")
    if (attendance := run.attendance_frame()) is not None:
        attendance.write_parquet(work / ATTENDANCE)
    if (ages := run.ages_frame()) is not None:
        ages.write_parquet(work / AGES)
    np.savez(work / "models.npz", **_models(run))
    (work / "run.json").write_text(json.dumps(run.about, indent=2) + "\n", encoding="utf-8")


def _models(run: Run) -> dict[str, Any]:
    """The final parameters, seeds first: `<number of the point>/<path in the model>`."""
    arrays = {}
    for number, outcome in enumerate(run.points):
        for path, leaf in jax.tree_util.tree_flatten_with_path(outcome.history.params)[0]:
            name = jax.tree_util.keystr(path, simple=True, separator="/") or "params"
            arrays[f"{number}/{name}"] = np.asarray(leaf)
    return dict(sorted(arrays.items()))  # in an order that does not depend on the form of the tree


@checked
def load(folder: str | Path) -> Run:
    """A run read back from its folder; models are flat, arrays by their path.

    Files are checked by the folder's manifest, if it has one. Nothing is imported: code that the experiment names stays
    a name, and then the outcomes are told apart by the tables alone.
    """
    folder = Path(folder)
    contents = read_contents(folder, (*NUMBERS, ATTENDANCE, AGES, LOG))
    if "run.json" not in contents:
        raise ExperimentError(f"{folder}: not a run folder: {_why_not(folder)}")
    if missing := [name for name in NUMBERS if name not in contents]:
        raise ExperimentError(f"{folder}: {missing[0]} is missing")
    with files_of(folder, "a run"):
        return _run(contents)


def _why_not(folder: Path) -> str:
    if (folder / UNFINISHED).is_dir():
        return f"its run is not finished; `turnout run --resume {folder}` goes on"
    return "it has no run.json, as the folders of `turnout run` do"


def _run(contents: dict[str, bytes]) -> Run:
    experiment = Experiment.read(toml.parse(contents["experiment.toml"], "experiment.toml"), Code.UNREAD)
    about = json.loads(contents["run.json"])
    history, clients = (_table(contents, f"{name}.parquet") for name in ("history", "clients"))
    history, attendances = _with_kind(history), _attendances(contents, clients)
    ages = _table(contents, AGES) if AGES in contents else pl.DataFrame(schema={"label": pl.String})
    with np.load(BytesIO(contents["models.npz"]), allow_pickle=False) as models:
        arrays = dict(models)
    outcomes = []
    for number, (label, strategy, settings, point) in enumerate(_marks(experiment, clients)):
        rows, client_rows = (frame.filter(pl.col("label") == label) for frame in (history, clients))
        params = {key.partition("/")[2]: leaf for key, leaf in arrays.items() if key.startswith(f"{number}/")}
        marks = client_rows.filter(pl.col("seed") == experiment.seeds[0])
        of_run = _history(experiment, rows, client_rows, params)
        stored = replace(
            of_run,
            attendance=attendances.get(label),
            seconds=about.get("seconds_of_a_run", {}).get(label),
            ages=_ages(ages, label, experiment.seeds) if of_run.timed else None,
            tick_seconds=about.get("tick_seconds", {}).get(label),
            **{name: _by_draw(client_rows[name], len(experiment.seeds)) for name in OF_FLEET & {*clients.columns}},
        )
        factor = about.get("rate_factors", {}).get(label, 1.0)
        names = tuple(marks["name"].to_list()) if "name" in marks.columns else None
        outcomes.append(Outcome(label, strategy, settings, stored, factor, names, point))
    origin = {key: value for key, value in about.items() if key in circumstances.KEYS}
    notes = {key: value for key, value in about.items() if key not in (*OF_RUN, *circumstances.KEYS)}
    return Run(experiment, tuple(outcomes), about["seconds"], notes, origin)


def _table(contents: dict[str, bytes], name: str) -> pl.DataFrame:
    with refuse_panics(name):
        return pl.read_parquet(BytesIO(contents[name]))


def _marks(experiment: Experiment, clients: pl.DataFrame) -> Iterator[tuple[str, str, dict[str, Any], Point | None]]:
    """Label, strategy, settings and point of every outcome, in order; without points if the experiment names code."""
    swept = [name for name in clients.columns if "." in name]
    marks = clients.select("label", "strategy", *swept).unique("label", maintain_order=True, keep="first")
    if names_code(experiment.document()):
        for row in marks.to_dicts():
            yield row["label"], row["strategy"], {key: row[key] for key in swept if row[key] is not None}, None
        return
    labels = marks["label"].to_list()
    by_label = {_label_in_folder(point, labels): point for point in points(experiment)}
    for label in sorted(by_label, key=labels.index):
        point = by_label[label]
        yield label, point.strategy.name, point.settings, replace(point, label=label)


def _label_in_folder(point: Point, labels: list[str]) -> str:
    """The label that a folder has for a point, perhaps from before its settings got their present names."""
    return point.label if point.label in labels else point_label(point.entrant, former_settings(point.settings))


def _by_draw(column: pl.Series, num_seeds: int) -> np.ndarray | None:
    """One number per client, one row per seed where they differ, None where it is not known."""
    if column.null_count():
        return None
    rows = column.to_numpy().reshape(num_seeds, -1)
    return rows[0] if (rows == rows[0]).all() else rows


def _with_kind(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the column `kind` for older folders: a metric is whatever has a value for round 0."""
    if "kind" in frame.columns:
        return frame
    is_metric = pl.col("round").min().over("label", "name") == 0
    return frame.with_columns(kind=pl.when(is_metric).then(pl.lit("metric")).otherwise(pl.lit("record")))


def _history(experiment: Experiment, frame: pl.DataFrame, clients: pl.DataFrame, params: Any) -> History:
    """Arrays from tidy rows, which are in the order (kind, name, seed, round)."""
    num_seeds = len(experiment.seeds)
    arrays: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in KINDS}
    for (kind, name), rows in frame.group_by("kind", "name", maintain_order=True):
        arrays[str(kind)][str(name)] = rows["value"].to_numpy().reshape(num_seeds, -1)
    rounds = int(np.max(frame["round"].to_numpy()))
    evaluated = frame.filter(pl.col("kind") == "metric")["round"].unique().sort().to_numpy()
    sums = [name for name in clients.columns if name not in CLIENT_MARKS and "." not in name]
    sums = [name for name in sums if clients[name].null_count() < clients.height]  # of other runs in this folder
    return History(
        seeds=experiment.seeds,
        rounds=rounds,
        evaluated=evaluated if evaluated.size else np.arange(rounds + 1),
        metrics=arrays["metric"],
        records=arrays["record"],
        clients={name: clients[name].to_numpy().reshape(num_seeds, -1) for name in sums},
        params=params,
    )


def _attendances(contents: dict[str, bytes], clients: pl.DataFrame) -> dict[str, Attendance]:
    """Attendance by label, given the table of the folder's clients; empty for folders without one."""
    if ATTENDANCE in contents:
        rows = _table(contents, ATTENDANCE)
        parts = rows.partition_by("label", as_dict=True, maintain_order=True)
        return {str(label): _of_rows(part) for (label,), part in parts.items()}
    if LOG not in contents or "name" not in clients.columns:
        return {}
    of_log = _of_log(pl.read_csv(BytesIO(contents[LOG]), schema_overrides={"client": pl.String}), clients)
    return {} if of_log is None else {str(clients["label"][0]): of_log}


def _ages(frame: pl.DataFrame, label: str, seeds: tuple[int, ...]) -> np.ndarray:
    """Updates by age, one row per seed."""
    bins, place = np.zeros((len(seeds), NUM_BINS)), {seed: row for row, seed in enumerate(seeds)}
    for seed, age, updates in frame.filter(pl.col("label") == label).select("seed", "age", "updates").iter_rows():
        bins[place[seed], np.searchsorted(STARTS, age)] = updates
    return bins


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
