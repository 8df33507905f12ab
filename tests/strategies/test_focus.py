import jax.numpy as jnp
import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, FLEET, check_against, check_in_rounds
from turnout.simulator.trial import check_uploads
from turnout.strategies import FOCUS
from turnout.strategies.focus import LastGradient
from turnout.types import Work
from turnout.uploads import EightBit, Noise


class Focus:
    """The paper's box: b gathers q - g_k gradient by gradient, each step but the first is along it, and y gathers b.

    With `length` L the step is η L/N times that of the paper.
    """

    def __init__(self, fleet=FLEET, length=None):
        self.fleet, self.own, self.y = fleet, np.zeros_like(fleet.centres), np.zeros(fleet.centres.shape[1])
        self.length = fleet.count if length is None else length

    def __call__(self, model, step):
        for job in step.jobs:
            k, z, b = job.client, job.start.copy(), np.zeros_like(job.start)
            for turn in range(job.steps):
                if turn > 0:
                    z = z - job.lr * b
                q = self.fleet.gradient(k, z)
                b = b + q - self.own[k]
                self.own[k] = q
            self.y = self.y + self.fleet.count * self.fleet.share[k] * b
        return model - step.lr * self.length / self.fleet.count * self.y if step.jobs else model


def test_changes_are_summed_and_the_sum_is_the_step(play):
    game = play(FOCUS(), importance=(1.0, 1.0, 2.0), lr=0.1)
    found = game.round([1, 0, 1], [2.0, 9.0, 8.0])
    assert found == pytest.approx(-0.1 * 3 * (0.25 * 2.0 + 0.5 * 8.0))
    game.lr = 0.05
    after = game.round([1, 1, 0], [-2.0, 4.0, 9.0], arrived=[1, 0, 1])
    assert after == pytest.approx(found - 0.05 * 3 * (0.25 * 0.0 + 0.5 * 8.0))
    short = play(FOCUS(length=2), importance=(1.0, 1.0, 2.0), lr=0.1)
    assert short.round([1, 0, 1], [2.0, 9.0, 8.0]) == pytest.approx(found * 2 / 3)


def test_an_empty_round_leaves_the_model(play):
    game = play(FOCUS(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    assert game.round([1, 1, 1], [1.0] * 3) == game.round([0, 0, 0], [9.0] * 3) < 4.0


def test_a_client_sends_the_change_of_its_last_gradient():
    side, own, one = LastGradient(), jnp.array([1.0, -1.0]), jnp.ones(())
    np.testing.assert_allclose(side.push(own, None), [-1.0, 1.0])
    answer = side.say(own, Work(jnp.zeros(2), one, one, one, last_gradient=jnp.array([3.0, 0.0])))
    np.testing.assert_allclose(answer.update, [2.0, 1.0])
    assert answer.second is None
    np.testing.assert_allclose(side.keep(own, Work(jnp.zeros(2), one, one, one), answer), [3.0, 0.0])


def test_compression_is_fine_but_not_noise_that_the_next_change_would_take_out():
    check_uploads(FOCUS(), EightBit())
    with pytest.raises(ValueError, match="Noise cannot be used with FOCUS"):
        check_uploads(FOCUS(), Noise(0.1))


def test_as_the_papers_box_in_plain_loops():
    check_in_rounds(Focus(length=2), FOCUS(length=2))


@pytest.mark.variant
@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Focus(length=2), FOCUS(length=2), pace, leaving)


@pytest.mark.parametrize("importance", [None, np.linspace(1.0, 3.0, 16)], ids=["equal", "unequal"])
def test_it_reaches_the_optimum_whoever_comes_how_often(importance):
    """The paper's claim."""
    fleet = least_squares.regressions(importance)
    simulated, plain = least_squares.distances(FOCUS(), Focus(fleet), fleet)
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR
