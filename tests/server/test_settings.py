import jax.numpy as jnp
import optax
import pytest

from turnout.server.settings import ServerSettings
from turnout.strategies import FedAvg, FedAWE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.5}, "FedAWE sets the model itself, so the server's learning_rate must be 1, not 0.5$"),
        ({"learning_rate": jnp.asarray(2.0)}, "learning_rate must be 1, not 2.0$"),
        ({"learning_rate": lambda t: 1.0}, "learning_rate must be 1, not a schedule$"),
        ({"optimizer": optax.sgd(1.0, momentum=0.9)}, "the server's optimizer must be plain SGD$"),
        ({"radius": 3.0}, "the server's radius must be left out$"),
        ({"learning_rate": 2, "radius": 3.0}, "learning_rate must be 1, not 2.0 and its radius must be left out$"),
    ],
)
def test_a_strategy_that_sets_the_model_needs_the_plain_step(settings, message):
    given = ServerSettings(**settings)
    given.check(FedAvg())
    with pytest.raises(ValueError, match=message):
        given.check(FedAWE())


@pytest.mark.parametrize("settings", [{}, {"learning_rate": 1}, {"optimizer": optax.sgd(1.0)}])
def test_the_plain_step_may_be_said(settings):
    ServerSettings(**settings).check(FedAWE())


@pytest.mark.parametrize("rest", [-1, 1.5])
def test_a_rest_that_is_no_number_of_rounds_is_refused(rest):
    with pytest.raises(ValueError, match="rest must be a whole number from 0 to 16,777,216"):
        ServerSettings(rest=rest)
