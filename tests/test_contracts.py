"""Every strategy, process and task of ours keeps the contract that users can check theirs against."""

import jax.numpy as jnp
import pytest

from turnout.strategies import AdaFed, FedAvg, MoreAvailable, Separated, Strategy, Unbiased
from turnout.testing import check_strategy
from turnout.types import Array, Ask

STRATEGIES = {
    "fedavg received": FedAvg(),
    "fedavg all": FedAvg(normaliser="all"),
    "fedavg cohort": FedAvg(cohort=3),
    "fedavg draws": FedAvg(cohort=3, normaliser="draws"),
    "unbiased": Unbiased(),
    "more_available": MoreAvailable(),
    "adafed": AdaFed(),
    "separated fedavg": Separated(FedAvg(cohort=2), separation=1),
    "separated draws": Separated(FedAvg(cohort=3, normaliser="draws"), separation=2),
    "separated unbiased": Separated(Unbiased(), separation=1),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategy(name):
    check_strategy(STRATEGIES[name])


class AsksTheAbsent(Strategy[None]):
    def select(self, state, view, key):
        return Ask.of(jnp.ones_like(view.available), view.target), state


class PrefersTheFirst(Strategy[None]):
    def select(self, state, view, key):
        return Ask.of(view.available, view.target * jnp.arange(view.num_clients, dtype=jnp.float32)), state


class DividesByZero(Strategy[Array]):
    def init(self, fleet, params):
        return jnp.zeros(())

    def settle(self, state, params, view, cohort):
        return jnp.sum(cohort.weight) / jnp.sum(cohort.arrived, dtype=jnp.float32)


class ChangesItsState(Strategy[object]):
    def init(self, fleet, params):
        return jnp.zeros(())

    def select(self, state, view, key):
        return Ask.of(view.available, view.target), state[None]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (PrefersTheFirst(), "alike"),
        (DividesByZero(), "stay finite"),
        (ChangesItsState(), "form of the state"),
        (AsksTheAbsent(), "only available"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Strategy) else "",
)
def test_a_broken_strategy_is_caught(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_strategy(broken)
