import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.tasks import Quadratics, quadratics, two_clients

value_and_grad = jax.jit(lambda task, *args: jax.value_and_grad(task.loss)(*args))

SHAPES = {
    "number": {"curvature": 2.0},
    "number per client": {"curvature": [1.0, 2.0, 3.0, 0.5]},
    "matrix": {"curvature": 3.0, "condition": 10.0},
    "diagonal": None,
}


def some_quadratics(shape):
    if shape == "diagonal":
        generator = np.random.default_rng(2)
        return Quadratics.of(generator.normal(size=(4, 3)), generator.uniform(0.5, 2.0, (4, 3)))
    return quadratics(4, 3, seed=1, **SHAPES[shape])


def as_matrices(task):
    h = np.asarray(task.curvature, np.float64)
    if h.ndim == 3:
        return h
    return (h[:, None] if h.ndim == 1 else h)[:, :, None] * np.eye(task.centres.shape[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_value_gradient_and_minimiser_match_the_matrix_form(shape):
    task = some_quadratics(shape)
    matrices, centres = as_matrices(task), np.asarray(task.centres, np.float64)
    x = np.array([0.3, -1.0, 2.0])
    losses = eqx.filter_jit(task.per_client)(jnp.asarray(x, jnp.float32))["train_loss"]
    for m in range(4):
        batch = task.batch(jnp.asarray(m), jnp.zeros(2, jnp.int32))
        value, gradient = value_and_grad(task, jnp.asarray(x, jnp.float32), batch, jnp.ones(2))
        gap = x - centres[m]
        assert value == pytest.approx(0.5 * gap @ matrices[m] @ gap, rel=1e-5)
        assert losses[m] == pytest.approx(float(value), rel=1e-5)
        np.testing.assert_allclose(gradient, matrices[m] @ gap, rtol=1e-4, atol=1e-5)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    expected = np.linalg.solve(
        np.einsum("m,mij->ij", weights, matrices), np.einsum("m,mij,mj->i", weights, matrices, centres)
    )
    found = eqx.filter_jit(task.minimiser)(jnp.asarray(weights, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_optimum_of_equal_quadratics_is_the_mean_centre():
    task = quadratics(5, 2, seed=4)
    np.testing.assert_allclose(task.optimum, np.mean(task.centres, axis=0), rtol=1e-5)
    assert eqx.filter_jit(task.evaluate)(task.optimum)["distance"] == 0.0


def test_three_clients_of_debiased_fedavg():
    # Proposition 3: f_i(x) = ½ (x − i)², π = (0.3, 0.3, 0.4) draws FedAvg to 2.1 while the optimum is 2.
    task = quadratics(centres=[[1.0], [2.0], [3.0]])
    assert task.optimum[0] == pytest.approx(2.0)
    assert task.minimiser(jnp.array([0.3, 0.3, 0.4]))[0] == pytest.approx(2.1)


def test_importance_moves_the_optimum():
    task = quadratics(centres=[[0.0], [1.0]], importance=[1.0, 3.0])
    assert task.optimum[0] == pytest.approx(0.75)


def test_noise_has_zero_mean_over_the_samples_and_the_given_deviation():
    task = quadratics(3, 4, noise=0.7, num_samples=50)
    assert task.sizes.tolist() == [50, 50, 50]
    x = jnp.ones(4)

    def gradient(j):
        return jax.grad(task.loss)(x, task.batch(jnp.asarray(2), j[None]), jnp.ones(1))

    gradients = np.asarray(jax.jit(jax.vmap(gradient))(jnp.arange(50)))
    exact = 1.0 - np.asarray(task.centres[2])
    np.testing.assert_allclose(gradients.mean(axis=0), exact, atol=1e-5)
    np.testing.assert_allclose(gradients.std(axis=0), 0.7, rtol=1e-4)
    whole = task.batch(jnp.asarray(2), jnp.arange(50))
    value, _ = value_and_grad(task, x, whole, jnp.ones(50))
    assert value == pytest.approx(float(task.per_client(x)["train_loss"][2]), rel=1e-5)


def test_padding_counts_for_nothing():
    task = quadratics(2, 3, noise=1.0)
    x = jnp.ones(3)
    batch = task.batch(jnp.asarray(1), jnp.array([4, 9, 0]))
    short = task.batch(jnp.asarray(1), jnp.array([4, 9, 1]))
    present = jnp.array([1.0, 1.0, 0.0])
    assert value_and_grad(task, x, batch, present)[0] == value_and_grad(task, x, short, present)[0]
    value, gradient = value_and_grad(task, x, batch, jnp.zeros(3))
    assert value == 0
    assert not gradient.any()


def test_centres_are_spread_as_asked():
    task = quadratics(2000, 5, spread=3.0)
    assert np.std(task.centres) == pytest.approx(3.0, rel=0.03)
    assert np.mean(task.centres) == pytest.approx(0.0, abs=0.1)
    assert quadratics(seed=1).centres.tolist() != quadratics(seed=2).centres.tolist()


def test_condition_is_that_of_every_matrix():
    eigenvalues = np.linalg.eigvalsh(np.asarray(quadratics(6, 4, curvature=2.0, condition=50.0).curvature))
    np.testing.assert_allclose(eigenvalues[:, -1], 2.0, rtol=1e-4)
    np.testing.assert_allclose(eigenvalues[:, 0], 2.0 / 50, rtol=1e-3)


def test_two_clients_by_hand():
    task = two_clients(first=-1.0, second=4.0, start=2.0)
    x = task.init(jr.key(0))
    assert x.tolist() == [2.0]
    assert task.per_client(x)["train_loss"].tolist() == [9.0, 4.0]  # (2 + 1)², (2 − 4)²
    assert task.optimum.tolist() == [1.5]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: quadratics(0), "num_clients must be a whole number from 1"),
        (lambda: quadratics(condition=0.5), "condition must be a number from 1 to 1e"),
        (lambda: quadratics(noise=0.1, num_samples=1), "at least 2 for gradients to be noisy"),
        (lambda: quadratics(curvature=-1.0), "eigenvalue -1; all must be positive"),
        (lambda: quadratics(3, curvature=[1.0, 2.0]), "curvature has shape"),
        (lambda: quadratics(centres=[[1.0], [float("nan")]]), r"centres\[1\]\[0\] must be a finite number, not nan"),
        (lambda: quadratics(3, importance=[1.0]), "3 clients need one number each"),
        (lambda: Quadratics.of(np.zeros((1, 2)), [[[1.0, 1.0], [0.0, 1.0]]]), "not symmetric"),
    ],
)
def test_bad_quadratics_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
