"""On the real MNIST, which TURNOUT_DATA must name."""

import pytest

from turnout.availability import bernoulli
from turnout.files.downloads import given
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg
from turnout.tasks import mnist
from turnout.world import World


@pytest.mark.slow
@pytest.mark.skipif(given("mnist") is None, reason="TURNOUT_DATA names no folder with mnist")
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_the_linear_model_reaches_what_is_known_of_it(ridge):
    """Linear classifiers make 7.5 to 9 % errors on MNIST."""
    task = mnist(num_clients=100, ridge=ridge, test_set="common")
    local = Local(learning_rate=0.05, batch_size=32)
    everyone = World(bernoulli(100, 1.0), compute=5)
    found = simulate(task, everyone, FedAvg(), rounds=200, local=local, evaluate_every=200)
    assert 0.91 <= found.metrics["test_accuracy"][0, -1] <= 0.925
