"""Against BichengYing/FedASL: FOCUS, and the SCAFFOLD beside it."""

import numpy as np
import pytest
from replay import Clients, Replay, apart, stored

from turnout.strategies import FOCUS, SCAFFOLD


@pytest.fixture(scope="module")
def theirs():
    return stored("focus")


def play(strategy, came, rate):
    return Replay(strategy, Clients(steps=3)).play(came, np.full(len(came), rate)).models


def test_focus_agrees_round_by_round(theirs):
    """Three gradients and two moves per participation, and a step along the sum of everybody's last gradient."""
    np.testing.assert_allclose(play(FOCUS(), theirs["came"], 0.1), theirs["focus_models"], atol=1e-5)


def test_scaffold_agrees_where_as_many_come_as_were_set(theirs):
    np.testing.assert_allclose(play(SCAFFOLD(), theirs["three"], 0.2), theirs["scaffold_models"], atol=1e-5)


def test_scaffold_does_not_divide_by_the_number_that_was_set(theirs):
    """Deviation: with ten set, as in their runs, and three that come, their step is 0.3 of the mean update."""
    ours, other = play(SCAFFOLD(), theirs["three"], 0.2), theirs["scaffold_ten_models"]
    np.testing.assert_allclose(other[1] - other[0], 0.3 * (ours[1] - ours[0]), atol=1e-6)
    assert apart(ours, other).max() > 0.1
