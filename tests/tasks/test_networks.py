import math
from typing import get_args

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, linear, mlp, model_named, network
from turnout.tasks.models.layers import (
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    Pool,
    Relu,
    convolve,
    patches,
    samples_first,
    samples_last,
)
from turnout.tasks.models.networks import NETWORKS, ModelName
from turnout.testing import check_task
from turnout.world import World


def reference(weight, images, size, padding):
    """The convolution of the compiler, with the same kernel."""
    kernel = weight.reshape(size, size, images.shape[-1], weight.shape[-1])
    options = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "precision": "highest"}
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), [(padding, padding)] * 2, **options)


@pytest.mark.parametrize(("size", "padding", "channels"), [(3, 1, 2), (5, 0, 3)])
def test_patches_give_the_convolution_and_its_gradients(size, padding, channels):
    images = jr.normal(jr.key(0), (4, 9, 7, channels))
    weight = jr.normal(jr.key(1), (size**2 * channels, 5)) / size
    probe = jr.normal(jr.key(2), reference(weight, images, size, padding).shape)

    def ours_of(weight, images, size, padding):
        return samples_first(convolve(weight, samples_last(images), size, padding))

    def both(conv):
        out, back = jax.vjp(lambda w, x: conv(w, x, size, padding), weight, images)
        return out, *back(probe)

    for ours, theirs in zip(*jax.jit(lambda: (both(ours_of), both(reference)))(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * float(jnp.abs(theirs).max()))


def test_patches_are_neighbourhoods():
    images = jnp.arange(12.0).reshape(1, 3, 4, 1)
    assert patches(images, 2, 0)[:, 1, 2, 0].tolist() == [6.0, 7.0, 10.0, 11.0]
    assert patches(images, 3, 1)[:, 0, 0, 0].tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 4.0, 5.0]


def test_pooling_takes_the_largest_and_leaves_out_the_rest():
    images = jr.normal(jr.key(0), (2, 5, 7, 3))
    found = samples_first(Pool(2).apply({}, samples_last(images), None))
    expected = jax.lax.reduce_window(images, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(3,), (2, 5, 3)])
def test_batch_norm_normalises_group_by_group_and_the_rest_with_those_before_it(shape):
    layer, inputs = BatchNorm(4), 5 + 3 * jr.normal(jr.key(0), (10, *shape))
    params, same = layer.init(jr.key(0), shape)
    assert same == shape
    assert {name: leaf.tolist() for name, leaf in params.items()} == {"gain": [1.0] * 3, "shift": [0.0] * 3}
    params = {"gain": jnp.array([1.0, 2.0, 3.0]), "shift": jnp.array([0.0, 1.0, -1.0])}
    given = samples_last(inputs) if inputs.ndim == 4 else inputs
    found, x = np.asarray(samples_first(layer.apply(params, given, None))), np.asarray(inputs, np.float64)
    for rows, group in ((slice(0, 4), x[:4]), (slice(4, 8), x[4:8]), (slice(8, 10), x[6:])):
        axes = tuple(range(group.ndim - 1))
        normed = (x[rows] - group.mean(axes)) / np.sqrt(group.var(axes) + 1e-5)
        np.testing.assert_allclose(found[rows], normed * [1, 2, 3] + [0, 1, -1], atol=1e-4)
    np.testing.assert_array_equal(samples_first(layer.apply(params, given, jnp.uint32(1))), found)


def test_batch_norm_takes_a_batch_smaller_than_a_group_as_it_is():
    found = BatchNorm(8).apply({"gain": jnp.ones(1), "shift": jnp.zeros(1)}, jnp.array([[1.0], [3.0]]), None)
    np.testing.assert_allclose(found, [[-1.0], [1.0]], atol=1e-4)


def test_dropout_keeps_the_mean_and_rests_when_a_model_is_judged():
    layer, ones = Dropout(0.2), jnp.ones((50, 400))
    assert layer.apply({}, ones, None) is ones
    out = np.asarray(layer.apply({}, ones, jnp.uint32(7)))
    assert set(np.unique(out).tolist()) == {0.0, 1.25}
    assert (out == 0).mean() == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / out.size))
    again, other = (np.asarray(layer.apply({}, ones, jnp.uint32(seed))) for seed in (7, 8))
    np.testing.assert_array_equal(out, again)
    assert ((out == 0) & (other == 0)).mean() == pytest.approx(0.04, abs=0.01)


# Parameters counted by hand: kernels and biases, layer after layer.
COUNTS = {
    "cnn_ca_fed": (75 + 1) * 32 + (800 + 1) * 64 + (1600 + 1) * 2048 + 2049 * 10,
    "cnn_debiased": 28 * 32 + 289 * 64 + 577 * 128 + 2049 * 256 + 257 * 10,
    "cnn_debiased_batch_norm": 30 * 32 + 291 * 64 + 579 * 128 + 2051 * 256 + 257 * 10,
    "cnn_fedacs_cifar10": 28 * 32 + 289 * 32 + 2049 * 256 + 257 * 64 + 65 * 10,
    "cnn_fedacs_cinic10": 28 * 32 + 289 * 32 + 2049 * 512 + 513 * 256 + 257 * 10,
    "cnn_fedacs_mnist": 10 * 10 + 91 * 20 + (20 * 49 + 1) * 50 + 51 * 10,
    "convnet4": 29 * 64 + 3 * 578 * 64 + 257 * 10,
    "resnet8": 29 * 16 + 2 * 146 * 16 + (146 + 290 + 18) * 32 + (290 + 578 + 34) * 64 + 65 * 10,
    "resnet18": 11_173_962,  # as the usual one of PyTorch for images of this size has
    "mobilenet": 29 * 32
    + 11 * (32 + 64 + 128 + 128 + 256 + 256)
    + (34 * 64 + 66 * 128 + 130 * 128 + 130 * 256 + 258 * 256 + 258 * 512)
    + 513 * 10,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_papers_networks_have_the_layers_they_say(name):
    image = (28, 28) if "mnist" in name else (32, 32, 3)
    model = model_named(name, image, 10)
    shapes = jax.eval_shape(model.init, jr.key(0))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes)) == COUNTS[name]
    batch = jax.ShapeDtypeStruct((3, *image), jnp.float32)
    assert jax.eval_shape(model.apply, shapes, batch).shape == (3, 10)
    assert (model.apply_noisily is not None) == (name in ("cnn_fedacs_cinic10",) or "mnist" in name)
    assert model is model_named(name, image, 10)


def test_models_by_name():
    assert set(get_args(ModelName)) == {"linear", "mlp", "mlp_batch_norm", "mlp_debiased", *NETWORKS}
    assert model_named("linear", (8, 8), 5) is linear(64, 5)
    assert model_named("mlp", (8, 8), 5, (7,)) is mlp(64, (7,), 5)
    assert model_named("mlp_debiased", (28, 28), 10) is mlp(784, (1568, 392), 10)
    normed = model_named("mlp_batch_norm", (8, 8), 5, (7, 6))
    assert normed is model_named("mlp_batch_norm", (8, 8), 5, (7, 6))
    assert not normed.one_by_one_on_cpu
    shapes = jax.tree.leaves(jax.eval_shape(normed.init, jr.key(0)))
    assert sum(math.prod(leaf.shape) for leaf in shapes) == (64 + 3) * 7 + (7 + 3) * 6 + 7 * 5


LAYERS = (Conv(4, 3, 1), Relu(), Pool(), Dropout(0.5), Dense(3, last=True))


@pytest.fixture(scope="module")
def small():
    """A task with a small network that drops, on images that are random but for their brightness."""
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    inputs = generator.integers(0, 60, (60, 6, 6, 2)) + 60 * labels[:, None, None, None]
    return from_arrays((inputs.astype(np.uint8), labels, np.arange(60) % 4), model=network((6, 6, 2), LAYERS))


@pytest.mark.parametrize(
    ("layer", "variance"), [(Conv(64, 3), 2 / (9 * 16)), (Dense(64), 2 / 1024), (Dense(64, last=True), 2 / (1024 + 64))]
)
def test_weights_start_at_the_scale_that_keeps_activations(layer, variance):
    params, shape = layer.init(jr.key(0), (8, 8, 16))
    assert shape == ((8, 8, 64) if isinstance(layer, Conv) else (64,))
    assert float(jnp.var(params["weight"])) == pytest.approx(variance, rel=0.05)
    assert not params["bias"].any()


def test_a_network_keeps_the_contract_of_a_task(small):
    check_task(small, clients=2)


def test_training_drops_and_judging_does_not(small):
    params = small.init(jr.key(0))
    batch = small.batch(jnp.asarray(0), jnp.arange(8))
    present = jnp.ones(8)
    assert small.one_by_one_on_cpu
    noisy = jax.jit(lambda seed: small.training_loss(params, batch, present, seed))
    assert float(noisy(jnp.uint32(1))) == float(noisy(jnp.uint32(1)))
    assert float(noisy(jnp.uint32(1))) != float(noisy(jnp.uint32(2)))
    plain = from_arrays((np.ones((4, 3), np.float32), np.arange(4) % 2, np.zeros(4, int)), model=linear(3, 2))
    assert not plain.one_by_one_on_cpu
    start = plain.init(jr.key(0))
    data = plain.batch(jnp.asarray(0), jnp.arange(2))
    assert plain.training_loss(start, data, jnp.ones(2), jnp.uint32(3)) == plain.loss(start, data, jnp.ones(2))


def test_a_network_that_drops_still_learns(small):
    local = Local(learning_rate=0.2, batch_size=16)
    found = simulate(small, World(bernoulli(4, 0.8), compute=4), FedAvg(), rounds=40, local=local, evaluate_every=40)
    assert found.metrics["train_accuracy"][0, -1] > 0.9


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ((Conv(4, 9, 0),), "a convolution of size 9 does not fit into an image of 6 × 6"),
        ((Pool(4), Pool(2)), "no square of 2 pixels in an image of 1 × 1"),
    ],
)
def test_layers_that_do_not_fit_are_told(layers, told):
    with pytest.raises(ValueError, match=told):
        network((6, 6), layers).init(jr.key(0))
