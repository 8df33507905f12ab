import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from turnout.workbench.diagnosis.diagnose import Diagnosis, diagnose
from turnout.workbench.diagnosis.reading.log import Log


def benchmark(name):
    """A module of the benchmarks, which import one another as scripts do."""
    folder = str(Path(__file__).parents[3] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


@pytest.fixture
def file(tmp_path):
    """Write lines, text or bytes, to a file and give its path."""

    def write(*lines, name="log.csv"):
        path = tmp_path / name
        path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
        return str(path)

    return write


@pytest.fixture(scope="session")
def persistent() -> Log:
    """Six clients with memory, the first three there nine times as often as the others, and one who never came."""
    draw = np.random.default_rng(3)
    pi, lam = np.repeat([0.9, 0.1], 3), 0.6
    present = np.zeros((7, 600), bool)
    state = draw.random(6) < pi
    for t in range(600):
        present[:6, t] = state
        state = draw.random(6) < lam * state + (1 - lam) * pi
    return Log.from_matrix(present, names=["<ann>", "ben", "cat", "dan", "eve", "fay", "gus"], slot_seconds=600.0)


@pytest.fixture(scope="session")
def diagnosis(persistent) -> Diagnosis:
    return diagnose(persistent, seeds=2, rounds=0)


@pytest.fixture(scope="session")
def recognition():
    """The benchmark of recognition, whose worlds the tests share."""
    return benchmark("recognition")


@pytest.fixture(scope="session")
def shifting_fleets():
    """Fleets with nights, weekends, outages and churn."""
    return benchmark("shifting_fleets")


@pytest.fixture(scope="session")
def churn_fleets(shifting_fleets):
    """Fleets with heavy tails, weeks, long memory, a server's draw, and growth."""
    return benchmark("churn_fleets")


@pytest.fixture(scope="session")
def unseen_fleets(churn_fleets):
    """Fleets of kinds on which no limit was chosen at first."""
    return benchmark("unseen_fleets")


@pytest.fixture(scope="session")
def chains(recognition):
    """Play chains of given chance (one per client, or slots by clients) and persistence; clients by slots."""

    def play(seed, chance, lam, slots):
        chance = np.asarray(chance, np.float64)
        each_slot = np.broadcast_to(chance, (slots, chance.shape[-1]))
        return recognition.chain(np.random.default_rng(seed), each_slot, np.asarray(lam, np.float64))

    return play
