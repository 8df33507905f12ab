"""Learning curves: means over the seeds, their spread, and the cost of the rounds; and the final error in its parts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.metrics import DISTANCE, RECORDS, Metric
from turnout.server.server import Server
from turnout.simulator.history import History
from turnout.statistics import evenly
from turnout.strategies.base import Strategy
from turnout.tasks.quadratics import Quadratics
from turnout.types import Answer, Fleet, Known, Params, Reports
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import Part
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.trust import Code
from turnout.workbench.report.page.chart import Axis, Chart, Rule, Series, with_coincidences
from turnout.workbench.report.run.compared import Points, styles_of, weight_shares
from turnout.workbench.report.run.in_time import any_timed

MOST_POINTS = 500  # of a curve; more would not be visible
LEAST_POINTS = 60
IN_ALL = 5000  # points of all curves of a chart together, so that a page of many strategies stays light
COSTS = {record.name: record.title for record in RECORDS if record.cost}
AXES = {"round": "Round", "hours": "Hours"} | COSTS  # what a curve can be drawn over
FLOORS = "Dashed: how far off the weights of this run lead, by themselves."


def learning_curves(points: Points, metric: Metric) -> Chart:
    """A metric over the rounds, or over what they cost, in a band of one standard deviation over the seeds."""
    most = max(LEAST_POINTS, min(MOST_POINTS, IN_ALL // len(points.points)))
    seeds, styles, series = len(points.points[0].history.seeds), styles_of(points), []
    for point in points.points:
        if metric.name in point.history.metrics:
            kept = evenly(len(point.history.evaluated), most)
            values = point.history.metrics[metric.name][:, kept].astype(np.float64)
            mean, *ends = mean_and_band(metric.factor * values, metric.log)
            over = {name: cost[kept] for name, cost in costs(point.history).items()}
            over = {name: over[name] for name in _axes(points) if name in over}
            series.append(Series(point.label, styles[point.label], mean, None, *(ends if seeds > 1 else ()), over=over))
    log = metric.log and all((one.y[np.isfinite(one.y)] > 0).all() for one in series)
    choices = {name: title for name, title in _axes(points).items() if any(name in curve.over for curve in series)}
    x, y = (
        Axis(next(iter(choices.values()), AXES["round"]), choices=choices),
        Axis(metric.title, "%" if metric.percent else "", log),
    )
    return with_coincidences(Chart("lines", metric.title, x, y, tuple(series), spread_note(seeds) or "One seed."))


def _axes(points: Points) -> dict[str, str]:
    """What these curves can be drawn over, by name: hours first where all have them, and then ticks."""
    if not any_timed(points):
        return AXES
    timed = {"round": "Tick"} | {name: title for name, title in AXES.items() if name != "round"}
    all_have_hours = all(point.history.tick_seconds is not None for point in points.points)
    return {"hours": AXES["hours"]} | timed if all_have_hours else timed


def spread_note(seeds: int) -> str:
    """What line and band are; empty for a single seed, which has no band."""
    return f"Line: mean over {seeds} seeds. Band: one standard deviation." if seeds > 1 else ""


def with_floors(chart: Chart, splits: Mapping[str, ErrorSplit]) -> Chart:
    """The chart of the distance to the optimum with the bias of each run, where its error was split."""
    styles = {series.label: series.style for series in chart.series}
    biases = {label: float(split.bias.mean()) for label, split in splits.items()}
    floors = tuple(Rule(bias, label, styles[label]) for label, bias in biases.items() if np.isfinite(bias))
    return replace(chart, rules=floors, note=f"{chart.note} {FLOORS}") if floors else chart


def mean_and_band(values: np.ndarray, log: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the first axis, and one standard deviation below and above it; on a logarithm, at least a tenth."""
    mean, spread = mean_and_spread(values)
    return mean, np.maximum(mean - spread, mean / 10) if log else mean - spread, mean + spread


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the finite values over the first axis; no spread for a single value."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    safe = np.where(finite, values, 0.0)
    mean = np.where(count > 0, safe.sum(axis=0) / np.maximum(count, 1), np.nan)
    squares = np.where(finite, (safe - mean) ** 2, 0.0).sum(axis=0)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1))


def costs(history: History) -> dict[str, np.ndarray]:
    """Costs up to each evaluation, mean over the seeds."""
    spent = {"round": history.evaluated.astype(np.float64)}
    if history.tick_seconds is not None:
        spent["hours"] = history.hours(history.evaluated)
    for name in COSTS:
        if name in history.records:
            per_round = np.nan_to_num(history.records[name]).mean(axis=0)
            spent[name] = np.concatenate([[0.0], per_round.cumsum()])[history.evaluated]
    if "seconds" not in spent and history.seconds is not None:
        spent["seconds"] = history.seconds * history.evaluated / history.rounds
    return spent


@dataclass(frozen=True)
class ErrorSplit:
    """Distances at the end of a run, one per seed; `total` is at most the sum of the two others."""

    total: np.ndarray  # from the model to the optimum
    optimisation: np.ndarray  # from the model to where the strategy's own weights lead
    bias: np.ndarray  # from there to the optimum


def error_splits(run: Run) -> dict[str, ErrorSplit]:
    """By label; only for tasks with a known optimum and strategies whose weights determine where they lead.

    A memory weighs old updates too, which the sums by client do not count, and unequal work changes what a weight is
    worth: these are left out.
    """
    if DISTANCE not in run.points[0].history.metrics:
        return {}
    built: dict[str, Any] = {}  # tasks of a run that was read back
    splits = {}
    for outcome in run.points:
        point, task = outcome.point, outcome.task
        if point is None or "weight" not in outcome.history.clients or not told_by_weights(outcome):
            continue
        if point.drawn:  # the optimum differs from seed to seed
            continue
        if task is None and point.task.key not in built:
            built[point.task.key] = None
            with suppress(ExperimentError):  # a module of the user that is not at hand: the report does without
                built[point.task.key] = point.task.build()
        task = task or built[point.task.key]
        if isinstance(task, Quadratics):
            splits[outcome.label] = _split(task, outcome)
    return splits


def told_by_weights(outcome: Outcome) -> bool:
    """Whether the weights of fresh updates tell whom a strategy trains for; not known of code that is not imported.

    They do not where work differs: an update of twice the work counts twice.
    """
    if outcome.point is not None and outcome.point.compute.name != "fixed":
        return False
    part = Part("strategies", outcome.strategy, {}, "report", Code.UNREAD)
    try:
        strategy = (part if outcome.point is None else outcome.point.strategy).build()
    except ExperimentError:
        return False
    return sums_fresh_updates(strategy, outcome.history.clients["weight"].shape[-1])


def sums_fresh_updates(strategy: Strategy[Any], num_clients: int) -> bool:
    """Whether the model moves along the weighted sum of what has just arrived, seen from the form of a round's move."""
    server = Server.of(Fleet(jnp.ones(num_clients)), strategy, slots=strategy.capacity(num_clients))

    def direction() -> Params | None:
        ones, params = jnp.ones(num_clients), jnp.zeros(1)
        state, t, everybody = server.init(params), jnp.zeros((), jnp.int32), jnp.ones(num_clients, bool)
        losses = ones if strategy.needs_losses else None
        view = server.view(state, t, everybody, 0.1, Known(ones, ones, ones, ones), losses)
        cohort, state = server.ask(state, view, jr.key(0))
        rows = jnp.zeros(cohort.ids.shape)
        starts = rows[:, None] if strategy.needs_starts else None
        reports = Reports.of(cohort, Answer(rows[:, None]), rows, rows, starts)
        return strategy.aggregate(state.strategy, params, view, cohort, reports)[0].direction

    return strategy.client_side is None and not jax.tree.leaves(eqx.filter_eval_shape(direction))


def _split(task: Quadratics, outcome: Outcome) -> ErrorSplit:
    (models,) = jax.tree.leaves(outcome.history.params)
    models = np.asarray(models, np.float64)
    best = np.asarray(task.optimum, np.float64)
    shares = weight_shares(outcome.history.clients["weight"])
    drawn_to = np.stack([np.asarray(task.minimiser(jnp.asarray(row, jnp.float32)), np.float64) for row in shares])
    return ErrorSplit(*(np.linalg.norm(gap, axis=1) for gap in (models - best, models - drawn_to, drawn_to - best)))
