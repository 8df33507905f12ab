import jax.numpy as jnp
import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, FLEET, check_against, check_in_rounds
from turnout.strategies import AmplifiedSCAFFOLD
from turnout.strategies.amplified_scaffold import Common, WindowedControl
from turnout.types import Work

P, GAIN = 3, 1.5


class AmplifiedScaffold:
    """The paper's box: c_k and c hold for a window; clients sum their gradients; at its end both are made anew.

    Where work takes time, gradients count for the window in which their client was asked, and enter c when they come.
    """

    def __init__(self, fleet=FLEET):
        self.fleet, self.start, self.common = fleet, None, np.zeros(fleet.centres.shape[1])
        nothing = np.zeros_like(fleet.centres)
        self.controls, self.sums, self.means = nothing, nothing.copy(), nothing.copy()
        self.counts, self.window = np.zeros(fleet.count), np.full(fleet.count, -1)

    def shared(self):
        return self.common.copy()

    def __call__(self, model, step):
        self.start = model if self.start is None else self.start
        moves = {}
        for job in step.jobs:
            k, z, window, gathered = job.client, job.start.copy(), job.version // P, []
            control = self.means[k] if window > self.window[k] else self.controls[k]
            for _ in range(job.steps):
                gathered.append(self.fleet.gradient(k, z))
                z = z - job.lr * (gathered[-1] - control + job.shared)
            moves[k] = z - job.start
            if not gathered:
                continue
            if window > self.window[k]:
                self.controls[k], self.sums[k], self.counts[k], self.window[k] = self.means[k], 0.0, 0, window
            self.sums[k] += np.sum(gathered, axis=0)
            self.counts[k] += len(gathered)
            self.means[k] = self.sums[k] / self.counts[k]
        whole = sum(self.fleet.share[k] for k in moves)
        model = model + sum((self.fleet.share[k] / whole * move for k, move in moves.items()), 0.0 * model)
        if (step.version + 1) % P == 0:
            model = self.start + GAIN * (model - self.start)
            self.start, self.common = model, self.fleet.share @ self.means
        return model


def test_c_changes_at_the_end_of_a_window_and_the_model_goes_further(play):
    game = play(AmplifiedSCAFFOLD(window=2, gain=3.0), importance=(1.0, 1.0, 2.0))
    assert game.round([1, 0, 1], [2.0, 9.0, 8.0], seconds=[4.0, 9.0, 1.0]) == pytest.approx(6.0)
    np.testing.assert_array_equal(game.state.strategy.control, [0.0])
    assert game.round([0, 1, 0], [9.0, 1.0, 9.0], seconds=[9.0, 2.0, 9.0]) == pytest.approx(3 * 7.0)
    np.testing.assert_allclose(game.state.strategy.control, [0.25 * 4.0 + 0.25 * 2.0 + 0.5 * 1.0], rtol=1e-6)
    assert game.round([1, 0, 0], [1.0, 9.0, 9.0], seconds=[8.0, 9.0, 9.0]) == pytest.approx(22.0)
    np.testing.assert_allclose(game.state.strategy.control, [2.0], rtol=1e-6)


def test_a_window_may_end_in_an_empty_round(play):
    game = play(AmplifiedSCAFFOLD(window=2, gain=3.0))
    assert game.round([1, 1, 1], [1.0] * 3, seconds=[0.0] * 3) == pytest.approx(1.0)
    assert game.round([0, 0, 0], [9.0] * 3, seconds=[9.0] * 3) == pytest.approx(3.0)


def test_an_empty_first_window_leaves_the_model(play):
    game = play(AmplifiedSCAFFOLD(window=1), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3, seconds=[1.0] * 3) == 4.0


def test_a_client_corrects_by_the_window_before_and_gathers_this_one():
    side, one = WindowedControl(), jnp.ones(())

    def play(kept, window, gradient, reach):
        shared = Common(jnp.array([10.0]), jnp.asarray(float(window)))
        work = Work(jnp.zeros(1), one, reach * one, one, shared, mean_gradient=jnp.array([gradient]))
        return float(side.push(kept, shared)[0]), side.keep(kept, work, side.say(kept, work))

    pushes, kept = [], side.init(jnp.zeros(1))
    for window, gradient, reach in ((0, 4.0, 1.0), (0, 1.0, 2.0), (1, 6.0, 1.0), (4, 0.0, 1.0)):
        push, kept = play(kept, window, gradient, reach)
        pushes.append(push)
    np.testing.assert_allclose(pushes, [10.0, 10.0, 10.0 - 2.0, 10.0 - 6.0], rtol=1e-6)


def test_as_the_papers_box_in_plain_loops():
    check_in_rounds(AmplifiedScaffold(), AmplifiedSCAFFOLD(P, GAIN))


@pytest.mark.variant
@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(AmplifiedScaffold(), AmplifiedSCAFFOLD(P, GAIN), pace, leaving)


@pytest.mark.parametrize("importance", [None, np.linspace(1.0, 3.0, 16)], ids=["equal", "unequal"])
def test_it_reaches_the_optimum_whoever_comes_how_often(importance):
    fleet = least_squares.regressions(importance)
    simulated, plain = least_squares.distances(AmplifiedSCAFFOLD(P, GAIN), AmplifiedScaffold(fleet), fleet)
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR
