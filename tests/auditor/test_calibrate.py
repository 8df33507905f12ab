import numpy as np
import optax
import pytest

from turnout.auditor.calibrate import mean_moves, mean_step, scaled
from turnout.availability import bernoulli
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies import CAFedAvg, FedACS, FedAvg, MoreAvailable, StaleFill, Strategy, Unbiased
from turnout.types import Ask, Fleet
from turnout.world import World, compute, links

COUNT = 5
TARGET = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
SUCCESS = np.array([0.9, 0.4, 0.7, 0.5, 1.0])
STEPS = np.array([1, 7, 3, 5, 2])
PI = np.array([0.2, 0.9, 0.5, 0.7, 0.3])


def scene(pi=1.0):
    rates = pi if isinstance(pi, float) else pi.tolist()
    return World(
        bernoulli(COUNT, rates), links.bernoulli(COUNT, SUCCESS.tolist()), compute.per_client(COUNT, STEPS.tolist())
    )


@pytest.fixture(scope="module")
def fleet():
    import jax.numpy as jnp

    return Fleet(jnp.asarray(TARGET, jnp.float32))


# The lengths of FedACS's paper, appendix I.2, and where availability counts, too, those of the effective weights.
LENGTHS = {
    "fedavg draws": (FedAvg(cohort=3, normaliser="draws"), 1.0, TARGET @ (SUCCESS * STEPS)),
    "fedavg all": (FedAvg(normaliser="all"), PI, TARGET @ (PI * SUCCESS * STEPS)),
    "unbiased": (Unbiased(), PI, TARGET @ (SUCCESS * STEPS)),
    "fedacs": (FedACS(cohort=3), 1.0, 1 / (TARGET / (SUCCESS * STEPS)).sum()),
    "c-a-fedavg": (CAFedAvg(cohort=3), 1.0, TARGET @ STEPS),
    "stale fill": (StaleFill(cohort=3, moves_when_empty=True), 1.0, TARGET @ STEPS),
    "more available": (MoreAvailable(threshold=0.5), PI, (TARGET * (PI >= 0.5)) @ (SUCCESS * STEPS)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_the_mean_step_is_that_of_the_closed_form(fleet, name):
    strategy, pi, expected = LENGTHS[name]
    assert mean_step(strategy, scene(pi), fleet) == pytest.approx(expected, rel=0.03)


def test_a_normalised_step_is_as_long_as_the_work():
    import jax.numpy as jnp

    world = World(bernoulli(COUNT, 1.0), compute=4)
    assert mean_step(FedAvg(), world, Fleet(jnp.ones(COUNT)), rounds=10) == pytest.approx(4.0, rel=1e-5)
    rested = mean_step(FedAvg(), world, Fleet(jnp.ones(COUNT)), rounds=10, rest=1)  # everybody, and then nobody
    assert rested == pytest.approx(2.0, rel=1e-5)


def test_the_reach_of_momentum_is_counted(fleet):
    world, local = World(bernoulli(COUNT, 1.0), compute=3), Local(optimizer=optax.sgd(1.0, momentum=0.5))
    assert mean_step(FedAvg(), world, fleet, local=local, rounds=10) == pytest.approx(1 + 1.5 + 1.75, rel=1e-4)


def test_scaled_rates_make_equal_moves(fleet):
    trials = [Trial(s, scene(PI)) for s in (FedAvg(cohort=3, normaliser="draws"), FedAvg(normaliser="all"), Unbiased())]
    moves = mean_moves(fleet, trials, rounds=200)
    trials = [scaled(trial, moves[0] / move) for trial, move in zip(trials, moves, strict=True)]
    np.testing.assert_allclose(mean_moves(fleet, trials, rounds=200), moves[0], rtol=1e-4)


def test_a_schedule_is_scaled_as_a_whole():
    trial = scaled(Trial(FedAvg(), scene(), Local(learning_rate=lambda t: 0.1 / (1.0 + t))), 3.0)
    assert [float(trial.local.rate(t)) for t in (0, 2)] == pytest.approx([0.3, 0.1])
    assert scaled(Trial(FedAvg(), scene(), Local(learning_rate=0.1)), 3.0).local.learning_rate == pytest.approx(0.3)


class Probing(Strategy[None]):
    needs = ("losses",)

    def select(self, state, view, key):
        return Ask.of(view.available, view.losses), state


def test_what_cannot_be_calibrated_says_why(fleet):
    with pytest.raises(ValueError, match="Probing weighs clients by their losses"):
        mean_step(Probing(), scene(), fleet)
    with pytest.raises(ValueError, match="MoreAvailable does not move the model"):
        mean_step(MoreAvailable(threshold=0.95), scene(PI), fleet, rounds=10)
