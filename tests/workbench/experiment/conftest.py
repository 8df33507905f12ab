"""A tiny experiment that everything can be tried on."""

import copy

import pytest

from tiny_experiment import TINY


@pytest.fixture
def tiny():
    """A document to be changed at will."""
    return copy.deepcopy(TINY)
