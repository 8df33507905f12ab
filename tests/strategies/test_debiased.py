import numpy as np
import pytest

from turnout.availability import minimum_separation
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import Debiased
from turnout.tasks.quadratics import Quadratics
from turnout.world import World


def scales(game):
    return np.asarray(game.cohort.scale)[np.asarray(game.cohort.uploading)]


def test_the_step_is_scaled_by_the_inverse_frequency(play):
    """ν = (t + 1) B / (n N), the present participation included; N = 4, B = 2."""
    game = play(Debiased(batch=2.0), importance=(1.0,) * 4)
    assert game.round([1, 1, 0, 0], [2.0, 4.0, 9.0, 9.0]) == pytest.approx(3.0)
    np.testing.assert_allclose(scales(game), [1 * 2 / (1 * 4)] * 2)
    assert game.round([1, 0, 1, 0], [2.0, 9.0, 4.0, 9.0]) == pytest.approx(6.0)
    np.testing.assert_allclose(scales(game), [2 * 2 / (2 * 4), 2 * 2 / (1 * 4)])
    game.round([1, 0, 0, 1], [0.0] * 4)
    np.testing.assert_allclose(scales(game), [3 * 2 / (3 * 4), 3 * 2 / (1 * 4)])


def test_as_a_weight_the_update_is_scaled_instead(play):
    game = play(Debiased(apply="weight"), importance=(1.0,) * 4)
    assert game.round([1, 1, 0, 0], [2.0, 4.0, 9.0, 9.0]) == pytest.approx(0.5 * 3.0)
    assert game.round([1, 0, 1, 0], [2.0, 9.0, 4.0, 9.0]) == pytest.approx(1.5 + (0.5 * 2 + 1.0 * 4) / 2)
    np.testing.assert_allclose(scales(game), [1.0, 1.0])


def test_the_target_stands_for_one_over_n(play):
    game = play(Debiased(batch=1.0), importance=(1.0, 3.0))
    game.round([1, 0], [0.0, 0.0])
    np.testing.assert_allclose(scales(game), [0.25])
    game.round([0, 1], [0.0, 0.0])
    np.testing.assert_allclose(scales(game), [2 * 0.75])


def test_without_a_batch_size_a_participation_counts_its_share(play):
    game = play(Debiased(apply="weight"), importance=(1.0, 1.0))
    assert game.round([1, 1], [1.0, 3.0]) == pytest.approx((1.0 + 3.0) / 2)  # λ = 1/2 each
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(2.0 + 0.5 / (1.5 / 2))
    game.round([0, 1], [0.0, 0.0])
    np.testing.assert_allclose(game.state.strategy.shares, [1.5, 1.5])


def test_an_empty_round_leaves_the_model_and_counts(play):
    game = play(Debiased(), start=4.0)
    assert game.round([0, 0, 0], [1.0, 1.0, 1.0]) == 4.0
    assert game.round([1, 0, 0], [1.0, 1.0, 1.0], arrived=[0, 1, 1]) == 4.0
    np.testing.assert_allclose(game.state.strategy.rounds, 2.0)
    np.testing.assert_allclose(game.state.strategy.shares, 0.0)


def test_bad_options_are_refused(play):
    with pytest.raises(Exception, match="apply"):
        Debiased(apply="unknown")
    with pytest.raises(ValueError, match="batch must be a finite number above 0"):
        play(Debiased(batch=0.0))


@pytest.mark.parametrize("apply", ["step", "weight"])
def test_three_clients_under_minimum_separation(apply):
    """Sun et al. 2025, proposition 3: where plain FedAvg tends to 2.1, it tends to the optimum 2."""
    task = Quadratics.of([[1.0], [2.0], [3.0]], start=[2.0])
    scene = World(minimum_separation(3, [0.25, 0.25, 0.5], separation=1), compute=1)
    local = Local(learning_rate=0.02, batch_size=1)
    run = simulate(task, scene, Debiased(apply=apply), rounds=1500, seeds=256, local=local)
    error = float(run.params.std(ddof=1)) / 16
    assert float(run.params.mean()) == pytest.approx(2.0, abs=5 * error + 1e-3)
    assert error < 0.01
