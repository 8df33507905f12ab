"""The library leaves the process alone: jax's settings and compiled programs are touched only on request."""

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout
from turnout import availability, tasks
from turnout.simulator import crew, programs
from turnout.strategies import FedAvg

USERS_PROGRAM = """
import jax
import turnout
from turnout import availability, strategies, tasks

traced = []

@jax.jit
def users_own(x):
    traced.append(x)
    return x + 1

before = dict(jax.config.values)
users_own(1.0)
task, world = tasks.quadratics(num_clients=3, dimension=2), turnout.World(availability.bernoulli(3, 0.5))
for _ in range(20):
    turnout.simulate(task, world, strategies.FedAvg(), rounds=2)
turnout.audit(world, [strategies.FedAvg()], rounds=50)
users_own(2.0)
print(len(traced), {name for name in before if before[name] != jax.config.values[name]})
turnout.use_compilation_cache()
print(jax.config.jax_compilation_cache_dir)
jax.config.update("jax_compilation_cache_dir", "chosen by the user")
turnout.use_compilation_cache()
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.slow
def test_twenty_runs_change_no_setting_and_drop_no_program(tmp_path):
    surroundings = os.environ | {"TURNOUT_CACHE": str(tmp_path)}
    surroundings.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", USERS_PROGRAM]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["1 set()", str(tmp_path), "chosen by the user"], done.stderr


@pytest.fixture
def cleared(monkeypatch):
    """Every clearing so far, none of which is carried out."""
    calls = []
    monkeypatch.setattr(jax, "clear_caches", lambda: calls.append("cleared"))
    monkeypatch.setattr(programs, "_groups_since_clearing", None)
    return calls


def test_programs_are_dropped_after_every_16_groups_once_that_is_asked_for(cleared):
    for _ in range(40):
        programs.count_group()
    assert not cleared
    programs.keep_few_programs()
    for _ in range(40):
        programs.count_group()
    assert len(cleared) == 2
    programs.keep_few_programs()  # a second request goes on counting
    for _ in range(8):
        programs.count_group()
    assert len(cleared) == 3


def test_equal_calls_trace_nothing_and_other_lengths_and_seeds_share_programs(monkeypatch):
    monkeypatch.setattr(programs, "_groups_since_clearing", None)
    compiled, plain = [], crew._compile
    monkeypatch.setattr(crew, "_compile", lambda *inputs: compiled.append(inputs) or plain(*inputs))
    task, world = tasks.quadratics(num_clients=3, dimension=2), turnout.World(availability.bernoulli(3, 0.5))
    runs = [turnout.simulate(task, world, FedAvg(), rounds=2, seeds=[seed]).params for seed in (0, 0, 5)]
    turnout.simulate(task, world, FedAvg(), rounds=40, seeds=[9])
    assert len(compiled) == 1
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_arguments_of_one_kind_are_computed_once_and_others_anew():
    calls = []

    def shape_of(array, number):
        calls.append(number)
        return array.shape

    assert programs.once_per_kind(shape_of, jnp.zeros(3), 1) == programs.once_per_kind(shape_of, jnp.ones(3), 1) == (3,)
    for length, number in ((4, 1), (4, 2), (4, 2.0)):
        assert programs.once_per_kind(shape_of, jnp.zeros(length), number) == (length,)
    assert calls == [1, 1, 2, 2.0]


@pytest.mark.parametrize(("curvature", "solves"), [(1.0, False), (np.ones((3, 1, 1)) * np.eye(2), True)])
def test_only_programs_that_solve_matrices_take_turns(curvature, solves, monkeypatch):
    made: list[Any] = []

    def watched(program: Any) -> Any:
        made.append(programs.in_turn(program))
        return made[-1]

    monkeypatch.setattr(crew, "in_turn", watched)
    task, world = tasks.Quadratics.of(np.ones((3, 2)), curvature), turnout.World(availability.bernoulli(3, 0.5))
    turnout.simulate(task, world, FedAvg(), rounds=2, metrics=["distance"])
    assert len(made) == 3
    assert any(isinstance(program, programs.InTurn) for program in made) == solves


CREWS_THAT_SOLVE = """
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import run

task = {"name": "turnout.workbench.reproduction.regressions:shared_regression", "rows": 60, "seed": "run"}
world = {"task": task, "availability": {"name": "bernoulli", "pi": 1.0}, "strategies": [{"name": "focus"}]}
length = {"rounds": 64, "seeds": 10, "evaluate_every": 1, "metrics": ["distance"]}
run(Experiment.read(world | length | {"local": {"learning_rate": 1e-4, "batch_size": 1}}))
"""


@pytest.mark.slow
def test_crews_that_solve_matrices_do_not_wait_for_each_other():
    """On two cores they did, in every run, for ever."""
    subprocess.run([sys.executable, "-c", CREWS_THAT_SOLVE], env=os.environ, check=True, timeout=300)
