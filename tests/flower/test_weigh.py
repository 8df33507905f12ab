"""Importance that changes on a running server: what is remembered counts by it once all have come again."""

import jax
import numpy as np
import pytest

from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Reply
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, FedLaAvg, FedVARP, LastWord

START = {"x": np.zeros(1, np.float32)}
STRATEGIES = [MIFA(), FedVARP(), FedLaAvg(), LastWord(), LastWord(fading=0.0), MIFA(bits=16), LastWord(rule="blend")]


def driver_of(strategy, **importance):
    driver = Driver(strategy, START, local=Local(learning_rate=1.0))
    driver.join(importance)
    return driver


def play(driver, **updates):
    """The step of a round in which these updates arrive."""
    before = driver.arrays()["x"]
    driver.open_round(list(updates))
    replies = {
        name: Reply({"x": np.array([update], np.float32)}, abs(update), 0.0, 1.0, 1) for name, update in updates.items()
    }
    driver.close_round(replies)
    return (driver.arrays()["x"] - before).item()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_once_all_have_come_again_a_memory_is_that_of_the_new_importance(strategy):
    changed, from_the_start = driver_of(strategy, a=1.0, b=1.0), driver_of(strategy, a=1.0, b=3.0)
    for driver in (changed, from_the_start):
        play(driver, a=8.0, b=2.0)
    changed.weigh({"b": 3.0})
    steps = [[play(driver, a=-2.0), play(driver, b=3.0), play(driver, a=-2.0)] for driver in (changed, from_the_start)]
    np.testing.assert_allclose(steps[0][2], steps[1][2], rtol=1e-4)
    leaves = (jax.tree.leaves(driver.state.strategy) for driver in (changed, from_the_start))
    for leaf, other in zip(*leaves, strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-5, atol=1e-3)


def test_the_sum_by_hand():
    """Updates -2 and 3 by 1 : 3, whatever was sent by 1 : 1 before."""
    driver = driver_of(MIFA(moves_when_empty=True), a=1.0, b=1.0)
    play(driver, a=8.0, b=2.0)
    driver.weigh({"b": 3.0})
    assert play(driver, a=-2.0, b=3.0) == pytest.approx((-2.0 + 3 * 3.0) / 4)
    assert play(driver) == pytest.approx(1.75)


@pytest.mark.parametrize("kind", [MIFA, LastWord])
def test_a_client_that_weighs_its_own_word_is_told_and_no_epoch_begins(kind):
    driver = driver_of(kind(memory="clients"), a=1.0, b=1.0)
    orders = driver.open_round(["a", "b"])
    assert [order.importance for order in orders] == [1.0, 1.0]
    said = Reply({"x": np.ones(1, np.float32)}, 1.0, 0.0, 1.0, 1, numbers=np.ones(3, np.float32))
    driver.close_round({"a": said, "b": said})
    driver.weigh({"b": 3.0})
    orders = driver.open_round(["a", "b"])
    assert [order.importance for order in orders] == [1.0, 3.0]
    driver.close_round({})
    assert driver.epoch == 0
    assert [order.acknowledged for order in driver.open_round(["a", "b"])] == [1, 1]
