"""The contract of an upload transform, on one model with arrays of several shapes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout import tree
from turnout.declarations import checked
from turnout.testing.claims import require, require_close, require_finite, require_same_form
from turnout.types import Array, Params, PyTree, RandomKey
from turnout.uploads.base import Upload, UploadContext

_CLIENTS = 5


@checked
def check_upload(upload: Upload[PyTree]) -> None:
    """Raise an AssertionError unless the transform keeps its contract.

    It compiles and maps over clients; what is sent has the form of a model, and the state keeps its form; an update of
    zeros from a client without a memory is sent finite; the same update, state and context give the same; clients do
    not see each other; and the number of bytes is a whole number above zero.
    """
    params = _model(jr.key(0))
    require(upload.num_bytes(params) > 0, "an upload must take a whole number of bytes above zero")
    state = upload.init(params)
    send = eqx.filter_jit(upload.encode)
    for update in (tree.zeros_like(params), params):
        sent, after = send(update, state, _context(0))
        require_same_form(sent, params, "what is sent must have the form of a model")
        require_same_form(after, state, "the state must keep its form")
        require_finite((sent, after), "what is sent and kept must be finite")
        require_close(send(update, state, _context(0)), (sent, after), "the same input must give the same output", 0.0)
    _check_map(upload, params, state)


def _check_map(upload: Upload[PyTree], params: Params, state: PyTree) -> None:
    """Mapped over clients, each row is what its client alone would send."""
    updates = jax.vmap(_model)(jr.split(jr.key(1), _CLIENTS))
    states = tree.repeat(jax.tree.map(jnp.asarray, state), _CLIENTS)
    contexts = jax.vmap(_context)(jnp.arange(_CLIENTS, dtype=jnp.uint32))
    together = eqx.filter_jit(eqx.filter_vmap(upload.encode))(updates, states, contexts)
    for number in range(_CLIENTS):
        row = jax.tree.map(lambda leaf, k=number: leaf[k], (updates, states, contexts))
        alone = upload.encode(*row)
        mapped = jax.tree.map(lambda leaf, k=number: np.asarray(leaf[k]), together)
        require_close(mapped, alone, "clients must not see each other's updates", 1e-6)


def _model(key: RandomKey) -> Params:
    first, second = jr.split(key)
    return {"weights": jr.normal(first, (4, 3)), "bias": jr.normal(second, (3,))}


def _context(seed: int | Array) -> UploadContext:
    rate, reach, t = (jnp.asarray(value, jnp.float32) for value in (0.1, 5.0, 3.0))
    return UploadContext(jnp.asarray(seed, jnp.uint32), rate, reach, t)
