"""What a training loop calls on its gradients: the same correction for arrays of NumPy, PyTorch and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")

from turnout.flower import steer
from turnout.flower.steering import Steer, steering
from turnout.simulator.client_optimizer import Local

START = {"w": np.array([1.0, -2.0, 0.5], np.float32), "b": np.array(0.25, np.float32)}
PUSH = {"w": np.array([0.5, 0.0, -1.0], np.float32), "b": np.array(2.0, np.float32)}
PULL, RATE, STEPS = 0.3, 0.1, 4


def steer_of(wanted=("mean", "last"), pull=PULL, push=PUSH):
    return Steer({name: part.copy() for name, part in START.items()}, push, pull, wanted)


def raw_gradient(model):
    """Of ½ ‖w‖² + ¼ b⁴."""
    return {"w": model["w"], "b": model["b"] ** 3}


def by_hand():
    """Where the loop ends, and its raw gradients, in double precision."""
    start = {name: part.astype(float) for name, part in START.items()}
    model, seen = dict(start), []
    for _ in range(STEPS):
        seen.append(raw_gradient(model))
        model = {name: z - RATE * (seen[-1][name] + PUSH[name] + PULL * (z - start[name])) for name, z in model.items()}
    return model, seen


def plainly(call, arrays):
    model = dict(arrays)
    for _ in range(STEPS):
        along = call(raw_gradient(model), model)
        model = {name: z - RATE * along[name] for name, z in model.items()}
    return model


def with_numpy(call):
    """A loop that writes to the arrays that it was given, and to its gradients."""
    model, room = {name: part.copy() for name, part in START.items()}, {}
    for _ in range(STEPS):
        for name, part in raw_gradient(model).items():
            room.setdefault(name, np.zeros_like(part))[...] = part
        along = call(room, model)
        for name, z in model.items():
            z -= np.float32(RATE) * along[name]
    return model


def with_jax(call):
    return plainly(call, {name: jnp.asarray(part) for name, part in START.items()})


def with_torch(call):
    """A module and its optimizer, which change parameters and gradients where they stand."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = torch.nn.Module()
    for name, part in START.items():
        net.register_parameter(name, torch.nn.Parameter(torch.tensor(part)))
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        (0.5 * (net.w**2).sum() + 0.25 * net.b**4).backward()
        assert call(net) is None
        optimizer.step()
    return {name: part.detach().numpy() for name, part in net.named_parameters()}


def with_tensors(call):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return plainly(call, {name: torch.tensor(part) for name, part in START.items()})


LOOPS = [with_numpy, with_jax, with_torch, with_tensors]


@pytest.mark.parametrize("loop", LOOPS)
def test_steps_are_corrected_and_raw_gradients_gathered(loop):
    one, (model, seen) = steer_of(), by_hand()
    with steering(one):
        found = loop(steer)
    for name, part in model.items():
        np.testing.assert_allclose(np.asarray(found[name]), part, rtol=1e-6)
        np.testing.assert_allclose(one.mean()[name], np.mean([step[name] for step in seen], axis=0), rtol=1e-6)
        np.testing.assert_allclose(one.last()[name], seen[-1][name], rtol=1e-6)
    assert one.calls == STEPS


@pytest.mark.parametrize("loop", LOOPS)
def test_where_nothing_steers_gradients_stay_as_they_are(loop):
    found = loop(steer)
    expected = plainly(lambda gradients, _model: gradients, START)
    for name, part in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), part, rtol=1e-6)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_gradients_keep_their_precision_and_are_gathered_in_32_bits(precision):
    one = steer_of(wanted=("mean",))
    model = {name: jnp.asarray(part, precision) for name, part in START.items()}
    for _ in range(3):
        along = one({name: jnp.full_like(part, 0.1) for name, part in model.items()}, model)
    assert {part.dtype for part in along.values()} == {jnp.dtype(precision)}
    np.testing.assert_allclose(one.mean()["w"], np.float32(jnp.asarray(0.1, precision)), rtol=1e-6)


def test_an_array_without_a_gradient_has_none_and_is_not_moved():
    one = steer_of()
    along = one({"w": START["w"]}, START)
    assert set(along) == {"w"}
    np.testing.assert_array_equal(one.mean()["b"], 0.0)
    np.testing.assert_array_equal(one.last()["b"], 0.0)
    assert one.seen == {"w"}


def test_only_what_is_wanted_is_gathered():
    one = steer_of(wanted=())
    one(START, START)
    np.testing.assert_array_equal(one.mean()["w"], 0.0)


@pytest.mark.parametrize(
    ("gradients", "model", "why"),
    [
        ([START["w"]], START, r"by the names of the model's arrays.* not list and dict"),
        (START, None, r"by the names of the model's arrays.* not dict and NoneType"),
        ({}, START, "steer was given no gradient: call it after"),
        ({"v": START["w"]}, START, "a gradient of 'v', which is no trained array of the model that was sent"),
        (START, {"w": START["w"]}, "a gradient of 'b', which is no trained array of the model given to steer"),
        ({"w": START["w"][:2]}, START, r"the gradient of 'w' has the shape \(2,\), not \(3,\)"),
    ],
)
def test_what_cannot_be_steered_is_refused_in_one_line(gradients, model, why):
    with pytest.raises((TypeError, ValueError), match=why) as caught:
        steer_of()(gradients, model)
    assert "\n" not in str(caught.value)


def test_inside_a_compiled_function_it_is_refused():
    one = steer_of()
    with pytest.raises(TypeError, match="inside a function that jax traces: compile the gradient and the step"):
        jax.jit(one)(START, START)


@pytest.mark.parametrize("pull", [0.01, 4.0, 15.0])
def test_the_reach_is_that_of_the_simulator(pull):
    local = Local(learning_rate=RATE).with_pull(pull)
    for steps in (1, 2, 7):
        expected = float(local.reach(jnp.asarray(steps), RATE, 7))
        assert steer_of(pull=pull).reach(float(steps), RATE) == pytest.approx(expected, rel=1e-6)
    assert steer_of(pull=None).reach(7.0, RATE) == 7
