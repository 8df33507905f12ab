"""The clients of one training over several devices: eight virtual ones of a CPU, and those of two processes."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import turnout
from turnout import availability, tasks
from turnout.simulator import crew, mesh
from turnout.strategies import MIFA, CAFed, FedAvg, FedAWE, LastWord
from turnout.world import compute

NUM_CLIENTS = 21  # no multiple of the devices: rows are filled up
CLASSES, FEATURES, SAMPLES = 3, 13, 20
METRICS = ["train_loss"]  # others only take time to compile
FIRST = "mifa unequal"
STRATEGIES = {"fedavg": FedAvg(), "mifa": MIFA(), "last_word": LastWord(), "fedawe": FedAWE(), "ca_fed": CAFed()}
FURTHER = ["fedavg equal", "fedavg unequal", "mifa equal", "last_word equal", "last_word unequal", "fedawe unequal"]
FURTHER += ["ca_fed equal"]
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
    """All results of a run in two segments."""
    name, steps = case.split()
    task = tasks.synthetic_leaf(
        num_clients=NUM_CLIENTS, num_features=FEATURES, num_classes=CLASSES, samples_per_client=SAMPLES, seed=1
    )
    work = {"unequal": compute.drawn(NUM_CLIENTS, 1, 6), "equal": compute.fixed(NUM_CLIENTS, 2)}[steps]
    world = turnout.World(availability.two_classes(NUM_CLIENTS), compute=work)
    history = turnout.simulate(
        task, world, STRATEGIES[name], rounds=6, evaluate_every=3, segment=3, metrics=METRICS, spread=spread
    )
    return [np.asarray(leaf) for leaf in jax.tree.leaves((history.metrics, history.clients, history.params))]


def numbers_of(cases, spread, check=None):
    """Results by case and place; `check` is called with the programs of a case and their inputs."""
    arrays, compiled = {}, crew._compiled

    def watched(*inputs):
        made.append((compiled(*inputs), inputs[0]))
        return made[-1][0]

    crew._compiled = watched
    try:
        for case in cases:
            made = []
            arrays |= {f"{case} {place}": array for place, array in enumerate(numbers(case, spread))}
            for programs, inputs in made if check else ():
                check(case, programs, inputs)
    finally:
        crew._compiled = compiled
    return arrays


def check_parts(case, programs, inputs):
    """Each device has its part of the data and of the memories, and never has them whole."""
    memories = programs.begin(*inputs).server.strategy
    spread = [leaf for leaf in jax.tree.leaves((inputs, memories), is_leaf=_is_spread) if _is_spread(leaf)]
    assert len(spread) >= (1 if case.startswith(("fedavg", "ca_fed")) else 2), case
    for filled in spread:
        (rows,) = {shard.data.size / filled.rows.size for shard in filled.rows.addressable_shards}
        assert rows == 1 / jax.device_count()
    text = programs.advance.compiled.as_text()
    assert " all-reduce" in text
    for rows, numbers_of_row in ((NUM_CLIENTS, f"{CLASSES},{FEATURES}"), (NUM_CLIENTS * SAMPLES, FEATURES)):
        filled = -(-rows // jax.device_count()) * jax.device_count()
        whole = re.search(rf"\[(1,)?({rows}|{filled}),{numbers_of_row}\]", text)
        assert whole is None, (case, whole)


def _is_spread(leaf):
    return isinstance(leaf, mesh.Filled)


def started(script, devices, *arguments):
    """A process with so many virtual devices, which runs a script of this module."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, str(Path(__file__).parent), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process):
    output, _ = process.communicate(timeout=500)
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
    for result in (mesh.usual_shapes(tree), mesh.filled_up(tree, NUM_CLIENTS), mesh.spread_rows(tree, NUM_CLIENTS)):
        assert result["rows"] is tree["rows"]


def test_another_spread_is_refused():
    with pytest.raises(ValueError, match=r"spread must be 'lanes' .* or 'clients', not 'rounds'"):
        mesh.check_spread("rounds")
