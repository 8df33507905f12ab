"""Crews take the local devices in turn; a CPU can be told to have several."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import turnout
from turnout import availability, tasks
from turnout.simulator import crew, side_by_side, simulate_trials
from turnout.simulator.trial import Trial
from turnout.strategies import LastWord

THERE = """
import sys
import jax, numpy as np
sys.path[:0] = [sys.argv[1]]
from test_several_devices import numbers, used_devices
assert jax.local_device_count() == 2
np.savez(sys.argv[2], *numbers())
assert used_devices() == {0, 1}
"""


def histories():
    """Two rates of three seeds, in at least as many crews as the CPU has cores."""
    task = tasks.synthetic_leaf(num_clients=6, num_features=5, num_classes=3, samples_per_client=20, seed=1)
    world = turnout.World(availability.bernoulli(6, 0.5))
    trials = [Trial(LastWord(), world, turnout.Local(learning_rate=rate)) for rate in (0.01, 0.1)]
    return simulate_trials(task, trials, rounds=6, seeds=3, evaluate_every=3)


def numbers():
    return [np.asarray(leaf) for one in histories() for leaf in (*one.metrics.values(), *jax.tree.leaves(one.params))]


def used_devices():
    """The devices that the models of crews came from."""
    seen, run = set(), crew.Crew.run

    def watched(self, progress):
        seen.update(self.programs.begin(self.lanes).tally.last.devices())
        return run(self, progress)

    crew.Crew.run = watched
    histories()
    return {device.id for device in seen}


@pytest.mark.slow
def test_two_devices_give_the_numbers_of_one(tmp_path):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    script = [sys.executable, "-c", THERE, str(Path(__file__).parent), str(tmp_path / "two.npz")]
    subprocess.run(script, check=True, env=environment, timeout=3600)
    with np.load(tmp_path / "two.npz") as two:
        for ours, theirs in zip(numbers(), two.values(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_one_device_moves_nothing():
    whole = {"array": jax.numpy.ones(3), "text": "as it is"}
    assert jax.local_device_count() == 1
    assert side_by_side.on_every_device(whole)[0] is whole
