import jax.numpy as jnp
import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, FLEET, check_against, check_in_rounds
from turnout.server.settings import ServerSettings
from turnout.strategies import FedDyn
from turnout.strategies.feddyn import Tilted
from turnout.types import Answer, Work

ALPHA = 0.5
SHARP = 3000.0  # g_k comes nearer to the gradient by a share of about K η α per visit


class Dyn:
    """In its authors' form: u_k is the sum of all that client k has moved, and x ← mean of z_k over who came + Σ α u.

    Local steps follow ∇f_k(z) + α u_k + α (z - x). Where work takes time, what has come is added to the present model.
    """

    def __init__(self, fleet=FLEET, alpha=ALPHA):
        self.fleet, self.alpha, self.moved = fleet, alpha, np.zeros_like(fleet.centres)

    def __call__(self, model, step):
        moves = {}
        for job in step.jobs:
            k, z = job.client, job.start.copy()
            for _ in range(job.steps):
                dual = self.alpha * self.moved[k]
                z = z - job.lr * (self.fleet.gradient(k, z) + dual + self.alpha * (z - job.start))
            moves[k] = z - job.start
        if not moves:
            return model
        for k, move in moves.items():
            self.moved[k] += move
        whole = sum(self.fleet.share[k] for k in moves)
        mean = sum(self.fleet.share[k] / whole * (model + move) for k, move in moves.items())
        return mean + self.fleet.share @ self.moved


def test_the_step_is_the_mean_update_and_the_sum_of_all_updates(play):
    game = play(FedDyn(alpha=0.1), importance=(1.0, 1.0, 2.0))
    found = game.round([1, 0, 1], [2.0, 9.0, 8.0])
    total = 0.25 * 2.0 + 0.5 * 8.0
    assert found == pytest.approx(total / 0.75 + total)
    total += 0.25 * 4.0
    assert game.round([0, 1, 1], [9.0, 4.0, 9.0], arrived=[1, 1, 0]) == pytest.approx(found + 4.0 + total)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FedDyn(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


def test_a_client_keeps_its_gradient_where_it_ended():
    side, one = Tilted(2.0), jnp.ones(())
    own = jnp.array([1.0, -1.0])
    np.testing.assert_allclose(side.push(own, None), [-1.0, 1.0])
    answer = side.say(own, Work(jnp.array([0.5, 0.5]), one, one, one))
    np.testing.assert_allclose(side.keep(own, Work(jnp.zeros(2), one, one, one), answer), [0.0, -2.0])
    assert isinstance(answer, Answer)


def test_numbers_and_servers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="alpha must be"):
        FedDyn(alpha=0.0)
    with pytest.raises(ValueError, match="FedDyn sets the model itself, so the server's learning_rate must be 1"):
        ServerSettings(learning_rate=0.5).check(FedDyn())


def test_as_the_papers_box_in_plain_loops():
    check_in_rounds(Dyn(), FedDyn(ALPHA))


@pytest.mark.variant
@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Dyn(), FedDyn(ALPHA), pace, leaving)


@pytest.mark.parametrize("importance", [None, np.linspace(1.0, 3.0, 16)], ids=["equal", "unequal"])
def test_it_reaches_the_optimum_whoever_comes_how_often(importance):
    fleet = least_squares.regressions(importance)
    simulated, plain = least_squares.distances(FedDyn(SHARP), Dyn(fleet, SHARP), fleet)
    assert plain < 1e-6
    assert simulated < least_squares.FLOOR
