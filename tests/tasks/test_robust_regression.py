import jax
import jax.numpy as jnp
import numpy as np
import pytest

from turnout.tasks import robust_regression


def features_and_answers(task):
    shape = (task.num_clients, -1)
    inputs = np.asarray(task.train.inputs, np.float64)[np.asarray(task.train.rows)]
    return inputs.reshape(*shape, inputs.shape[1])[:, :, :], np.asarray(task.train.labels, np.float64).reshape(shape)


def test_defaults_are_the_papers():
    task = robust_regression()
    assert task.num_clients == 100
    assert task.sizes.tolist() == [100] * 100
    assert task.model.init(jax.random.key(0))["weight"].shape == (1, 20)
    assert task.importance.tolist() == [1.0] * 100
    assert task.ridge == 0.0
    assert task.validation is None
    assert task.test is None


def test_features_of_client_i_deviate_by_two_over_i():
    a, _ = features_and_answers(robust_regression())
    a = a.reshape(100, -1)
    np.testing.assert_allclose(a.std(axis=1) * np.arange(1, 101), 2.0, rtol=0.08)


def test_answers_are_near_a_theta_with_noise_of_a_half():
    a, b = features_and_answers(robust_regression(num_clients=3, samples_per_client=5000, seed=1))
    levels = []
    for i in range(3):
        theta, residual, *_ = np.linalg.lstsq(a[i], b[i], rcond=None)
        assert residual[0] / 5000 == pytest.approx(0.25, rel=0.1)
        levels.append(theta.mean())
    assert np.ptp(levels) < 6  # μ_i ~ N(a, 1) around one level a
    level = 10 * np.random.default_rng(1).standard_normal(3 * 5000 * 20 + 1)[-1]
    assert np.mean(levels) == pytest.approx(level, abs=3)


def test_loss_and_gradient_have_the_plus_sign():
    task = robust_regression(num_clients=4, dimension=3, samples_per_client=6)
    a, b = features_and_answers(task)
    x = np.array([0.5, -1.0, 2.0])
    params = {"weight": jnp.asarray(x[None], jnp.float32)}
    batch = task.batch(jnp.asarray(2), jnp.arange(6))
    value, gradient = jax.jit(lambda p: jax.value_and_grad(task.loss)(p, batch, jnp.ones(6)))(params)
    r = a[2] @ x + b[2]
    assert value == pytest.approx(np.mean(np.log(0.5 * r**2 + 1)), rel=1e-5)
    np.testing.assert_allclose(
        gradient["weight"][0], np.mean((r / (0.5 * r**2 + 1))[:, None] * a[2], axis=0), rtol=1e-4
    )


def test_minus_theta_is_better_than_theta():
    task = robust_regression(num_clients=2, dimension=4, seed=3)
    a, b = features_and_answers(task)
    theta = np.linalg.lstsq(a[0], b[0], rcond=None)[0]

    @jax.jit
    def loss(x):
        return task.per_client({"weight": x[None]})["train_loss"][0]

    assert loss(jnp.asarray(-theta, jnp.float32)) < 0.2 < loss(jnp.asarray(theta, jnp.float32))


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"dimension must be a whole number from 1 to .* not 0"):
        robust_regression(dimension=0)
