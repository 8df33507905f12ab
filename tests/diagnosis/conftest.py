import numpy as np
import pytest

from turnout.diagnosis.diagnose import Diagnosis, diagnose
from turnout.diagnosis.log import Log


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
