"""Every strategy, process and task of ours keeps the contract that users can check theirs against."""

import jax.numpy as jnp
import pytest

from turnout.strategies import (
    MIFA,
    AdaFed,
    Debiased,
    FedAU,
    FedAvg,
    FedAWE,
    FedLaAvg,
    FedNova,
    FedVARP,
    MoreAvailable,
    StaleFill,
    Strategy,
    Unbiased,
)
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
    "fedau": FedAU(cutoff=4.0),
    "debiased step": Debiased(),
    "debiased weight": Debiased(batch=3.0, apply="weight"),
    "fedlaavg": FedLaAvg(),
    "fedlaavg cohort": FedLaAvg(cohort=2, warmup=3),
    "mifa": MIFA(),
    "mifa wait": MIFA(wait=True),
    "fedvarp": FedVARP(),
    "fedvarp cohort": FedVARP(cohort=3),
    "stale_fill": StaleFill(cohort=3),
    "fedawe": FedAWE(),
    "fednova": FedNova(),
    "fednova all": FedNova(normaliser="all", effective_steps=2.0),
    "fednova draws": FedNova(cohort=3, normaliser="draws"),
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
