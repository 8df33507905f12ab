"""Against mikudehuane/FedLaAvg: models under a falling rate, and who is asked when few places are left."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from replay import Clients, Replay, apart, stored

from turnout.server.server import Server
from turnout.strategies import FedLaAvg
from turnout.types import Fleet, Known

MOVING = FedLaAvg(moves_when_empty=True)


@pytest.fixture(scope="module")
def theirs():
    return stored("fedlaavg")


def test_one_local_step_agrees_round_by_round(theirs):
    """Their loss of a client is multiplied by N n_k / n and averaged over N; ours weighs by the target n_k / n."""
    clients = Clients(steps=1)
    ours = Replay(MOVING, clients, importance=clients.sizes).play(theirs["came"], theirs["rates"])
    np.testing.assert_allclose(ours.models, theirs["one_step_models"], atol=2e-6)


def test_those_who_waited_longest_are_asked(theirs):
    """Two places, more clients available, and no ties; the model stays for the four rounds of the warm-up."""
    clients = Clients(steps=1)
    ours = Replay(FedLaAvg(cohort=2, warmup=4, moves_when_empty=True), clients, importance=clients.sizes)
    ours.play(theirs["waiting_came"], theirs["rates"])
    np.testing.assert_array_equal(ours.asked, theirs["waiting_asked"])
    np.testing.assert_allclose(ours.models, theirs["waiting_models"], atol=2e-6)


def test_with_several_steps_a_target_is_no_step_length(theirs):
    """Deviation: their factor N n_k / n lengthens each local step, ours scales the sum of the steps afterwards.

    Clients whose rate has that factor, with equal targets, agree with theirs.
    """
    plain, models = Clients(steps=3), theirs["three_steps_models"]
    stretched = Clients(steps=3, stretch=len(plain.sizes) * plain.sizes / plain.sizes.sum())
    same = Replay(MOVING, stretched).play(theirs["came"], theirs["rates"])
    np.testing.assert_allclose(same.models, models, atol=2e-6)
    ours = Replay(MOVING, plain, importance=plain.sizes).play(theirs["came"], theirs["rates"])
    assert apart(ours.models, models)[-1] == pytest.approx(0.09674, abs=1e-4)


def test_ties_are_broken_by_lot(theirs):
    """Deviation: among clients that have waited equally long theirs takes the lowest numbers."""
    np.testing.assert_array_equal(np.argwhere(theirs["ties_asked"])[:, 1], [0, 1, 2, 3, 4, 5])
    ones = jnp.ones(8)
    server = Server.of(Fleet(ones), FedLaAvg(cohort=2), slots=2)
    state = server.init(jnp.zeros(1))
    view = server.view(state, jnp.asarray(0), ones > 0, 0.1, Known(ones, ones, ones, ones))
    asked = sum(np.asarray(server.ask(state, view, jr.key(root))[0].asked, int) for root in range(20))
    assert asked.sum() == 40
    assert asked.max() < 20
    assert (asked[2:] > 0).sum() == 6
