"""A tiny experiment that everything can be tried on."""

import copy

import pytest

TINY = {
    "title": "Tiny",
    "rounds": 4,
    "seeds": 2,
    "task": {"name": "quadratics", "num_clients": 5, "dimension": 2},
    "availability": {"name": "two_classes"},
    "local": {"steps": 2, "learning_rate": 0.1},
    "strategies": [{"name": "fedavg", "cohort": [2, 3]}, {"name": "unbiased"}],
}


@pytest.fixture
def tiny():
    """A document to be changed at will."""
    return copy.deepcopy(TINY)
