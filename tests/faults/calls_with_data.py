"""Public calls that read data, make models, or make the parts of worlds and tasks directly, that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from public_calls import CLIENTS, PROCESS, SAMPLES, TASK, Call, play

import turnout
from turnout import availability, compute, durations, links, strategies, tasks, testing, uploads
from turnout.tasks.models.layers import Dense, Relu

SECONDS, INTERVALS = 600.0, "client_id,start_s,end_s,state\n"
TABLE, TRACE, TEXTS = "samples.csv", "trace.csv", "texts.csv"  # in the working folder
PART = {"num_clients": 3, "min_size": 1, "seed": 0, "ridge": 0.01, "importance": "size"}
OF_TABLE = {"client": "client", "label": "label", "features": ["age"], "part": None, "loss": "cross_entropy"}
OF_TABLE |= {"model": "linear", "hidden": (4,), "standardise": True, "standardise_label": False}
OF_TABLE |= PART | {"validation": 0.2, "test": 0.2}
ROWS = {"client": ["a", "a", "b", "b", "c", "c"] * 3, "label": [0, 1] * 9, "age": list(range(18))}
LAYERS = (Dense(4), Relu(), Dense(3, last=True))
SMALL = tasks.network((2, 2), LAYERS)
PARAMS = SMALL.init(jax.random.key(0))
TUNED = tasks.adapt(SMALL, PARAMS, 2)
BASE = "base"


def write_files() -> None:
    """The files that the calls read."""
    rows = "".join(f"{client},{label},{age}\n" for client, label, age in zip(*ROWS.values(), strict=True))
    Path(TABLE).write_text("client,label,age\n" + rows)
    stays = "".join(f"c{k},{3600 * t},{3600 * t + 1800},1\n" for k in range(4) for t in range(8))
    Path(TRACE).write_text(INTERVALS + stays)
    tasks.save_params(PARAMS, BASE)
    Path(TEXTS).write_text("client,text\n" + "ada,the wind came by the rocks\nbo,the lamp went out\n" * 5)


def same(values: Any) -> np.ndarray:
    return np.asarray([values] * CLIENTS)


def draw_upload(part: Any) -> Any:
    return turnout.simulate(TASK, turnout.World(PROCESS, links=part), strategies.FedAvg(), rounds=2)


def count_steps(part: Any) -> Any:
    return turnout.simulate(TASK, turnout.World(PROCESS, compute=part), strategies.FedAvg(), rounds=2)


def last(law: Any) -> Any:
    return turnout.simulate(TASK, turnout.World(PROCESS, durations=law), strategies.FedAvg(), rounds=12)


def train(task: Any) -> Any:
    process = availability.bernoulli(task.num_clients, 0.5)
    return turnout.simulate(task, turnout.World(process), strategies.FedAvg(), rounds=2)


DATA = {
    "trace": Call(
        availability.trace, {"path": TRACE, "slot": SECONDS, "num_clients": 3, "end": "wrap", "align": False}, play
    ),
    "from_csv": Call(tasks.from_csv, {"path": TABLE} | OF_TABLE, train),
    "from_dataset": Call(tasks.from_dataset, {"dataset": ROWS} | OF_TABLE, train),
    "from_pool": Call(
        tasks.from_pool,
        {"inputs": SAMPLES[0], "labels": SAMPLES[1], "owners": SAMPLES[2], "parts": np.zeros(12, int)}
        | {"rows": np.arange(12), "model": tasks.linear(3, 2), "loss": "cross_entropy", "ridge": 0.1}
        | {"importance": "size", "num_clients": 3, "scale": 0.1, "shift": 0.0, "names": ["a", "b", "c"]},
        train,
    ),
    "Adapt": Call(tasks.Adapt, {"base": BASE, "rank": 2, "where": ["0"], "whole": ["2"], "scale": 1.0}),
    "Augment": Call(tasks.Augment, {"crop": 2, "flip": True}),
    "adapt": Call(
        tasks.adapt,
        {"model": SMALL, "params": PARAMS, "rank": 2, "where": ["0"], "whole": ["2"], "scale": 1.0, "sample": (2, 2)}
        | {"precision": "float32"},
    ),
    "adapted_paths": Call(tasks.adapted_paths, {"model": SMALL, "params": PARAMS, "sample": (2, 2)}),
    "merge_adapters": Call(tasks.merge_adapters, {"model": TUNED, "params": TUNED.init(jax.random.key(1))}),
    "load_params": Call(tasks.load_params, {"folder": BASE, "model": SMALL}),
    "save_params": Call(tasks.save_params, {"params": PARAMS, "folder": "another"}),
    "params_to_torch": Call(tasks.params_to_torch, {"model": SMALL, "params": PARAMS}),
    "params_from_torch": Call(tasks.params_from_torch, {"model": SMALL, "state": tasks.params_to_torch(SMALL, PARAMS)}),
    "params_to_flax": Call(tasks.params_to_flax, {"model": SMALL, "params": PARAMS}),
    "params_from_flax": Call(
        tasks.params_from_flax, {"model": SMALL, "variables": tasks.params_to_flax(SMALL, PARAMS)}
    ),
    "network": Call(tasks.network, {"image": (4, 4), "layers": LAYERS}),
    "text": Call(
        tasks.text,
        {"path": TEXTS, "client": "client", "column": "text", "context": 4, "stride": 1, "model": "lstm", "width": 4}
        | {"num_characters": 20, "min_size": 1, "importance": "size", "ridge": 0.01, "validation": 0.1}
        | {"test": 0.2},
        train,
    ),
}
PARTS = {
    "BoundedAbsence": Call(availability.BoundedAbsence, {"chance": same(0.5), "within": same(3)}, play),
    "Clustered": Call(
        availability.Clustered, {"cluster": [0, 0, 0, 1, 1, 1], "wake": [0.2, 0.3], "sleep": [0.3, 0.2]}, play
    ),
    "Cyclic": Call(availability.Cyclic, {"period": np.array(4), "offset": same(1), "duration": same(2)}, play),
    "BernoulliLinks": Call(links.BernoulliLinks, {"success": same(0.5)}, draw_upload),
    "Bursty": Call(links.Bursty, {name: same(0.5) for name in ("good", "bad", "fail", "heal")}, draw_upload),
    "Perfect": Call(links.Perfect, {"num_clients": CLIENTS}, draw_upload),
    "RedrawnLinks": Call(links.RedrawnLinks, {"low": same(0.1), "high": same(0.5)}, draw_upload),
    "Fixed": Call(compute.Fixed, {"steps": 2, "num_clients": CLIENTS}, count_steps),
    "PerClientSteps": Call(compute.PerClientSteps, {"steps": same(2)}, count_steps),
    "RedrawnSteps": Call(compute.RedrawnSteps, {"low": same(1), "high": same(2), "unit": same(1)}, count_steps),
    "FixedDurations": Call(durations.FixedDurations, {"ticks": same(1), "leaving": "pause"}, last),
    "LognormalDurations": Call(
        durations.LognormalDurations, {"median": same(2.0), "sigma": same(0.5), "most": same(9.0)}, last
    ),
    "Timed": Call(
        durations.Timed,
        {name: same(1.0) for name in ("way_seconds", "step_seconds", "sigma")} | {"tick_seconds": 60.0},
        last,
    ),
    "Resampled": Call(durations.Resampled, {"ticks": [[1, 2]] * CLIENTS, "count": same(2)}, last),
    "instant": Call(durations.instant, {"num_clients": CLIENTS}, last),
    "Quadratics.of": Call(
        tasks.Quadratics.of,
        {"centres": np.ones((3, 2)), "curvature": [1.0, 2.0, 1.0], "importance": [1.0, 1.0, 2.0], "start": np.ones(2)},
        train,
    ),
}
CHECKS = {  # they compile
    "testing.check_process": Call(testing.check_process, {"process": PROCESS, "rounds": 20, "replicas": 4}),
    "testing.check_strategy": Call(testing.check_strategy, {"strategy": strategies.FedAvg(), "rounds": 2}),
    "testing.check_task": Call(testing.check_task, {"task": TASK, "clients": 2}),
    "testing.check_upload": Call(testing.check_upload, {"upload": uploads.Clip(1.0)}),
}
WITH_DATA = DATA | PARTS
