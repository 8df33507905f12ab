import jax
import numpy as np
import optax
import pytest

from turnout import Local, World, availability, simulate
from turnout.optimizers import fedadagrad, fedadam, fedavgm, fedyogi, first_updates, heavy_ball, inverse_time, is_plain
from turnout.server.settings import ServerSettings
from turnout.strategies import FedAvg, FedAWE
from turnout.tasks.quadratics import Quadratics

BY_NAME = {"fedavgm": fedavgm(), "fedadagrad": fedadagrad(), "fedadam": fedadam(), "fedyogi": fedyogi()}


class PapersStep:
    """Algorithm 2 of Reddi et al. 2021, and FedAvgM, with the defaults written out; `d` is the round's direction."""

    def __init__(self, rule, rate):
        self.rule, self.rate, self.m, self.v = rule, rate, 0.0, 1e-3**2

    def __call__(self, w, d):
        if self.rule == "fedavgm":
            self.m = 0.9 * self.m + d
            return w + self.rate * self.m
        b1 = 0.0 if self.rule == "fedadagrad" else 0.9
        self.m = b1 * self.m + (1 - b1) * d
        if self.rule == "fedadagrad":
            self.v = self.v + d**2
        elif self.rule == "fedadam":
            self.v = 0.99 * self.v + 0.01 * d**2
        else:
            self.v = self.v - 0.01 * d**2 * np.sign(self.v - d**2)
        return w + self.rate * self.m / (np.sqrt(self.v) + 1e-3)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_server_optimizer_takes_the_steps_of_its_paper_and_none_in_empty_rounds(name):
    """Two clients come in rounds 0 to 2 and 1 to 3 of every five; the fifth is empty, and there momentum stays."""
    centres, rate, there = np.array([[1.0, -2.0], [3.0, 0.5]]), 0.05, ((0, 1, 2), (1, 2, 3))
    task = Quadratics.of(centres, np.ones(2), start=np.zeros(2))
    world = World(availability.cyclic(2, period=5, offset=[0, 1], duration=[3, 3]), compute=2)
    local = Local(learning_rate=0.1, batch_size=1)
    run = simulate(task, world, FedAvg(), rounds=20, local=local, optimizer=BY_NAME[name], learning_rate=rate)
    step, w = PapersStep(name, rate), np.zeros(2)
    for t in range(20):
        here = [k for k, rounds in enumerate(there) if t % 5 in rounds]
        if here:
            w = step(w, np.mean([(1 - 0.9**2) * (centres[k] - w) for k in here], axis=0))
    np.testing.assert_allclose(run.params[0], w, rtol=2e-5)


def test_equal_arguments_make_one_object_and_wrong_ones_are_refused():
    assert fedyogi(b2=0.9) is fedyogi(b2=0.9) is not fedyogi()
    assert fedavgm() is fedavgm(1.0)
    for wrong in ({"b1": 1.0}, {"b2": -0.1}, {"tau": 0.0}, {"learning_rate": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            fedadam(**wrong)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_strategy_that_sets_the_model_refuses_them(name):
    assert not is_plain(BY_NAME[name])
    with pytest.raises(ValueError, match="FedAWE sets the model itself, so the server's optimizer must be plain SGD"):
        ServerSettings(optimizer=BY_NAME[name]).check(FedAWE())


def test_the_first_updates_by_hand():
    momentum = optax.sgd(0.5, momentum=0.5)
    np.testing.assert_allclose(first_updates(momentum, (1.0, 2.0)), [[-0.5, -0.5], [-1.25, -1.25]])
    decayed = optax.chain(optax.add_decayed_weights(0.1), optax.sgd(1.0))
    np.testing.assert_allclose(first_updates(decayed, (1.0, 1.0)), [[-1.0, -1.1], [-0.9, -0.99]], rtol=1e-6)


def test_momentum_and_decay_as_pytorch_has_them():
    """The decay joins the gradient before the momentum; PyTorch's recursion, by hand."""
    gradients, rate, momentum, decay = (1.0, -2.0, 0.5), 0.3, 0.9, 0.01
    expected = []
    for place in (0.0, 1.0):
        speed, moves = 0.0, []
        for gradient in gradients:
            speed = momentum * speed + gradient + decay * place
            moves.append(-rate * speed)
            place += moves[-1]
        expected.append(moves)
    np.testing.assert_allclose(first_updates(heavy_ball(rate, momentum, decay), gradients).T, expected, rtol=1e-5)


def test_an_optimizer_of_one_model_cannot_be_tried_on_another():
    assert first_updates(optax.masked(optax.sgd(1.0), {"weight": True, "bias": False}), (1.0,)) is None


def test_it_is_tried_also_while_a_program_is_traced():
    seen = []

    @jax.jit
    def program(x):
        seen.append(first_updates(optax.adam(1.0), (1.0,)))
        return x

    program(1.0)
    np.testing.assert_allclose(seen[0], [[-1.0, -1.0]], rtol=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "plain"),
    [
        (optax.sgd(1.0), True),
        (optax.sgd(0.5), False),
        (optax.sgd(1.0, momentum=0.9), False),
        (optax.adam(1.0), False),
        (optax.chain(optax.clip_by_global_norm(100.0), optax.sgd(1.0)), False),
        (optax.identity(), False),
        (optax.masked(optax.sgd(1.0), {"weight": True}), False),
    ],
)
def test_plain_is_minus_the_gradient_and_nothing_else(optimizer, plain):
    assert is_plain(optimizer) == plain


def test_a_rate_falls_to_a_half_in_the_round_that_says_so():
    rate = inverse_time(0.6, half=20.0)
    assert [float(rate(t)) for t in (0, 20, 40)] == pytest.approx([0.6, 0.3, 0.2])


def test_a_falling_rate_turns_the_papers_steps_into_those_of_the_public_code():
    """The notebook's step is lr T / n at the n-th visit; the paper's scale is (t + 1) / (n M), with M groups."""
    rate, visit, horizon, groups = 2e-3, 3, 500, 20
    schedule = inverse_time(rate * horizon * groups)
    for t in (2, 40, 499):
        assert float(schedule(t)) * (t + 1) / (visit * groups) == pytest.approx(rate * horizon / visit)


def test_the_numbers_of_a_schedule_are_leaves_so_that_a_grid_is_one_program():
    assert jax.tree.leaves(inverse_time(1.0, half=4.0)) == [1.0, 4.0]
