"""Estimates where only some clients are asked in a round: not asked is not absent."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid, grouped

from turnout.flower import FlowerStrategy, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import FedAvg, LastWord, Unbiased

APP = client_app(train=lambda arrays, *_: (arrays, {"loss": 1.0}))
RATES = np.repeat([0.3, 0.5, 0.8], 4)
ROUNDS = 150


def chains(lam, rounds=ROUNDS, seed=3):
    """Who is there, round by round; one row per round."""
    draw = np.random.default_rng(seed)
    here = np.empty((rounds + 2, len(RATES)), bool)
    here[0] = draw.random(len(RATES)) < RATES
    for t in range(1, len(here)):
        here[t] = draw.random(len(RATES)) < RATES * (1 - lam) + lam * here[t - 1]
    return here


def play(strategy, here, *, all_listed=False, **options):
    """The strategy after a training in which clients come and go, or are listed and silent."""

    def listed(t):
        return [str(k) for k in range(len(RATES)) if all_listed or t < 1 or here[t][k]]

    def behave(name, t, message):
        is_there = message.metadata.message_type == "query.hello" or here[t][int(name)]
        return "answer" if is_there else "silent"

    clock = FakeClock(end=1e9)
    grid = InProcessGrid(APP, listed, behave)
    flower = FlowerStrategy(strategy, **grouped(evaluate_every=0, clock=clock, **options))
    flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=ROUNDS, timeout=5.0)
    return sorted(flower.estimates, key=lambda one: int(one.client.removeprefix("id:")))


CASES = {
    "everybody": (FedAvg(), {}),
    "a third": (FedAvg(), {"fraction_train": 0.3}),
    "a third, listed is there": (FedAvg(), {"fraction_train": 0.3, "listed": "available"}),
    "three": (LastWord(cohort=3), {}),
    "all are listed": (FedAvg(cohort=4), {"all_listed": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_rates_are_right_whoever_is_asked(case):
    strategy, options = CASES[case]
    found = play(strategy, chains(0.0), **options)
    means = np.array([one.pi for one in found]).reshape(3, 4).mean(axis=1)
    np.testing.assert_allclose(means, [0.3, 0.5, 0.8], atol=0.08)
    held = [one.pi_low <= pi <= one.pi_high for one, pi in zip(found, RATES, strict=True)]
    assert sum(held) >= 11
    assert sum(one.lam_low <= 0.0 <= one.lam_high for one in found) >= 10


def test_memory_is_seen_where_few_are_asked():
    found = play(LastWord(cohort=3), chains(0.8, seed=5))
    held = [one.pi_low <= pi <= one.pi_high for one, pi in zip(found, RATES, strict=True)]
    assert sum(held) >= 11
    assert sum(one.lam_low <= 0.8 <= one.lam_high for one in found) >= 10
    assert np.mean([one.lam for one in found]) > 0.55


def test_what_a_strategy_reads_is_what_is_told():
    """Weights by 1/π are right with a share of the clients, too."""
    flower = []

    class Told(Unbiased):
        def select(self, state, view, key):
            flower.append(view.known.pi.shape)
            return super().select(state, view, key)

    found = play(Told(), chains(0.0), fraction_train=0.3)
    assert flower
    assert np.mean([one.pi for one in found[8:]]) == pytest.approx(0.8, abs=0.08)
