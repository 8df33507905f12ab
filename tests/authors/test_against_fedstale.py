"""Against arodio/FedStale: its aggregator, memory and optimizer, with the weights of its sampler and estimator."""

import numpy as np
import pytest
from replay import Clients, Replay, apart, stored

from turnout.strategies import FedStale


@pytest.fixture(scope="module")
def theirs():
    return stored("fedstale")


def play(theirs, **options):
    strategy = FedStale(cutoff=np.inf, **options)
    return Replay(strategy, Clients(steps=3), importance=theirs["sizes"]).play(theirs["came"], np.full(18, 0.5))


@pytest.mark.parametrize(("name", "beta"), [("half", 0.5), ("all", 1.0), ("none", 0.0)])
def test_fedstale_agrees_round_by_round_with_estimated_frequencies(theirs, name, beta):
    np.testing.assert_allclose(play(theirs, beta=beta).models, theirs[f"{name}_models"], atol=1e-5)


def test_known_frequencies_go_to_clients_in_turn(theirs):
    """Deviation: their table deals out the given rates one after another; clients that come alike often lie in blocks.

    With the rates as they are dealt the models agree, so the rule is the same.
    """
    dealt = play(theirs, beta=0.5, rates=[0.25, 0.5] * 4)
    np.testing.assert_allclose(dealt.models, theirs["known_models"], atol=1e-5)
    blocks = play(theirs, beta=0.5, rates=[0.25] * 4 + [0.5] * 4)
    assert apart(blocks.models, theirs["known_models"]).max() > 0.1
