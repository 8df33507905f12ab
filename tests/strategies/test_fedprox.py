import numpy as np
import pytest

from slow_fleet import CASES, COUNT, FLEET, check_against, check_in_rounds, task
from turnout import Local, World, simulate
from turnout.availability import bernoulli
from turnout.strategies import FedAvg, FedProx
from turnout.world import compute

MU, RATE, STEPS = 2.0, 0.1, [1, 2, 3, 4, 1, 2, 3, 4, 9]
LOCAL = Local(learning_rate=RATE, batch_size=1)
ALWAYS = World(bernoulli(COUNT, 1.0), compute=compute.per_client(COUNT, STEPS))


class Prox:
    """Each client descends f_k(z) + μ/2 ‖z - x‖² for as long as it can, and all that comes is averaged."""

    def __call__(self, model, step):
        moves, fleet = {}, step.fleet
        for job in step.jobs:
            z = job.start.copy()
            for _ in range(job.steps):
                z = z - job.lr * (fleet.gradient(job.client, z) + MU * (z - job.start))
            moves[job.client] = z - job.start
        whole = sum(fleet.share[k] for k in moves)
        return model + sum((fleet.share[k] / whole * move for k, move in moves.items()), 0.0 * model)


def test_what_arrives_is_averaged_by_target_whatever_the_work(play):
    game = play(FedProx(), importance=(1.0, 1.0, 2.0), reach=[1.0, 5.0, 20.0])
    assert game.round([1, 1, 1], [2.0, 9.0, 8.0], arrived=[1, 0, 1]) == pytest.approx(6.0)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FedProx(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


def test_a_pull_below_zero_is_refused():
    with pytest.raises(ValueError, match="mu must be"):
        FedProx(mu=-0.1)


def test_as_plain_loops():
    check_in_rounds(Prox(), FedProx(MU))


@pytest.mark.variant
@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Prox(), FedProx(MU), pace, leaving)


def end(strategy, local=LOCAL, rounds=200):
    return simulate(task(), ALWAYS, strategy, rounds=rounds, local=local).params[0]


def test_without_a_pull_it_is_fedavg_and_with_one_fedavg_with_proximal_steps():
    np.testing.assert_array_equal(end(FedProx(MU)), end(FedAvg(), Local(learning_rate=RATE, batch_size=1, proximal=MU)))
    np.testing.assert_allclose(end(FedProx(0.0)), end(FedAvg()), rtol=1e-6)


def test_its_limit_is_the_predicted_one_and_not_the_optimum():
    """Client k moves by h / (h + μ) (1 - (1 - η (h + μ))^K) of its way; these shares weigh the minima."""
    bend = FLEET.curvature + MU
    share = FLEET.curvature / bend * (1 - (1 - RATE * bend) ** np.array(STEPS))
    weights = FLEET.share * share
    limit = weights @ FLEET.centres / weights.sum()
    np.testing.assert_allclose(end(FedProx(MU)), limit, atol=1e-5)
    pull = FLEET.share * FLEET.curvature
    assert np.abs(limit - pull @ FLEET.centres / pull.sum()).max() > 0.01
