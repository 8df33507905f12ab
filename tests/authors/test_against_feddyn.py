"""Against alpemreacar/FedDyn: FedDyn, and the SCAFFOLD beside it."""

import numpy as np
import pytest
from replay import Clients, Replay, apart, stored

from turnout.strategies import SCAFFOLD, FedDyn


@pytest.fixture(scope="module")
def theirs():
    return stored("feddyn")


def play(strategy, came, rates):
    return Replay(strategy, Clients(steps=3)).play(came, rates).models


def test_feddyn_agrees_round_by_round(theirs):
    """Their form keeps the sum of a client's moves, ours its gradient."""
    rates = np.full(len(theirs["came"]), 0.2)
    np.testing.assert_allclose(play(FedDyn(alpha=0.5), theirs["came"], rates), theirs["feddyn_models"], atol=1e-5)


def test_scaffold_agrees_round_by_round_at_a_constant_rate(theirs):
    rates = np.full(len(theirs["came"]), 0.2)
    np.testing.assert_allclose(play(SCAFFOLD(), theirs["came"], rates), theirs["scaffold_models"], atol=1e-5)


def test_a_falling_rate_does_not_spoil_the_gradients_that_are_kept(theirs):
    """Deviation: their c_k is divided by the rate of the first round, by which no step of a later one was made."""
    rates = 0.2 * 0.9 ** np.arange(len(theirs["came"]))
    gap = apart(play(SCAFFOLD(), theirs["came"], rates), theirs["scaffold_falling_models"])
    assert gap[:2].max() < 1e-5 < 1e-3 < gap[-1]
