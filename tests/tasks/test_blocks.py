import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, network
from turnout.tasks.models.blocks import AveragePool, Depthwise, GlobalAverage, GroupNorm, Residual
from turnout.tasks.models.layers import Conv, Dense, Dropout, Relu, convolve, samples_first, samples_last
from turnout.testing import check_task


def values_and_gradients(function, *arguments):
    """Outputs, and the gradients of some sum of them."""

    def both(*arguments):
        outputs, back = jax.vjp(function, *arguments)
        return outputs, *back(jnp.cos(jnp.arange(outputs.size, dtype=jnp.float32)).reshape(outputs.shape))

    return jax.jit(both)(*arguments)


def assert_alike(ours, theirs):
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * float(jnp.abs(expected).max()))


def compilers(weight, images, size, padding, stride, groups):
    """The convolution of the compiler, with the same kernel."""
    kernel = weight.reshape(size, size, images.shape[-1] // groups, -1)
    options = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "feature_group_count": groups, "precision": "highest"}
    return jax.lax.conv_general_dilated(images, kernel, (stride,) * 2, [(padding,) * 2] * 2, **options)


@pytest.mark.parametrize(("size", "padding", "stride"), [(3, 1, 2), (1, 0, 2), (5, 2, 3), (2, 0, 2), (3, 0, 4)])
def test_convolutions_with_a_stride_are_those_of_the_compiler(size, padding, stride):
    images, weight = jr.normal(jr.key(0), (4, 9, 8, 3)), jr.normal(jr.key(1), (size**2 * 3, 5)) / size

    def ours(weight, images):
        return samples_first(convolve(weight, samples_last(images), size, padding, stride))

    found = values_and_gradients(ours, weight, images)
    assert_alike(found, values_and_gradients(lambda w, x: compilers(w, x, size, padding, stride, 1), weight, images))
    assert Conv(5, size, padding, stride).init(jr.key(0), (9, 8, 3))[1] == found[0].shape[1:]


@pytest.mark.parametrize(("padding", "stride"), [(1, 1), (1, 2), (0, 1)])
def test_depthwise_convolutions_are_those_of_the_compiler(padding, stride):
    layer, images = Depthwise(3, padding, stride, bias=False), jr.normal(jr.key(0), (4, 9, 8, 6))
    params, shape = layer.init(jr.key(1), images.shape[1:])

    def ours(weight, images):
        return samples_first(layer.apply({"weight": weight}, samples_last(images), None))

    found = values_and_gradients(ours, params["weight"], images)
    expected = values_and_gradients(lambda w, x: compilers(w, x, 3, padding, stride, 6), params["weight"], images)
    assert_alike(found, expected)
    assert shape == found[0].shape[1:]


@pytest.mark.parametrize("shape", [(6,), (5, 4, 6)])
def test_group_norm_normalises_each_sample_by_groups_of_channels(shape):
    layer, inputs = GroupNorm(3), 5 + 3 * jr.normal(jr.key(0), (7, *shape))
    params = {"gain": jnp.arange(1.0, 7.0), "shift": jnp.arange(-3.0, 3.0)}
    given = samples_last(inputs) if inputs.ndim == 4 else inputs
    found, x = samples_first(layer.apply(params, given, None)), np.asarray(inputs, np.float64)
    groups = x.reshape(7, -1, 3, 2)
    normed = (groups - groups.mean((1, 3), keepdims=True)) / np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, normed.reshape(x.shape) * np.arange(1, 7) + np.arange(-3, 3), atol=1e-4)
    with pytest.raises(ValueError, match="groups is 4; it must divide the 6 channels"):
        GroupNorm(4).init(jr.key(0), (5, 5, 6))


def test_averages_of_pixels():
    images = jr.normal(jr.key(0), (2, 5, 7, 3))
    found = samples_first(AveragePool(2).apply({}, samples_last(images), None))
    np.testing.assert_allclose(found, images[:, :4, :6].reshape(2, 2, 2, 3, 2, 3).mean((2, 4)), atol=1e-6)
    assert AveragePool(2).init(jr.key(0), (5, 7, 3))[1] == (2, 3, 3)
    np.testing.assert_allclose(GlobalAverage().apply({}, samples_last(images), None), images.mean((1, 2)), atol=1e-6)


def test_a_residual_block_adds_its_inputs_or_its_shortcut():
    images = samples_last(jr.normal(jr.key(0), (2, 6, 6, 4)))
    plain, wide = Residual((Conv(4), Relu())), Residual((Conv(8, stride=2),), (Conv(8, 1, 0, 2),))
    params, shape = plain.init(jr.key(1), (6, 6, 4))
    inner = jax.nn.relu(plain.layers[0].apply(params["layers"][0], images, None))
    np.testing.assert_array_equal(plain.apply(params, images, None), inner + images)
    assert shape == (6, 6, 4)
    params, shape = wide.init(jr.key(1), (6, 6, 4))
    ways = [
        layer.apply(params[way][0], images, None)
        for way, layer in (("layers", wide.layers[0]), ("shortcut", wide.shortcut[0]))
    ]
    np.testing.assert_array_equal(wide.apply(params, images, None), ways[0] + ways[1])
    assert shape == (3, 3, 8)
    with pytest.raises(ValueError, match=r"outputs of shape \(3, 3, 8\) to \(6, 6, 4\); give its shortcut layers"):
        Residual((Conv(8, stride=2),)).init(jr.key(0), (6, 6, 4))


def test_dropout_in_a_block_has_random_bits_of_its_own():
    layers = (Residual((Dropout(0.5),), (Dropout(0.5),)), Dropout(0.5), Dense(2, last=True))
    model = network((4, 4, 1), layers)
    assert model.apply_noisily is not None
    block, ones = layers[0], jnp.ones((1, 8, 8, 64))
    ways = block.apply({"layers": [{}], "shortcut": [{}]}, ones, jnp.uint32(3))
    assert {float(value) for value in jnp.unique(ways)} == {0.0, 2.0, 4.0}  # the two ways drop apart
    assert float((ways == 2.0).mean()) == pytest.approx(0.5, abs=0.05)


IMAGES = np.random.default_rng(0).integers(0, 256, (36, 8, 8, 3)).astype(np.uint8)


def test_a_network_of_blocks_is_a_model_like_others():
    inner, beside = (Conv(4, stride=2, bias=False), GroupNorm(), Relu(), Depthwise()), (Conv(4, 1, 0, 2), GroupNorm())
    model = network((8, 8, 3), (Residual(inner, beside), Relu(), GlobalAverage(), Dense(3, last=True)))
    task = from_arrays((IMAGES, np.arange(36) % 3, np.arange(36) % 3), model=model)
    check_task(task)
    world, local = World(availability.bernoulli(3, 0.7), compute=1), Local(learning_rate=0.01, batch_size=4)
    history = simulate(task, world, FedAvg(), rounds=2, seeds=1, local=local)
    assert np.isfinite(history.final("train_loss")).all()
