"""Against the notebook of Starrskyy/debias_fl: four groups of two clients, of which one group comes per round."""

import numpy as np
import pytest
from replay import Clients, Replay, stored

from turnout.server.settings import ServerSettings
from turnout.strategies import Debiased, FedVARP


@pytest.fixture(scope="module")
def theirs():
    return stored("debiased")


def test_debiased_agrees_at_a_falling_rate(theirs):
    """Deviation: in round t the notebook's step is T M / (t + 1) times as long, with T = 16 rounds and M = 4 groups.

    It divides a client's count by the planned number of rounds, T, where the paper has the rounds so far, t + 1; and it
    leaves out the number of groups. With a rate that falls like this, both codes agree.
    """
    came, rounds = theirs["came"], len(theirs["came"])
    longer = rounds * 4 / (1.0 + np.arange(rounds))
    ours = Replay(Debiased(), Clients(steps=3)).play(came, 0.02 * longer)
    np.testing.assert_allclose(0.02 * longer[:, None] * ours.scales, theirs["debiased_rates"], rtol=1e-5)
    np.testing.assert_allclose(ours.models, theirs["debiased_models"], atol=2e-6)


def test_two_rounds_in_a_row_start_afresh(theirs):
    """Deviation: a group that comes twice in a row trains one after the other in the notebook.

    Its server's model is then the very object that the group's first client trains, so that the second client starts
    where the first one ended. This happens without minimum separation only (R = 0).
    """
    clients, models, rate = Clients(steps=3), theirs["again_models"], 0.1
    longer = 4 * 4 / (1.0 + np.arange(3))
    ours = Replay(Debiased(), clients).play(theirs["again_came"][:3], 0.05 * longer)
    np.testing.assert_allclose(ours.models[:3], models[:3], atol=2e-6)
    first = models[2] + clients.update(2, models[2], rate)
    second = first + clients.update(3, first, rate)
    np.testing.assert_allclose((first + second) / 2, models[3], atol=2e-6)
    assert np.abs(ours.models[3] - models[3]).max() == pytest.approx(0.09141, abs=1e-4)


def test_fedvarp_agrees_at_their_server_rate(theirs):
    """Their server's rate is lr_c lr_s τ = 0.3 · 2 · 1; unlike FedVARP's paper they do not divide updates by lr_c τ."""
    settings = ServerSettings(learning_rate=0.6)
    ours = Replay(FedVARP(), Clients(steps=3), settings=settings).play(theirs["came"], np.full(16, 0.3))
    np.testing.assert_allclose(ours.models, theirs["fedvarp_models"], atol=2e-6)
