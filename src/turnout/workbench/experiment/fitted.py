"""The world that was fitted to a log, as an experiment that can be run."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.links_and_steps import steps_of, success_of
from turnout.workbench.experiment import toml

ROUNDS = 500
STRATEGIES = ("fedavg", "unbiased", "adafed", "fedau", "mifa")


def world_toml(diagnosis: Diagnosis) -> str:
    """An experiment in the fitted world, on quadratics with one client each and the log's target as importance.

    The server estimates availability. If the log says whose updates arrived, links lose as many; if it says how many
    steps clients do, they do as many.
    """
    fitted, lines = diagnosis.fitted, ["Fitted by turnout diagnose; play it with turnout run."]
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
    return experiment | {"local": {"learning_rate": 0.02}, "facts": "online", "strategies": strategies}


def _digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
