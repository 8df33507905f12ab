"""The final error split into optimisation and bias, on tasks whose optimum is known for every weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.metrics import DISTANCE
from turnout.server.server import Server
from turnout.strategies.base import Strategy
from turnout.tasks.quadratics import Quadratics
from turnout.types import Answer, Fleet, Known, Params, Reports
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import Part
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.sweep import Point
from turnout.workbench.experiment.trust import Code
from turnout.workbench.report.run.compared import weight_shares


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
            built[point.task.key] = _build_task(point)
        task = task or built[point.task.key]
        if isinstance(task, Quadratics):
            splits[outcome.label] = _split(task, outcome)
    return splits


def _build_task(point: Point) -> Any:
    try:
        return point.task.build()
    except ExperimentError:  # a module of the user that is not at hand: the report does without
        return None


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
    return _sums_fresh_updates(strategy, outcome.history.clients["weight"].shape[-1])


def _sums_fresh_updates(strategy: Strategy[Any], num_clients: int) -> bool:
    """Whether the model moves along the weighted sum of what has just arrived, seen from the form of a round's move."""
    server = Server.of(Fleet(jnp.ones(num_clients)), strategy, slots=strategy.capacity(num_clients))

    def direction() -> Params | None:
        ones, params = jnp.ones(num_clients), jnp.zeros(1)
        state, t, everybody = server.init(params), jnp.zeros((), jnp.int32), jnp.ones(num_clients, bool)
        losses = ones if strategy.needs_losses else None
        view = server.view(state, t, everybody, 0.1, Known(ones, ones, ones, ones), losses)
        cohort, state = server.ask(state, view, jr.key(0))
        rows = jnp.zeros(cohort.ids.shape)
        reports = Reports.of(cohort, Answer(rows[:, None]), rows, rows)
        return strategy.aggregate(state.strategy, params, view, cohort, reports)[0].direction

    return strategy.client_side is None and not jax.tree.leaves(eqx.filter_eval_shape(direction))


def _split(task: Quadratics, outcome: Outcome) -> ErrorSplit:
    (models,) = jax.tree.leaves(outcome.history.params)
    models = np.asarray(models, np.float64)
    best = np.asarray(task.optimum, np.float64)
    shares = weight_shares(outcome.history.clients["weight"])
    drawn_to = np.stack([np.asarray(task.minimiser(jnp.asarray(row, jnp.float32)), np.float64) for row in shares])
    return ErrorSplit(*(np.linalg.norm(gap, axis=1) for gap in (models - best, models - drawn_to, drawn_to - best)))
