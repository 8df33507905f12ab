"""The experiment in the world that a diagnosis has fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.in_ticks import timed_world
from turnout.workbench.diagnosis.world.links_and_steps import steps_of, success_of
from turnout.workbench.diagnosis.world.pacing import Pacing
from turnout.workbench.experiment import toml
from turnout.workbench.report.diagnosis.readable import duration

ROUNDS = 500
STEPS, MOST_TICKS = (
    100,
    20_000,
)  # of the server at the recommended pace, where work takes time; and at most so many ticks
POINTS = 50  # evaluations
STRATEGIES = ("fedavg", "unbiased", "adafed", "fedau", "mifa")


def world_toml(diagnosis: Diagnosis) -> str:
    """An experiment in the fitted world, on quadratics with one client each and the log's target as importance.

    The server estimates availability. If the log says whose updates arrived, links lose as many; if it says how many
    steps clients do, they do as many.
    """
    fitted, lines = diagnosis.fitted, ["Fitted by turnout diagnose; play it with turnout run."]
    if diagnosis.pacing is not None:
        lines.append(f"A round is a tick of {duration(diagnosis.pacing.tick_seconds)}.")
        lines += [f"Note: {note}." for note in diagnosis.pacing.notes]
    lines += [f"Note: {note}." for note in fitted.notes]
    if diagnosis.likeness.differences:
        lines.append(f"Unlike the log in: {', '.join(diagnosis.likeness.differences)}.")
    return "".join(f"# {line}\n" for line in lines) + toml.write(document(diagnosis))


def document(diagnosis: Diagnosis) -> toml.Document:
    """The experiment as a TOML document."""
    log, fitted = diagnosis.log, diagnosis.fitted
    kind = fitted.kind.replace("_", " ")
    task: dict[str, Any] = {"name": "quadratics", "num_clients": log.num_clients}
    target = diagnosis.findings.weights.target
    if np.ptp(target) > 0:
        task["importance"] = _digits(target * log.num_clients)
    experiment: toml.Document = {
        "title": f"A {kind} world fitted to {diagnosis.source.replace(chr(92), '/').rpartition('/')[2]}",
        "rounds": ROUNDS,
        "seeds": 5,
        "evaluate_every": 10,
        "task": task,
        "availability": {"name": fitted.kind, **fitted.parameters},
    }
    success, steps = success_of(log), steps_of(log)
    if success is not None:
        experiment["links"] = {"name": "bernoulli", "success": _digits(success)}
    if steps is not None:
        experiment["compute"] = {"name": "per_client", "steps": steps.tolist()}
    recommended = [] if diagnosis.ranking is None else [diagnosis.ranking.recommended.strategy]
    strategies = [{"name": name} for name in dict.fromkeys([*STRATEGIES, *recommended])]
    experiment |= {"local": {"learning_rate": 0.02}, "facts": "online", "strategies": strategies}
    return experiment if diagnosis.pacing is None else _in_time(diagnosis, diagnosis.pacing, experiment)


def _in_time(diagnosis: Diagnosis, pacing: Pacing, experiment: toml.Document) -> toml.Document:
    """The same tick by tick: the durations of the log, and the recommended pace beside rounds that wait."""
    log = diagnosis.log
    world = timed_world(log, diagnosis.findings, diagnosis.fitted, np.arange(log.num_clients))
    assert world is not None
    best = pacing.recommended
    ticks = int(np.clip(STEPS * best.step_seconds / pacing.tick_seconds, ROUNDS, MOST_TICKS))
    pace = {"name": best.pace, **best.options}
    names = [pacing.strategy.strategy] if pacing.strategy is not None else []
    strategies: list[dict[str, Any]] = [{"name": "fedavg", "label": "fedavg (all)", "pace": "rounds"}]
    if not pacing.waits_for_all:
        first_half = {"name": "rounds", "quorum": 0.5}
        strategies.append({"name": "fedavg", "label": "fedavg (first half)", "pace": first_half})
    strategies += [{"name": name} for name in dict.fromkeys(["fedavg", "fedau", "last_word", *names])]
    return experiment | {
        "rounds": ticks,
        "evaluate_every": max(ticks // POINTS, 1),
        "availability": {"name": world.kind, **world.parameters},
        "durations": {"name": world.durations.kind, **world.durations.parameters},
        "pace": pace,
        "strategies": strategies,
    }


def _digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
