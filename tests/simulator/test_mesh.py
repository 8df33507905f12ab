"""The clients of one training over several devices: eight virtual ones of a CPU, and those of two processes."""

import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import turnout
from turnout import availability, tasks, uploads
from turnout.simulator import crew, mesh, side_by_side
from turnout.strategies import MIFA, CAFed, FedAvg, FedAWE, LastWord
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import run
from turnout.world import compute

NUM_CLIENTS = 21  # no multiple of the devices: rows are filled up
CLASSES, FEATURES, SAMPLES = 3, 13, 20
FIRST = "mifa unequal"
STRATEGIES = {"fedavg": FedAvg(), "mifa": MIFA(), "last_word": LastWord(), "fedawe": FedAWE(), "ca_fed": CAFed()}
FURTHER = ["fedavg", "fedavg unequal", "mifa", "last_word", "last_word unequal", "fedawe unequal", "ca_fed"]
FURTHER += ["fedavg one_by_one", "last_word unequal one_by_one", "fedavg kept", "mifa draws"]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}  # sums over clients are added up in another order

THERE = """
import sys
import numpy as np
sys.path[:0] = [sys.argv[1]]
import test_mesh
from turnout.simulator.programs import use_compilation_cache
use_compilation_cache()
_, _, results, cases, *cluster = sys.argv
if cluster:
    test_mesh.join(*cluster)
np.savez(results, **test_mesh.numbers_of(cases.split(","), "clients", test_mesh.check_parts))
"""

STOPPED = """
import pathlib, sys
sys.path[:0] = [sys.argv[1]]
import test_savepoint as stage
from turnout.simulator import savepoint
savepoint.SECONDS, savepoint.COST = 0.0, 0
asked, folder = dict(strategies=[stage.MIFA()], spread="clients"), pathlib.Path(sys.argv[2])
(whole,), calls = stage.play(**asked)
try:
    stage.play(**asked, folder=folder, until=2)
except KeyboardInterrupt:
    pass
(again,), calls_again = stage.play(**asked, folder=folder)
assert calls_again < calls
stage.same(whole, again)
"""


def numbers(case, spread):
    """All results of a run in two segments; a case is the name of a strategy and what is special about its work."""
    name, *special = case.split()
    task = tasks.synthetic_leaf(
        num_clients=NUM_CLIENTS, num_features=FEATURES, num_classes=CLASSES, samples_per_client=SAMPLES, seed=1
    )
    task = replace(task, model=replace(task.model, one_by_one_on_cpu="one_by_one" in special))
    work = compute.drawn(NUM_CLIENTS, 1, 6) if "unequal" in special else compute.fixed(NUM_CLIENTS, 2)
    world = turnout.World(availability.two_classes(NUM_CLIENTS), compute=work)
    kept = {"local": turnout.Local(optimizer=optax.sgd(1.0, momentum=0.9), lasting=True)}
    kept |= {"uploads": uploads.ErrorFeedback(uploads.TopK(0.5))}
    history = turnout.simulate(
        task,
        world,
        STRATEGIES[name],
        rounds=6,
        evaluate_every=3,
        segment=3,
        metrics=["train_loss"],  # others only take time to compile
        spread=spread,
        **(kept if "kept" in special else {}),
    )
    return results_of(history)


def results_of(history):
    return [np.asarray(leaf) for leaf in jax.tree.leaves((history.metrics, history.clients, history.params))]


def numbers_of_draws(case, spread):
    """The same where every seed has data of its own."""
    task = {"name": "synthetic_leaf", "num_clients": NUM_CLIENTS, "samples_per_client": SAMPLES, "seed": "run"}
    task |= {"num_features": FEATURES, "num_classes": CLASSES}
    tables = {"task": task, "availability": "two_classes", "strategies": [case.split()[0]], "spread": spread}
    experiment = Experiment.read(tables | {"rounds": 3, "seeds": 2, "metrics": ["train_loss"]})
    return results_of(run(experiment).points[0].history)


def numbers_of(cases, spread, check=None):
    """Results by case and place; `check` is called with the programs of a case and their inputs."""
    arrays, compiled = {}, crew._compile

    def watched(*inputs):
        made.append((compiled(*inputs), inputs[0]))
        return made[-1][0]

    crew._compile = watched
    try:
        for case in cases:
            made, play = [], numbers_of_draws if case.endswith("draws") else numbers
            arrays |= {f"{case} {place}": array for place, array in enumerate(play(case, spread))}
            for programs, inputs in made if check else ():
                check(case, programs, inputs)
    finally:
        crew._compile = compiled
    return arrays


def check_parts(case, programs, inputs):
    """Each device has its part of the data and of the memories, and never has them whole."""
    carry = programs.begin(inputs)
    data, memories = (_spread_arrays(tree) for tree in (inputs, (carry.server.strategy, carry.clients)))
    assert data
    assert bool(memories) == (case.startswith(("mifa", "last_word", "fedawe")) or "kept" in case), case
    for filled in data + memories:
        (rows,) = {shard.data.size / filled.rows.size for shard in filled.rows.addressable_shards}
        assert rows == 1 / jax.device_count()
    text = programs.advance.compiled.as_text()
    assert " all-reduce" in text
    for rows, numbers_of_row in ((NUM_CLIENTS, f"{CLASSES},{FEATURES}"), (NUM_CLIENTS * SAMPLES, FEATURES)):
        filled = -(-rows // jax.device_count()) * jax.device_count()
        whole = re.search(rf"\[(1,)?({rows}|{filled}),{numbers_of_row}\]", text)
        assert whole is None, (case, whole)


def _spread_arrays(tree):
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, mesh.Filled))
    return [leaf for leaf in leaves if isinstance(leaf, mesh.Filled)]


def started(script, devices, *arguments):
    """A process with so many virtual devices, which runs a script of this module."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, str(Path(__file__).parent), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process):
    output, _ = process.communicate(timeout=3600)
    assert process.returncode == 0, output


def written(process, results):
    """What a process has written."""
    end(process)
    with np.load(results) as arrays:
        return dict(arrays)


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], **TOLERANCE, err_msg=name)


@pytest.mark.parametrize("cases", [[FIRST], pytest.param(FURTHER, marks=pytest.mark.slow)], ids=["first", "further"])
def test_eight_devices_give_the_numbers_of_one(tmp_path, cases):
    there = started(THERE, 8, tmp_path / "eight.npz", ",".join(cases))
    same(numbers_of(cases, "lanes"), written(there, tmp_path / "eight.npz"))


def join(address, number):
    """Become one of two processes."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, 2, int(number))
    assert (jax.device_count(), jax.local_device_count()) == (4, 2)


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    files = [tmp_path / "first.npz", tmp_path / "second.npz"]
    both = [started(THERE, 2, file, FIRST, address, number) for number, file in enumerate(files)]
    first, second = map(written, both, files)
    same(numbers_of([FIRST], "lanes"), first)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(tmp_path):
    end(started(STOPPED, 8, tmp_path))


def test_without_a_mesh_nothing_is_touched():
    tree = {"rows": jax.numpy.ones((NUM_CLIENTS, 2))}
    for result in (mesh.usual_shapes(tree), mesh.fill_up(tree, NUM_CLIENTS), mesh.spread_rows(tree, NUM_CLIENTS)):
        assert result["rows"] is tree["rows"]


def test_every_device_has_slots_to_train():
    sizes = {"slots": 100, "usual": 50, "width": 1, "job_floats": 10, "equal_steps": False}
    one, eight = (side_by_side.slots_together(tasks.quadratics(2), **sizes, devices=devices) for devices in (1, 8))
    assert eight == 8 * one
