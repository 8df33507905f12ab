import numpy as np
import pytest

from turnout.availability import bernoulli
from turnout.simulator import batching, side_by_side, simulate
from turnout.simulator.client_optimizer import Local
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
    """Widths and chunks of all programs, in their order."""
    found = []
    watch_programs(monkeypatch, lambda kind, programs: programs, found)
    monkeypatch.setattr(side_by_side, "on_cpu", lambda: False)
    return found


def watch_programs(monkeypatch, change, found):
    plain = batching.Programs.of.__func__

    def of(cls, lanes, run_plan):
        kind = (lanes.root.shape[0], lanes.plan.chunk)
        if kind not in found[-1:]:
            found.append(kind)
        return change(kind, plain(cls, lanes, run_plan))

    monkeypatch.setattr(batching.Programs, "of", classmethod(of))


def with_memory_for(monkeypatch, **needs):
    """Programs that are said to need so much, by width and chunk, of a memory of 700."""
    monkeypatch.setattr(side_by_side, "memory", lambda: 700)
    told = {tuple(map(int, kind[1:].split("x"))): need for kind, need in needs.items()}
    watch_programs(monkeypatch, lambda kind, programs: programs._replace(most_bytes=told[kind]), [])


def test_a_program_too_large_for_the_device_gets_fewer_lanes_and_then_fewer_slots(widths, monkeypatch):
    free = run()
    with_memory_for(monkeypatch, _6x8=9000, _1x8=900, _1x4=600)
    narrow = run()
    assert widths == [(6, 8), (1, 8), (1, 4)]
    np.testing.assert_allclose(narrow.metrics["distance"], free.metrics["distance"], rtol=1e-5)


def test_a_memory_that_holds_four_of_six_lanes_takes_two_crews_of_three(widths, monkeypatch):
    with_memory_for(monkeypatch, _6x8=1000, _3x8=500)
    run()
    assert widths == [(6, 8), (3, 8)]


def test_what_a_program_needs_grows_with_its_lanes(monkeypatch):
    found = {}
    watch_programs(monkeypatch, lambda kind, programs: found.setdefault(kind[0], programs.most_bytes) and programs, [])
    monkeypatch.setattr(side_by_side, "on_cpu", lambda: False)
    for seeds in (1, 8):
        run(seeds=seeds)
    assert found[8] > 4 * found[1] > 0


@pytest.mark.parametrize(("jobs", "expected"), [(2, (2, 1)), (14, (6, 2))])
def test_jobs_of_unequal_steps_run_side_by_side_only_until_a_gpu_is_busy(widths, monkeypatch, jobs, expected):
    monkeypatch.setattr(side_by_side, "_GPU_FLOATS", jobs * side_by_side.job_floats_of(Quadratics.of(CENTRES), 1))
    run(steps=[1, 7, 2, 30, 1, 1, 9, 3, 2, 2, 2, 5])
    assert widths == [expected]
