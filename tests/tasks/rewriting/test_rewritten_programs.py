"""Calls, loops and rules inside a model, and the layout that is carried between convolutions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from same_numbers import assert_same, names, numbers, rewritten

AXES = ("NHWC", "HWIO", "NHWC")
IMAGES, KERNEL = numbers(0, 3, 6, 6, 4), 0.3 * numbers(1, 3, 3, 4, 4)


def convolve(x, w, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=AXES)


def test_functions_loops_branches_and_recomputation_are_gone_into():
    def scanned(x, w):
        return lax.scan(lambda x, _: (jnp.tanh(convolve(x, w)), jnp.sum(x)), x, None, length=3)[0]

    def branched(x, w):
        return lax.cond(jnp.sum(x) > 0, lambda x: convolve(x, w), lambda x: 2 * x, x)

    def looped(x, w):
        return lax.fori_loop(0, 2, lambda _, x: jnp.tanh(convolve(x, w)), x)

    recomputed = jax.checkpoint(lambda x, w: jnp.sin(convolve(x, w)), policy=jax.checkpoint_policies.dots_saveable)
    inside = [jax.jit(convolve), scanned, branched, looped, recomputed]
    assert_same(*((function, (IMAGES, KERNEL)) for function in inside))
    assert "remat2" in names(rewritten(recomputed), IMAGES, KERNEL) or "checkpoint" in names(
        rewritten(recomputed), IMAGES, KERNEL
    )


def test_a_loop_without_an_end_known_beforehand():
    def halved(x, w):
        return lax.while_loop(lambda x: jnp.max(jnp.abs(x)) > 0.1, lambda x: 0.1 * convolve(x, w), x)

    np.testing.assert_allclose(rewritten(halved)(IMAGES, KERNEL), halved(IMAGES, KERNEL), atol=1e-6)
    assert "conv_general_dilated" not in names(rewritten(halved), IMAGES, KERNEL)


@jax.custom_jvp
def straight(x, w):
    """Rounds the kernel, and differentiates as if it did not."""
    return convolve(x, jnp.round(4 * w) / 4)


@straight.defjvp
def _straight_rule(primals, tangents):
    (x, w), (dx, dw) = primals, tangents
    return straight(x, w), convolve(dx, w) + convolve(x, dw)


@jax.custom_vjp
def clipped(x, w):
    """Bounds the gradient by the images."""
    return convolve(x, w, 2)


def _clipped_forwards(x, w):
    outputs, backwards = jax.vjp(lambda x, w: convolve(x, w, 2), x, w)
    return outputs, backwards


def _clipped_backwards(backwards, gradient):
    by_images, by_kernel = backwards(gradient)
    return jnp.clip(by_images, -0.1, 0.1), by_kernel


clipped.defvjp(_clipped_forwards, _clipped_backwards)


@jax.custom_vjp
def reversed_gradient(x):
    return x


reversed_gradient.defvjp(lambda x: (x, None), lambda _, gradient: (-gradient,))


def test_rules_for_derivatives_are_kept():
    def turned(x, w):
        return convolve(reversed_gradient(convolve(x, w)), w)

    cases = [straight, clipped, turned, lambda x, w: jax.nn.relu(convolve(jax.nn.silu(convolve(x, w)), w))]
    assert_same(*((function, (IMAGES, KERNEL)) for function in cases), leaves_none=False)
    assert "conv_general_dilated" not in names(rewritten(straight), IMAGES, KERNEL)
    assert "custom_vjp_call" in names(rewritten(turned), IMAGES, KERNEL)


def transposes(function, *arguments):
    """How many arrays as large as the images are transposed; equal ones are one."""
    found = [e for e in jax.make_jaxpr(function)(*arguments).eqns if e.primitive.name == "transpose"]
    return len({e.invars[0] for e in found if e.outvars[0].aval.size >= IMAGES.size})


def test_between_convolutions_nothing_is_transposed():
    def network(x, w, bias):
        for _ in range(3):
            y = jax.nn.relu(convolve(x, w) + bias[None, None, None])
            y = y / jnp.sqrt(jnp.mean(y**2, axis=(1, 2), keepdims=True) + 1)
            x = x + lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        return jnp.mean(x, axis=(1, 2))

    arguments = IMAGES, KERNEL, numbers(2, 4)
    assert_same((network, arguments))
    assert transposes(rewritten(network), *arguments) == 1  # the images, at the start


def test_samples_mapped_one_by_one_are_a_batch():
    def network(x, w):
        def one(image):
            image = image.transpose(2, 0, 1)[None]
            image = lax.conv_general_dilated(image, w, (1, 1), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW"))[0]
            return lax.reduce_window(jax.nn.relu(image), -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID").reshape(-1)

        return jax.vmap(one)(x)

    assert_same((network, (IMAGES, KERNEL)))


def test_several_models_side_by_side_and_derivatives_forwards():
    kernels = jnp.stack([KERNEL, -KERNEL])
    function = jax.vmap(lambda w: convolve(IMAGES, w))
    mapped = jax.vmap(lambda w: rewritten(convolve)(IMAGES, w))
    np.testing.assert_allclose(mapped(kernels), function(kernels), atol=1e-5)
    before = jax.jvp(lambda w: convolve(IMAGES, w), (KERNEL,), (KERNEL,))[1]
    after = jax.jvp(lambda w: rewritten(convolve)(IMAGES, w), (KERNEL,), (KERNEL,))[1]
    np.testing.assert_allclose(after, before, atol=1e-5)


def group_norm(x, groups):
    split = x.reshape(*x.shape[:3], groups, -1)
    centred = split - jnp.mean(split, (1, 2, 4), keepdims=True)
    return (centred * lax.rsqrt(jnp.mean(centred**2, (1, 2, 4), keepdims=True) + 1e-2)).reshape(x.shape)


STEPS = {
    "conv": lambda x, w: convolve(x, w),
    "stride": lambda x, w: convolve(x, w, 2),
    "norm": lambda x, w: group_norm(x, 2),
    "relu": lambda x, w: jax.nn.relu(x - 0.1),
    "gelu": lambda x, w: jax.nn.gelu(x),
    "residual": lambda x, w: x + jnp.tanh(convolve(x, w)),
    "max": lambda x, w: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "SAME"),
    "mean": lambda x, w: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4,
    "dense": lambda x, w: x @ w[0, 0],
    "softmax": lambda x, w: jax.nn.softmax(x, axis=-1),
    "flip": lambda x, w: x[:, ::-1],
    "concat": lambda x, w: jnp.concatenate([x, -x], axis=1),
    "rows": lambda x, w: jnp.swapaxes(x, 1, 2),
    "pad": lambda x, w: jnp.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)), constant_values=0.5),
    "flat": lambda x, w: x.reshape(x.shape[0], -1).reshape(x.shape),
    "cumulated": lambda x, w: 0.1 * jnp.cumsum(x, axis=2),
    "attention": lambda x, w: x + jnp.einsum("nhwc,nhvc->nhwv", x, x)[..., :1],
}


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6))
def test_random_networks(steps):
    def network(x, w):
        x = convolve(x, w)
        x = functools.reduce(lambda x, name: STEPS[name](x, w), steps, x)
        return jnp.mean(x, axis=(1, 2)) + jnp.max(x, axis=(1, 2))

    assert_same((network, (IMAGES, KERNEL)), rtol=2e-4)


def test_every_step_keeps_the_numbers():
    def after_a_convolution(step):
        return lambda x, w: step(convolve(x, w), w)

    assert_same(*((after_a_convolution(STEPS[name]), (IMAGES, KERNEL)) for name in sorted(STEPS)), rtol=1e-4)
