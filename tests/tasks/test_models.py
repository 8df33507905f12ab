import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import Model, from_arrays, linear, mlp


def test_equal_arguments_give_the_same_model():
    assert linear(3, 2) is linear(3, 2)
    assert mlp(3, (4,), 2) is mlp(3, (4,), 2)
    assert linear(3, 2) != linear(3, 2, bias=False)


def test_linear_is_wx_plus_b_and_starts_at_zero():
    model = linear(2, 3)
    zero = model.init(jr.key(0))
    assert not any(leaf.any() for leaf in jax.tree.leaves(zero))
    params = {"weight": jnp.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), "bias": jnp.array([0.0, 0.5, -1.0])}
    assert model.apply(params, jnp.array([[3.0, 4.0]])).tolist() == [[3.0, 8.5, 6.0]]
    assert list(linear(2, 3, bias=False).init(jr.key(0))) == ["weight"]


def test_images_are_flattened():
    images = jnp.arange(8.0).reshape(2, 2, 2, 1)
    params = {"weight": jnp.ones((1, 4)), "bias": jnp.zeros(1)}
    assert linear(4, 1).apply(params, images).tolist() == [[6.0], [22.0]]


def test_mlp_matches_numpy():
    model = mlp(3, (5, 4), 2)
    params = jax.jit(model.init)(jr.key(1))
    assert [layer["weight"].shape for layer in params] == [(5, 3), (4, 5), (2, 4)]
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    hidden = x
    for i, layer in enumerate(params):
        hidden = (np.maximum(hidden, 0) if i else hidden) @ np.asarray(layer["weight"]).T + np.asarray(layer["bias"])
    np.testing.assert_allclose(jax.jit(model.apply)(params, jnp.asarray(x)), hidden, rtol=1e-5, atol=1e-6)


def test_mlp_starts_with_he_and_glorot_variances():
    params = jax.jit(mlp(200, (400,), 100).init)(jr.key(0))
    assert np.var(params[0]["weight"]) == pytest.approx(2 / 200, rel=0.03)
    assert np.var(params[1]["weight"]) == pytest.approx(2 / (400 + 100), rel=0.03)
    assert not params[0]["bias"].any()


def test_an_equinox_module_fits_in_a_line():
    model = Model.from_module(lambda key: eqx.nn.MLP(4, 3, 8, depth=1, key=key))
    params = jax.jit(model.init)(jr.key(0))
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(params))
    other = jax.jit(model.init)(jr.key(1))
    assert not np.allclose(jax.tree.leaves(params)[0], jax.tree.leaves(other)[0])
    inputs = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    task = from_arrays((inputs, np.arange(12) % 3, np.arange(12) % 2), model=model)
    batch = task.batch(jnp.asarray(1), jnp.arange(3))
    module = eqx.filter_jit(lambda x: jax.vmap(eqx.nn.MLP(4, 3, 8, depth=1, key=jr.key(0)))(x))
    np.testing.assert_allclose(jax.jit(model.apply)(params, batch[0]), module(batch[0]), rtol=1e-6)
    gradient = jax.jit(jax.grad(task.loss))(params, batch, jnp.ones(3))
    assert jax.tree.structure(gradient) == jax.tree.structure(params)


def test_a_module_with_integers_is_refused():
    class Counter(eqx.Module):
        count: jax.Array

    with pytest.raises(ValueError, match="array of int32, which cannot be trained"):
        Model.from_module(lambda key: Counter(jnp.zeros(2, jnp.int32)))


def test_a_pair_of_functions_is_a_model():
    model = Model(lambda key: jnp.zeros((2, 1)), lambda weight, inputs: inputs @ weight)
    assert model.apply(model.init(jr.key(0)), jnp.ones((3, 2))).shape == (3, 1)
