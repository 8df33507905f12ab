"""The best point of each strategy's sweep, by validation data: what `turnout tune` chooses and `reproduce` reports."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from turnout.declarations import checked
from turnout.errors import nearest
from turnout.files.whole import free_folder, whole_or_absent
from turnout.metrics import TRAIN_LOSS, VALIDATION_ACCURACY, VALIDATION_LOSS, metric_named
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import NAMED, Entrant, Experiment
from turnout.workbench.experiment.kept import KeptPoints
from turnout.workbench.experiment.parts import Part
from turnout.workbench.experiment.run import Outcome, Progress, Run, run_points
from turnout.workbench.experiment.sweep import Point, point_label, points

RATES = ("local", "server")  # tables whose sweeps are a choice of learning rates
OWN = ("strategy", "facts", "pace", *RATES)  # tables that may differ from strategy to strategy
CHOSEN = ("strategy", "pace", *RATES)  # tables whose sweeps are a choice


@dataclass(frozen=True)
class Choice:
    """The grid of one strategy, and its best point on average over the seeds."""

    label: str  # of the strategy, with the settings that are compared rather than chosen
    best: Point
    chosen: dict[str, Any]  # the tuned keys and their best values
    grid: tuple[Point, ...]
    seeds: tuple[int, ...]
    values: np.ndarray  # the metric at the end, (grid, seeds)

    def at_edge(self) -> dict[str, Any]:
        """Chosen numbers that are the smallest or largest of their grid, which may have been too narrow."""
        edges = {}
        for key, value in self.chosen.items():
            tried = sorted({point.settings[key] for point in self.grid if _is_number(point.settings[key])})
            if len(tried) > 1 and value in (tried[0], tried[-1]):
                edges[key] = value
        return edges

    def rows(self, metric: str) -> Iterator[dict[str, Any]]:
        """The whole grid, one row per point and seed."""
        for point, by_seed in zip(self.grid, self.values, strict=True):
            tuned = {key: point.settings[key] for key in self.chosen}
            for seed, value in zip(self.seeds, by_seed.tolist(), strict=True):
                shown = float(f"{value:.7g}")  # the digits of single precision
                yield {"label": self.label, **tuned, "seed": seed, metric: shown, "chosen": point is self.best}


@dataclass(frozen=True)
class Tuned:
    """The choice of every strategy, and the runs behind it."""

    run: Run
    metric: str
    choices: tuple[Choice, ...]

    def experiment(self) -> Experiment:
        """The experiment that was searched, without a sweep: equal choices in common tables, others with a strategy."""
        experiment = self.run.experiment
        shared = {role: _alike([getattr(choice.best, role) for choice in self.choices]) for role in RATES}
        named = {role: self._common(role) for role in NAMED}
        entrants = tuple(_entrant(choice, shared, named) for choice in self.choices)
        calibrate = experiment.calibrate
        if calibrate is not None and calibrate not in [entrant.label for entrant in entrants]:
            raise ExperimentError(f"calibrate: {calibrate!r} is swept: steps cannot be made as long as those of many")
        return replace(experiment, strategies=entrants, **shared, **named)

    def _common(self, role: str) -> Part:
        """The common table of a role, without a sweep."""
        part: Part = getattr(self.run.experiment, role)
        return getattr(self.choices[0].best, role) if any(part.axes()) else part

    def outcomes(self) -> tuple[Outcome, ...]:
        """The runs at the chosen points, each under its strategy's label."""
        return tuple(replace(self.run[choice.best.label], label=choice.label) for choice in self.choices)


@checked
def tune(
    experiment: Experiment,
    metric: str,
    keep: Sequence[str] = (),
    among: Sequence[str] = CHOSEN,
    progress: Progress | None = None,
    kept: KeptPoints | None = None,
) -> Tuned:
    """Run the whole grid and choose for each strategy; `keep` names swept keys that are compared, not chosen.

    `among` are the tables whose sweeps are chosen from. A metric of test data is refused: it could no longer judge
    the choice.
    """
    check_metric(metric)
    for role in among:
        if role not in OWN:
            raise ExperimentError(f"among: there is no table {role!r} of a strategy's own: {nearest(role, OWN)}")
    grid = points(experiment)
    check_keep(grid, keep)
    if experiment.metrics is not None and metric not in experiment.metrics:
        raise ExperimentError(f"tuning: {metric!r} is not among the metrics: {nearest(metric, experiment.metrics)}")
    finished = run_points(experiment, grid, progress, kept=kept, needed=[metric])
    groups: dict[str, tuple[list[Point], dict[str, Any]]] = {}  # points, and the settings that they share
    for point in grid:
        fixed = {key: value for key, value in point.settings.items() if key in keep or key.split(".")[0] not in among}
        groups.setdefault(point_label(point.entrant, fixed), ([], fixed))[0].append(point)
    choices = [_choose(label, *group, finished, metric) for label, group in groups.items()]
    return Tuned(finished, metric, tuple(choices))


def check_metric(metric: str) -> None:
    """Refuse to choose by test data."""
    if metric_named(metric).on_test_data:
        raise ExperimentError(
            f"tuning: {metric!r} is taken on test data, and what is chosen by them cannot be judged by them: "
            f"choose by {VALIDATION_ACCURACY}, {VALIDATION_LOSS} or {TRAIN_LOSS}"
        )


def check_keep(grid: Sequence[Point], keep: Sequence[str]) -> None:
    """Refuse keys that are not swept, and sweeps from which nothing can be chosen."""
    swept = dict.fromkeys(key for point in grid for key in point.settings)
    for key in keep:
        if key not in swept:
            raise ExperimentError(f"keep: {key!r} is not swept: {nearest(key, swept)}")
    if not swept:
        raise ExperimentError("there is nothing to choose: give lists, such as local.learning_rate = [0.01, 0.1]")
    for key in swept:
        if key.split(".")[0] not in OWN:
            raise ExperimentError(f"{key} is swept, but differs between worlds or data: give each an experiment")


_FAR = 10.0  # times the first model's loss: a little worse than at the start is no divergence


def _choose(label: str, grid: list[Point], kept: dict[str, Any], finished: Run, metric: str) -> Choice:
    histories = [finished[point.label].history for point in grid]
    # A model that diverged still has an accuracy, that of a constant answer.
    values = np.stack([np.where(history.diverged, np.nan, history.final(metric)) for history in histories])
    higher = metric_named(metric).higher_is_better
    means = np.where(np.isfinite(values), values, -np.inf if higher else np.inf).mean(axis=1)
    first = histories[0].metrics[metric][:, 0].mean()
    if not np.isfinite(means).any() or (not higher and means.min() > _FAR * abs(first) + 1.0):
        raise ExperimentError(f"tuning: {label}: no point of its grid converged: try smaller learning rates")
    best = grid[int(np.argmax(means) if higher else np.argmin(means))]
    chosen = {key: value for key, value in best.settings.items() if key not in kept}
    return Choice(label, best, chosen, tuple(grid), histories[0].seeds, values)


def _alike(tables: list[Part]) -> Part:
    first, *others = tables
    same = {key: value for key, value in first.arguments.items() if all(_has(table, key, value) for table in others)}
    return replace(first, arguments=same)


def _has(table: Part, key: str, value: Any) -> bool:
    return key in table.arguments and table.arguments[key] == value


def _entrant(choice: Choice, shared: dict[str, Part], named: dict[str, Part]) -> Entrant:
    own = {}
    for role, table in shared.items():
        best: Part = getattr(choice.best, role)
        arguments = {key: value for key, value in best.arguments.items() if not _has(table, key, value)}
        own[role] = replace(best, arguments=arguments) if arguments else None
    for role, table in named.items():
        best = getattr(choice.best, role)
        own[role] = None if best == table else best
    return Entrant(choice.best.strategy, choice.label, **own)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@checked
def save_tuned(tuned: Tuned, asked: Experiment, out: str | Path) -> Path:
    """Write a folder, see `write_tuned`."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        write_tuned(tuned, asked, work)
    return folder


def write_tuned(tuned: Tuned, asked: Experiment, work: Path) -> None:
    """Write the experiment that was asked for with the chosen values, the whole grid, and the circumstances."""
    chosen = replace(tuned.experiment(), seeds=asked.seeds, rounds=asked.rounds)
    about = {"metric": tuned.metric, "seeds": list(tuned.run.experiment.seeds), "rounds": tuned.run.experiment.rounds}
    (work / "experiment.toml").write_text(chosen.to_toml(), encoding="utf-8")
    write_rows((row for choice in tuned.choices for row in choice.rows(tuned.metric)), work / "tuning.csv")
    (work / "tuning.json").write_text(json.dumps(about | tuned.run.origin, indent=2) + "\n", encoding="utf-8")


def write_rows(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write a CSV file of rows that may lack columns; none if there are no rows."""
    table = list(rows)
    if not table:
        return
    columns = list(dict.fromkeys(key for row in table for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
