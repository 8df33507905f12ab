import numpy as np
import optax
import pytest

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg, FedNova
from turnout.tasks.quadratics import Quadratics
from turnout.world import World, compute


def test_updates_are_divided_by_their_reach(play):
    game = play(FedNova(), importance=(1.0, 3.0), reach=[2.0, 4.0])
    assert game.round([1, 1], [2.0, 8.0]) == pytest.approx((0.25 * 2 + 0.75 * 4) * (0.25 * 1.0 + 0.75 * 2.0))
    before = float(game.state.params[0])
    assert game.round([1, 1], [2.0, 8.0], arrived=[1, 0]) == pytest.approx(before + 2.0)


def test_all_keeps_the_divisor_of_the_whole_fleet(play):
    game = play(FedNova(normaliser="all"), importance=(1.0, 3.0), reach=[2.0, 4.0])
    assert game.round([0, 1], [2.0, 8.0]) == pytest.approx(4.0 * 0.75 * 2.0)


def test_draws_count_one_over_their_number(play):
    game = play(FedNova(cohort=2, normaliser="draws"), importance=(0.0, 1.0), reach=[1.0, 4.0])
    assert game.round([1, 1], [1.0, 8.0]) == pytest.approx(8.0)


def test_the_length_of_the_step_may_be_given(play):
    game = play(FedNova(effective_steps=3.0), importance=(1.0, 1.0), reach=[2.0, 4.0])
    assert game.round([1, 1], [2.0, 8.0]) == pytest.approx(3.0 * 1.5)


def test_no_work_and_empty_rounds_move_nothing(play):
    for normaliser in ("received", "all"):
        game = play(FedNova(normaliser=normaliser), start=4.0, reach=[0.0, 0.0, 0.0])
        assert game.round([0, 0, 0], [1.0] * 3) == 4.0
        assert game.round([1, 1, 1], [0.0] * 3) == 4.0


def test_bad_options_are_refused(play):
    with pytest.raises(Exception, match="normaliser"):
        FedNova(normaliser="unknown")
    with pytest.raises(ValueError, match="needs cohort"):
        FedNova(normaliser="draws")
    with pytest.raises(ValueError, match="effective_steps must be a finite number above 0"):
        play(FedNova(effective_steps=0.0))


@pytest.mark.parametrize("optimizer", [None, "momentum"])
def test_unequal_work_does_not_move_the_fixed_point(optimizer):
    """On quadratics with small steps, FedNova ends near the optimum and FedAvg where the most work is done."""
    task = Quadratics.of([[0.0], [1.0]], start=[0.5])
    scene = World(bernoulli(2, 1.0), compute=compute.per_client(2, [9, 1]))
    momentum = optax.sgd(1.0, momentum=0.5) if optimizer else None
    local = Local(learning_rate=0.002, batch_size=1, optimizer=momentum)
    nova = simulate(task, scene, FedNova(), rounds=2000, local=local)
    plain = simulate(task, scene, FedAvg(), rounds=2000, local=local)
    assert float(np.asarray(nova.params)[0, 0]) == pytest.approx(0.5, abs=0.01)
    assert float(np.asarray(plain.params)[0, 0]) < 0.15
