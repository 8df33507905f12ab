"""The kernel of convolution, ReLU and pooling, interpreted on a CPU, against the three layers one after another."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import model_named
from turnout.tasks.models import layers
from turnout.tasks.models.fused import convolve_and_pool
from turnout.tasks.models.layers import Conv, Pool, Relu
from turnout.tasks.models.windows import Window, tiles_for

CASES = {
    "a small patch, a border that is left over": (3, (5, 4), 10, Window(3, 1, 2, interpreted=True)),
    "rows of a kernel of five, no padding": (8, (6, 6), 20, Window(5, 0, 2, interpreted=True)),
    "more channels and features than a tile has": (70, (5, 4), 80, Window(3, 1, 2, interpreted=True)),
}


def by_layers(window, weight, bias, images):
    convolution = Conv(weight.shape[1], window.size, window.padding)
    outputs = convolution.apply({"weight": weight, "bias": bias}, images, None)
    return Pool(window.pool).apply({}, Relu().apply({}, outputs, None), None)


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_are_those_of_the_layers(case):
    channels, (height, width), features, window = CASES[case]
    clients, batch, keys = 2, 4, jr.split(jr.key(0), 4)
    weight = jr.normal(keys[0], (clients, window.size**2 * channels, features))
    bias = jr.normal(keys[1], (clients, features))
    images = jr.normal(keys[2], (clients, channels, height, width, batch))

    def outcome(function):
        mapped = jax.vmap(lambda *arguments: function(window, *arguments))
        outputs, back = jax.vjp(mapped, weight, bias, images)
        return outputs, back(jr.normal(keys[3], outputs.shape))

    ours, theirs = (jax.tree.leaves(outcome(function)) for function in (convolve_and_pool, by_layers))
    assert all(np.any(leaf) for leaf in theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * float(jnp.max(jnp.abs(other))))


@pytest.mark.parametrize("kind", ["outputs", "images", "weight"])
@pytest.mark.parametrize("channels", [1, 3, 32, 256])
@pytest.mark.parametrize("size", [3, 5])
def test_tiles_are_powers_of_two_of_at_least_sixteen(kind, channels, size):
    tiles = tiles_for(kind, channels, size)
    assert all(side >= 16 and side & (side - 1) == 0 for side in (tiles.columns, tiles.rows))


@pytest.mark.parametrize(("name", "kernels"), [("cnn_ca_fed", 2), ("cnn_fedacs_mnist", 1)])
def test_a_network_in_16_bits_takes_the_kernel_on_an_h200_only(monkeypatch, name, kernels):
    calls = []

    def counted(window, weight, bias, images):
        calls.append(window)
        return by_layers(window, weight, bias, images)

    monkeypatch.setattr("turnout.tasks.models.fused.convolve_and_pool", counted)
    image = (28, 28) if name == "cnn_fedacs_mnist" else (32, 32, 3)
    model, images = model_named(name, image, 10), jr.normal(jr.key(0), (8, *image))
    params = model.init(jr.key(1))
    model.apply(params, images.astype(jnp.bfloat16))
    assert not calls
    monkeypatch.setattr(layers, "on_hopper", lambda: True)
    model.apply(params, images)
    assert not calls
    kept = model.apply(params, images.astype(jnp.bfloat16))
    assert len(calls) == kernels
    monkeypatch.setattr(layers, "on_hopper", lambda: False)
    np.testing.assert_allclose(kept, model.apply(params, images.astype(jnp.bfloat16)), rtol=0.05, atol=0.05)


def test_the_kernel_lowers_for_an_nvidia_gpu_on_a_machine_that_has_none():
    window = Window(3, 1, 2)
    shapes = (((2, 288, 64), jnp.float32), ((2, 64), jnp.float32), ((2, 32, 16, 16, 32), jnp.bfloat16))
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]

    def total(*arguments):
        outputs = jax.vmap(lambda *own: convolve_and_pool(window, *own))(*arguments)
        return jnp.sum(outputs.astype(jnp.float32))

    traced = jax.jit(jax.grad(total, argnums=(0, 1, 2))).trace(*arguments)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    for kernel in ("convolve_and_pool", "convolve_and_pool_by_images", "convolve_and_pool_by_weight"):
        assert f'"{kernel}"' in text
