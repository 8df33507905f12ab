"""Models of tasks: what is rewritten by itself, what is not, and the ways back."""

import dataclasses
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax import lax

from turnout import Local, World, availability, simulate
from turnout.simulator import crew, programs
from turnout.simulator.side_by_side import on_cpu
from turnout.strategies import FedAvg
from turnout.tasks import Model, from_arrays, linear, network
from turnout.tasks.data import data_task
from turnout.tasks.models.layers import Conv, Dense
from turnout.tasks.models.rewriting import rewrite, walk

AXES = ("NHWC", "HWIO", "NHWC")
DRAW = np.random.default_rng(0)
INPUTS, LABELS = DRAW.normal(size=(40, 6, 6, 1)).astype(np.float32), DRAW.integers(0, 3, 40)


def own_network(params, images):
    images = lax.conv_general_dilated(images, params["kernel"], (1, 1), "SAME", dimension_numbers=AXES)
    images = lax.reduce_window(jax.nn.relu(images), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return images.reshape(images.shape[0], -1) @ params["last"]


def start(key):
    return {"kernel": 0.5 * jr.normal(key, (3, 3, 1, 2)), "last": 0.1 * jr.normal(key, (18, 3))}


def task_with(model, inputs=INPUTS):
    return from_arrays((inputs, LABELS, np.arange(40) % 4), model=model, validation_share=0.0)


def trained(model, rounds=2):
    world = World(availability.bernoulli(4, 1.0), compute=2)
    history = simulate(task_with(model), world, FedAvg(), rounds=rounds, local=Local(learning_rate=0.1, batch_size=4))
    return jax.tree.leaves(history.params)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(rewrite, "_said", set())


def text_of(task):
    """The lowered program of a gradient."""
    batch = task.batch(jnp.int32(0), jnp.arange(4))
    gradient = jax.grad(lambda params: task.training_loss(params, batch, jnp.ones(4), jnp.uint32(0)))
    return jax.jit(gradient).lower(task.init(jr.key(0))).as_text()


def test_a_task_runs_its_model_rewritten_and_on_a_cpu_one_by_one():
    model = Model(start, own_network)
    assert "stablehlo.convolution" not in text_of(task_with(model))
    assert "select_and_scatter" not in text_of(task_with(model))
    assert "stablehlo.convolution" in text_of(task_with(model.as_written()))
    assert task_with(model).one_by_one_on_cpu
    assert not task_with(model.as_written()).one_by_one_on_cpu
    for one, other in zip(trained(model), trained(model.as_written()), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_an_equinox_module_for_one_sample_is_rewritten():
    class Own(eqx.Module):
        convolution: eqx.nn.Conv2d
        last: eqx.nn.Linear

        def __call__(self, image):
            image = jax.nn.relu(self.convolution(image.transpose(2, 0, 1)))
            return self.last(eqx.nn.AvgPool2d(3, 2, padding=1)(image).reshape(-1))

    def build(key):
        return Own(eqx.nn.Conv2d(1, 2, 3, padding=1, key=key), eqx.nn.Linear(18, 3, key=key))

    model = Model.from_module(build)
    assert "stablehlo.convolution" not in text_of(task_with(model))
    params, images = model.init(jr.key(0)), jnp.asarray(INPUTS)
    np.testing.assert_allclose(model.outputs(params, images), model.apply(params, images), atol=1e-5)


def test_a_model_without_convolutions_is_the_same_program():
    def perceptron(params, inputs):
        return jnp.tanh(inputs.reshape(inputs.shape[0], -1) @ params)

    own = Model(lambda key: jr.normal(key, (36, 3)), perceptron)
    assert own.rewrite
    assert text_of(task_with(own)) == text_of(task_with(own.as_written()))
    assert not task_with(own).one_by_one_on_cpu
    assert task_with(own).as_written() is None
    assert not linear(36, 3).rewrite
    assert not network((6, 6, 1), (Conv(2), Dense(3, last=True))).rewrite


def test_noise_in_training_is_drawn_from_the_seed_as_before():
    def noisily(params, images, seed):
        kept = jr.bernoulli(jr.key(seed), 0.5, images.shape)
        return own_network(params, jnp.where(kept, images, 0.0))

    model = Model(start, own_network, noisily)
    params, images, seed = start(jr.key(0)), jnp.asarray(INPUTS), jnp.uint32(3)
    np.testing.assert_allclose(model.outputs(params, images, seed), noisily(params, images, seed), atol=1e-5)


def test_what_cannot_be_improved_is_said_once():
    def grouped(params, images):
        images = lax.conv_general_dilated(
            images, params["kernel"], (1, 1), "SAME", dimension_numbers=AXES, batch_group_count=2
        )
        return jnp.concatenate([images, images]).reshape(images.shape[0] * 2, -1) @ params["last"]

    def init(key):
        return {"kernel": jr.normal(key, (3, 3, 1, 2)), "last": jr.normal(key, (72, 3))}

    model = Model(init, grouped)
    params = init(jr.key(0))
    with pytest.warns(UserWarning, match="its samples are in groups; it stays as it was.*docs/own_models.md"):
        found = model.outputs(params, jnp.asarray(INPUTS))
    np.testing.assert_array_equal(found, grouped(params, jnp.asarray(INPUTS)))
    model.outputs(params, jnp.asarray(INPUTS))  # a second warning would be an error


def test_a_model_that_cannot_be_rewritten_runs_as_it_was_and_says_so_once(monkeypatch):
    def fail(*arguments):
        raise KeyError("an operation of the year 2040")

    monkeypatch.setattr(walk.convolutions, "convolve", fail)
    model, params = Model(start, own_network), start(jr.key(0))
    with pytest.warns(UserWarning, match="could not be rewritten and runs as it was.*year 2040"):
        found = model.outputs(params, jnp.asarray(INPUTS))
    np.testing.assert_array_equal(found, own_network(params, jnp.asarray(INPUTS)))
    model.outputs(params, jnp.asarray(INPUTS))


@pytest.mark.skipif(not on_cpu(), reason="the name of a function that no device has is refused otherwise elsewhere")
def test_a_rewritten_program_that_does_not_compile_runs_as_it_was_written(monkeypatch):
    convolve = walk.convolutions.convolve

    def beyond_this_device(*arguments):
        result = convolve(*arguments)
        kind = jax.ShapeDtypeStruct(result.stored.shape, result.stored.dtype)
        unknown = jax.ffi.ffi_call("turnout_no_such_function", kind, vmap_method="sequential")
        return dataclasses.replace(result, stored=jax.lax.stop_gradient(unknown(jax.lax.stop_gradient(result.stored))))

    model = Model(start, lambda params, images: own_network(params, images))
    expected = trained(model.as_written())
    monkeypatch.setattr(walk.convolutions, "convolve", beyond_this_device)
    with pytest.warns(UserWarning, match="does not compile here, so it runs as it was written") as said:
        found = trained(model)
    assert len(said) == 1
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_evaluation_holds_few_patches_at_once(monkeypatch):
    model, params = Model(start, own_network), start(jr.key(0))
    kind = jax.ShapeDtypeStruct((2, 6, 6, 1), jnp.float32)
    assert model.patch_numbers(kind) == 9 * 36
    assert model.as_written().patch_numbers(kind) == 0
    whole = task_with(model).per_client(params)
    monkeypatch.setattr(data_task, "MOST_PATCHES", 7 * 9 * 36)
    sizes = []
    monkeypatch.setattr(Model, "outputs", lambda model, params, x: sizes.append(len(x)) or model.apply(params, x))
    pieces = task_with(model).per_client(params)
    assert max(sizes) <= 7
    for name, values in whole.items():
        np.testing.assert_allclose(pieces[name], values, rtol=1e-5)


def test_after_a_compiler_took_its_process_along_the_model_runs_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "on_cpu", lambda: False)
    model = Model(start, lambda params, images: own_network(params, images))
    noted = []

    def die(text):
        noted.append(text)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as once:
        once.setattr(crew, "remember_crash", die)
        with pytest.raises(KeyboardInterrupt):
            trained(model)
    folder = tmp_path / "xla"
    monkeypatch.setattr(programs, "folder_of_programs", lambda: str(folder))
    with programs.remember_crash(noted[0]):
        (note,) = folder.iterdir()
        assert note.read_text() == str(os.getpid())
    assert not list(folder.iterdir())
    note.write_text("999999999")  # of a process that there is not
    with pytest.warns(UserWarning, match=f"runs as it was written: a process ended.*delete {note}"):
        found = trained(model)
    assert note.exists()
    for one, other in zip(found, trained(model.as_written()), strict=True):
        np.testing.assert_array_equal(one, other)
