import jax.numpy as jnp
import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, FLEET, check_against, check_in_rounds
from turnout.strategies import SCAFFOLD
from turnout.strategies.scaffold import ControlVariate
from turnout.types import Work


class Scaffold:
    """The paper's algorithm 1 with option II: c_k ← c_k - c + (x - y_k) / (K η), all numbers in double precision."""

    def __init__(self, fleet=FLEET):
        self.fleet, self.controls = fleet, np.zeros_like(fleet.centres)

    def shared(self):
        return self.fleet.share @ self.controls

    def __call__(self, model, step):
        moves = {}
        for job in step.jobs:
            k, y, own, common = job.client, job.start.copy(), self.controls[job.client], job.shared
            for _ in range(job.steps):
                y = y - job.lr * (self.fleet.gradient(k, y) - own + common)
            moves[k] = y - job.start
            if job.steps:
                self.controls[k] = own - common - moves[k] / (job.steps * job.lr)
        whole = sum(self.fleet.share[k] for k in moves)
        return model + sum((self.fleet.share[k] / whole * move for k, move in moves.items()), 0.0 * model)


def test_updates_are_averaged_and_changes_of_c_are_summed(play):
    game = play(SCAFFOLD(), importance=(1.0, 1.0, 2.0))
    found = game.round([1, 0, 1], [2.0, 9.0, 8.0], seconds=[4.0, 9.0, 1.0])
    assert found == pytest.approx((0.25 * 2.0 + 0.5 * 8.0) / 0.75)
    assert float(game.state.strategy.total[0]) == pytest.approx(4 * (0.25 * 4.0 + 0.5 * 1.0))
    game.round([1, 1, 0], [0.0] * 3, arrived=[1, 0, 1], seconds=[-2.0, 9.0, 9.0])
    assert float(game.state.strategy.total[0]) == pytest.approx(4 * (0.25 * 2.0 + 0.5 * 1.0))


def test_an_empty_first_round_leaves_the_model(play):
    assert play(SCAFFOLD(), start=4.0).round([0, 0, 0], [1.0] * 3, seconds=[1.0] * 3) == 4.0


def test_a_client_steps_by_c_minus_its_own_and_keeps_what_it_has_sent():
    side, own = ControlVariate(), jnp.array([1.0, 2.0])
    np.testing.assert_allclose(side.push(own, jnp.array([5.0, 5.0])), [4.0, 3.0])
    one = jnp.ones(())
    work = Work(jnp.array([0.5, 0.5]), one, one, one, mean_gradient=jnp.array([3.0, -1.0]))
    answer = side.say(own, work)
    np.testing.assert_allclose(answer.update, [0.5, 0.5])
    np.testing.assert_allclose(answer.second, [2.0, -3.0])
    np.testing.assert_allclose(side.keep(own, work, answer), [3.0, -1.0])


def test_as_the_papers_box_in_plain_loops():
    check_in_rounds(Scaffold(), SCAFFOLD())


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Scaffold(), SCAFFOLD(), pace, leaving)


@pytest.mark.parametrize("importance", [None, np.linspace(1.0, 3.0, 16)], ids=["equal", "unequal"])
def test_it_reaches_the_optimum_whoever_comes_how_often(importance):
    fleet = least_squares.regressions(importance)
    simulated, plain = least_squares.distances(SCAFFOLD(), Scaffold(fleet), fleet)
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR
