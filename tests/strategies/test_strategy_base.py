import jax.numpy as jnp
import pytest

from every_strategy import SETTINGS
from turnout.strategies import MIFA, LastWord, NormSampling, OptimalSampling, Strategy
from turnout.types import Fleet, Scalar

WITH_COHORT = {name: strategy for name, strategy in SETTINGS.items() if getattr(strategy, "cohort", None) is not None}


class Asking(Strategy[None]):
    cohort: Scalar | None = None


def fleet_of(num_clients: int) -> Fleet:
    return Fleet(jnp.ones(num_clients))


def test_a_strategy_without_a_cohort_has_room_for_all_who_are_available():
    assert Strategy().capacity(7) == 7
    assert Asking().capacity(7) == 7
    Asking().check(fleet_of(1))


def test_a_field_called_cohort_is_room_enough():
    assert Asking(3).capacity(7) == 3
    assert Asking(jnp.asarray(3)).capacity(2) == 3


@pytest.mark.parametrize("cohort", [0, 4])
def test_a_cohort_that_the_fleet_cannot_fill_is_refused(cohort):
    with pytest.raises(ValueError, match=f"cohort must be between 1 and the 3 clients of the fleet, not {cohort}"):
        Asking(cohort).check(fleet_of(3))


@pytest.mark.parametrize("name", WITH_COHORT)
def test_every_strategy_with_a_cohort_refuses_a_smaller_fleet(name):
    with pytest.raises(ValueError, match="cohort must be between 1 and the 1 clients of the fleet, not"):
        WITH_COHORT[name].check(fleet_of(1))


@pytest.mark.parametrize("name", WITH_COHORT)
def test_a_strategy_that_chooses_among_updates_has_room_for_all_who_train(name):
    strategy = WITH_COHORT[name]
    everyone_trains = isinstance(strategy, NormSampling | OptimalSampling)
    assert strategy.capacity(9) == (9 if everyone_trains else jnp.max(jnp.asarray(strategy.cohort)))


def test_who_keeps_a_model_per_client_is_known():
    remembering = {name for name, strategy in SETTINGS.items() if strategy.remembers_models}
    kinds = {name.partition(" ")[0] for name in remembering}
    assert kinds == {
        "mifa",
        "fedvarp",
        "fedlaavg",
        "last_word",
        "stale_fill",
        "fedawe",
        "ca2fl",
        "ace",
        "fedstaleasync",
        "fedstale",
        "fedar",
        "fedpbc",
    }
    assert not MIFA(memory="clients").remembers_models
    assert not LastWord(memory="clients").remembers_models
