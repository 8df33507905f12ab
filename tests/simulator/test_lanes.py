import numpy as np
import pytest

from turnout.availability import bernoulli
from turnout.simulator import lanes as group
from turnout.simulator import placement as side_by_side
from turnout.simulator import simulate
from turnout.simulator.local import Local
from turnout.strategies import FedAvg
from turnout.tasks.quadratics import Quadratics
from turnout.world import World
from turnout.world.compute import per_client

CENTRES = np.random.default_rng(0).normal(size=(12, 3)).tolist()


def run(steps=3, seeds=6):
    compute = steps if isinstance(steps, int) else per_client(12, steps)
    options = {"local": Local(batch_size=1), "metrics": ["distance"], "evaluate_every": 5}
    world = World(bernoulli(12, 0.5), compute=compute)
    return simulate(Quadratics.of(CENTRES), world, FedAvg(), rounds=20, seeds=seeds, **options)


@pytest.fixture
def widths(monkeypatch):
    """Widths and chunks of all programs compiled."""
    found, plain = [], group.Programs.compiled.__func__

    def compiled(cls, inputs, pace):
        found.append((inputs[-1].shape[0], inputs[4].chunk))
        return plain(cls, inputs, pace)

    monkeypatch.setattr(group.Programs, "compiled", classmethod(compiled))
    monkeypatch.setattr(side_by_side, "on_cpu", lambda: False)
    return found


def with_memory_for(monkeypatch, *needs):
    """Programs that are said to need so much, one after another, of a memory of 700."""
    told = iter(needs)
    monkeypatch.setattr(side_by_side, "memory", lambda: 700)
    monkeypatch.setattr(group.Programs, "bytes_needed", lambda self: next(told))


def test_a_program_too_large_for_the_device_gets_fewer_lanes_and_then_fewer_slots(widths, monkeypatch):
    free = run()
    with_memory_for(monkeypatch, 9000, 900, 600)
    narrow = run()
    assert widths == [(6, 8), (6, 8), (1, 8), (1, 4)]
    np.testing.assert_allclose(narrow.metrics["distance"], free.metrics["distance"], rtol=1e-5)


def test_a_memory_that_holds_four_of_six_lanes_takes_two_crews_of_three(widths, monkeypatch):
    with_memory_for(monkeypatch, 1000, 500)
    run()
    assert widths == [(6, 8), (3, 8)]


def test_what_a_program_needs_grows_with_its_lanes(monkeypatch):
    found, plain = [], group.Programs.bytes_needed
    monkeypatch.setattr(group.Programs, "bytes_needed", lambda self: found.append(plain(self)) or found[-1])
    monkeypatch.setattr(side_by_side, "on_cpu", lambda: False)
    for seeds in (1, 8):
        run(seeds=seeds)
    assert found[1] > 4 * found[0] > 0


@pytest.mark.parametrize(("jobs", "expected"), [(2, (2, 1)), (14, (6, 2))])
def test_jobs_of_unequal_steps_run_side_by_side_only_until_a_gpu_is_busy(widths, monkeypatch, jobs, expected):
    monkeypatch.setattr(side_by_side, "_GPU_FLOATS", jobs * side_by_side.job_floats_of(Quadratics.of(CENTRES), 1))
    run(steps=[1, 7, 2, 30, 1, 1, 9, 3, 2, 2, 2, 5])
    assert widths == [expected]
