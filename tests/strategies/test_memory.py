import jax.numpy as jnp
import pytest

from turnout.availability import bernoulli
from turnout.simulator.trial import Trial, check_trial
from turnout.strategies import MIFA, FedAU, FedAvg, FedAWE
from turnout.strategies.memory import check_memory
from turnout.tasks.quadratics import quadratics
from turnout.types import Fleet
from turnout.uploads import ErrorFeedback, TopK
from turnout.world import World


def test_a_memory_that_does_not_fit_is_refused_with_its_size():
    fleet = Fleet(jnp.ones(4))

    def state_of(strategy):
        return lambda: strategy.init(fleet, jnp.zeros((2**14, 2**14)))

    with pytest.raises(ValueError, match=r"MIFA remembers 5\.0 GiB for 4 clients.* the device has 3\.0 GiB"):
        check_memory(MIFA(), fleet, state_of(MIFA()), room=3 * 2**30)
    with pytest.raises(ValueError, match=r"FedAWE remembers 4\.0 GiB"):
        check_memory(FedAWE(), fleet, state_of(FedAWE()), room=3 * 2**30)
    check_memory(MIFA(), fleet, state_of(MIFA()), room=6 * 2**30)
    check_memory(FedAU(), fleet, state_of(FedAU()), room=3 * 2**30)


def test_a_trial_is_checked_before_it_runs(monkeypatch):
    monkeypatch.setattr("turnout.strategies.memory._device_memory", lambda: 100)
    task = quadratics(num_clients=10, dimension=20)
    with pytest.raises(ValueError, match="MIFA remembers"):
        check_trial(task, Trial(MIFA(), World(bernoulli(10, 0.5))))


def test_what_the_clients_remember_counts(monkeypatch):
    monkeypatch.setattr("turnout.strategies.memory._device_memory", lambda: 700)
    task, world = quadratics(num_clients=10, dimension=20), World(bernoulli(10, 0.5))
    check_trial(task, Trial(FedAvg(), world))
    with pytest.raises(ValueError, match="FedAvg remembers"):
        check_trial(task, Trial(FedAvg(), world, uploads=ErrorFeedback(TopK(0.1))))
