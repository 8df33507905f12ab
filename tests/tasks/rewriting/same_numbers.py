"""A function beside itself rewritten: outputs and gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from turnout.tasks.models.rewriting.programs import equations, has_wanted
from turnout.tasks.models.rewriting.walk import run


def rewritten(function):
    """Without the net that a model has: a fault is an error."""

    def faster(*arguments):
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        assert has_wanted(traced)
        return jax.tree.unflatten(jax.tree.structure(shapes), run(traced, jax.tree.leaves(arguments)))

    return faster


def names(function, *arguments):
    """Names of all operations of a function."""
    return [equation.primitive.name for equation in equations(jax.make_jaxpr(function)(*arguments))]


def numbers(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def assert_same(*cases, rtol=2e-5, leaves_none=True):
    """Outputs and gradients of (function, arguments) agree, and no convolution or pooling is left; one program."""

    def values(function, arguments):
        def total(*arguments):
            outputs = function(*arguments)
            return jnp.sum(outputs * jnp.cos(jnp.arange(outputs.size, dtype=jnp.float32)).reshape(outputs.shape))

        return function(*arguments), jax.grad(total, argnums=tuple(range(len(arguments))))(*arguments)

    if leaves_none:
        for function, arguments in cases:
            found = names(rewritten(function), *arguments)
            assert not {"conv_general_dilated", "reduce_window_max", "reduce_window_sum"} & set(found)
    functions = [function for function, _ in cases]

    @jax.jit
    def both(of_all):
        return [
            (values(function, arguments), values(rewritten(function), arguments))
            for function, arguments in zip(functions, of_all, strict=True)
        ]

    for place, (one, other) in enumerate(both([arguments for _, arguments in cases])):
        for before, after in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert before.shape == after.shape
            assert before.dtype == after.dtype
            atol = rtol * (1e-3 + float(jnp.max(jnp.abs(before))))
            np.testing.assert_allclose(after, before, rtol=0, atol=atol, err_msg=f"case {place}")
