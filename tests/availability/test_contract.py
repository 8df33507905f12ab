"""What every process must do, whatever it models."""

import importlib
import inspect
import typing

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import availability
from turnout.availability import Process
from turnout.testing import check_process

BUILDERS = [
    "alternating",
    "bernoulli",
    "bounded_absence",
    "clustered",
    "cyclic",
    "diurnal",
    "finite_chain",
    "markov",
    "minimum_separation",
    "periodic",
    "trace",
    "two_classes",
]


def shapes(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


@pytest.mark.parametrize("t", [0, jnp.asarray(7)], ids=["int", "array"])
def test_step_keeps_the_state_and_gives_a_mask(process, t):
    state = eqx.filter_eval_shape(process.init, jr.key(0))
    after, mask = eqx.filter_eval_shape(process.step, state, t, jr.key(1))
    assert shapes(after) == shapes(state)
    assert (mask.shape, mask.dtype) == ((process.num_clients,), bool)


def test_plays_in_a_scan_and_for_many_keys(process, played):
    masks = played(process)
    assert masks.shape == (1000, 121, process.num_clients)
    assert masks.dtype == bool
    assert masks.any()


def test_public_contract(process):
    check_process(process, rounds=600)


def test_processes_of_one_class_can_be_swept():
    swept = [availability.markov(3, pi=0.5, lam=lam) for lam in (0.0, 0.5, 0.9)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *swept)
    masks = eqx.filter_vmap(lambda process, key: process.step(process.init(key), 0, key)[1], in_axes=(0, None))
    apart = [process.step(process.init(jr.key(0)), 0, jr.key(0))[1] for process in swept]
    assert np.array_equal(masks(together, jr.key(0)), np.stack(apart))


@pytest.mark.parametrize("name", BUILDERS)
def test_builder_signature_is_a_schema(name):
    module = importlib.import_module(f"turnout.availability.{name}")
    builder = getattr(module, name)
    hints = typing.get_type_hints(builder)
    parameters = inspect.signature(builder).parameters
    assert "num_clients" in parameters
    assert set(parameters) <= set(hints)
    returned = typing.get_args(hints["return"]) or (hints["return"],)
    assert all(issubclass(kind, Process) for kind in returned)
