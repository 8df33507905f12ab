"""Against IBM/fedau: FedAU, MIFA, FedVARP, known rates and two plain averages."""

import numpy as np
import pytest
from replay import Clients, Replay, apart, stored

from turnout.strategies import MIFA, FedAU, FedAvg, FedVARP, Unbiased

MOVING = MIFA(moves_when_empty=True)


@pytest.fixture(scope="module")
def theirs():
    return stored("fedau")


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("fedau", FedAU(cutoff=100_000)),
        ("fedau_cutoff", FedAU(cutoff=4)),
        ("known_prob", Unbiased()),
        ("average_all", FedAvg(normaliser="all")),
        ("average_participating", FedAvg(normaliser="received")),
        ("fedvarp", FedVARP()),
        ("mifa", MOVING),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_models_and_weights_agree_round_by_round(theirs, name, strategy):
    """Their weights are written with four digits, without the 1 / N by which their server divides later."""
    came = theirs["came"]
    ours = Replay(strategy, Clients(steps=3), pi=theirs["pi"]).play(came, np.full(len(came), 0.5))
    np.testing.assert_allclose(ours.models, theirs[f"{name}_models"], atol=2e-6)
    if f"{name}_weights" in theirs:
        np.testing.assert_allclose(len(came[0]) * ours.weights, theirs[f"{name}_weights"], atol=6e-5)


@pytest.mark.parametrize(("name", "strategy", "step"), [("fedvarp", FedVARP(), 0.10994), ("mifa", MOVING, 0.06915)])
def test_a_remembered_update_follows_the_learning_rate(theirs, name, strategy, step):
    """Deviation: ours is remembered per unit of learning rate, theirs as it was sent.

    Their rate is halved in round 9, so that the models part there, by `step`. A server of ours that is never told of
    the new rate agrees with theirs.
    """
    came, rates, models = theirs["came"], theirs["halved_rates"], theirs[f"{name}_halved_models"]
    untold = Replay(strategy, Clients(steps=3)).play(came, rates, rates_told=np.full(len(came), rates[0]))
    np.testing.assert_allclose(untold.models, models, atol=2e-6)
    difference = apart(Replay(strategy, Clients(steps=3)).play(came[:10], rates).models, models[:11])
    np.testing.assert_allclose(difference[:10], 0.0, atol=2e-6)
    assert difference[10] == pytest.approx(step, abs=1e-4)
