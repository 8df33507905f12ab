"""Work that takes time on several devices and on the workers of a cluster: the numbers of one device."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import turnout
from turnout import availability, durations, tasks
from turnout.simulator import simulate_trials
from turnout.strategies import MIFA, FedAsync
from turnout.workbench import Experiment
from turnout.workbench.experiment import on_ray
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.unfinished import Unfinished, begin_run

COUNT = 7  # no multiple of the devices
PACES = {"mifa": (MIFA(), turnout.Buffered(2, 5)), "fedasync": (FedAsync(), turnout.Rounds(quorum=0.5, late="keep"))}
THERE = """
import sys
import jax, numpy as np
sys.path[:0] = [sys.argv[1]]
from test_time_elsewhere import numbers
assert jax.local_device_count() == 2
np.savez(sys.argv[2], *numbers(sys.argv[3]))
"""
TABLES = {
    "rounds": 20,
    "seeds": 2,
    "task": {"name": "quadratics", "num_clients": 6, "dimension": 2},
    "availability": {"name": "bernoulli", "pi": 0.8},
    "durations": {"name": "lognormal", "median": 3.0, "leaving": "pause"},
    "pace": {"name": "buffered", "size": 2},
    "local": {"steps": 2, "learning_rate": 0.1},
    "strategies": ["fedbuff", {"name": "mifa", "pace": {"name": "clocked", "every": 3}}],
}


def numbers(spread):
    """All results of two strategies, each with two rates and two seeds."""
    task = tasks.synthetic_leaf(num_clients=COUNT, num_features=5, num_classes=3, samples_per_client=20, seed=1)
    slow = durations.lognormal(COUNT, median=2.0, most=6.0, leaving="abort")
    world = turnout.World(availability.bernoulli(COUNT, 0.7), durations=slow)
    trials = [
        turnout.Trial(strategy, world, turnout.Local(learning_rate=rate), pace=pace)
        for strategy, pace in PACES.values()
        for rate in (0.01, 0.1)
    ]
    runs = simulate_trials(task, trials, rounds=20, seeds=2, evaluate_every=10, metrics=["train_loss"], spread=spread)
    kept = [(one.metrics, one.params, one.clients["used"], one.records["at_work"]) for one in runs]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(kept)]


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["lanes", "clients"])
def test_two_devices_give_the_numbers_of_one(spread, tmp_path):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    script = [sys.executable, "-c", THERE, str(Path(__file__).parent), str(tmp_path / "two.npz"), spread]
    subprocess.run(script, check=True, env=environment, timeout=3600)
    with np.load(tmp_path / "two.npz") as two:
        for ours, theirs in zip(numbers("lanes"), two.values(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.variant
def test_a_worker_of_a_cluster_sends_the_numbers_of_a_run(tmp_path):
    experiment = Experiment.read(TABLES)
    whole = run(experiment)
    with begin_run(Unfinished(tmp_path / "cells", "run", experiment)) as unfinished:
        for point in whole.points:
            cell = on_ray.compute_cell(json.dumps(experiment.document()), point.label, [], os.getcwd())
            unfinished.kept.keep_content(point.label, cell)
        sent = unfinished.run()
    for point in whole.points:
        np.testing.assert_array_equal(sent[point.label].history.params, point.history.params)
        np.testing.assert_array_equal(sent[point.label].history.ages, point.history.ages)
