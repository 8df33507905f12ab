"""The transformed update that a client sends in place of its trained model."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flwr.app import Context

from turnout import tree
from turnout.flower.node.memory import Memory, Place
from turnout.flower.wire import side
from turnout.flower.wire.compact import compact
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.messages import ACKNOWLEDGED, DURABLE, KEEP, ROUND, RUN_ID, UPLOAD_SEED
from turnout.flower.wire.replies import length
from turnout.strategies.client_side import ClientSide
from turnout.types import Answer, Params, PyTree, Work, says_something
from turnout.uploads import Plain, Upload, UploadContext
from turnout.uploads.base import all_parts, check_fit

_KEY_BYTES = 16  # of a key that cannot be guessed: 32 bits could be tried one by one


class Sending(NamedTuple):
    """What a client sends."""

    parts: Arrays
    length: float
    based_on: int  # the round of the upload from which it is a difference, 0 if it is none


class NodeState(NamedTuple):
    """What a client keeps from round to round, None where nothing."""

    uploads: PyTree = None  # of its transform
    algorithm: PyTree = None  # of the strategy's client side


class Sender:
    """Turns a trained model into an upload, and keeps what transform and client side remember of it."""

    def __init__(self, upload: Upload | None = None, place: Place | None = None) -> None:
        self._upload = Plain() if upload is None else upload
        self._memory = Memory(place)
        self._answer = eqx.filter_jit(answer)

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise a ValueError before any work is done, if updates cannot be sent as the server wants them."""
        wanted, by_lengths = side.from_config(config), bool(config.get(KEEP))
        changes = wanted is not None and wanted.sends_changes
        name, keeps = "the server's strategy", wanted is not None
        check_fit(name, self._upload, by_lengths=by_lengths, keeps=keeps, sends_changes=changes)

    def check_order(self, config: Mapping[str, Any]) -> None:
        """The same, and that an order to train has all keys."""
        self.check(config)
        if missing := [name for name in (UPLOAD_SEED, RUN_ID, ACKNOWLEDGED, DURABLE) if name not in config]:
            raise ValueError(f"the server sends no {missing[0]!r}: uploads need a FlowerStrategy of this version there")

    def pack(
        self, trained: Mapping[str, Any], start: Arrays, config: Mapping[str, Any], context: Context, reach: float = 1.0
    ) -> Sending:
        """The upload of a model trained with this reach; the memory of it is stored before this returns."""
        update, wanted = _update(trained, start), side.from_config(config)
        parts, zeros = (self._upload, wanted), tree.zeros_like(update)
        fresh = NodeState(*(None if part is None else part.init(zeros) for part in parts))
        remembers = bool(jax.tree.leaves(fresh))
        states = self._memory.recall(fresh, config, context) if remembers else {}
        before = states.get(config[ACKNOWLEDGED], fresh)
        sent, after = self._answer(wanted, self._upload, update, before, self._context(config, reach))
        if remembers:  # a state that is not finite would never become finite again
            is_finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(after))
            self._memory.keep({**states, config[ROUND]: after if is_finite else before}, config, context)
        rows = {name: np.asarray(part) for name, part in sent.items()}
        return Sending(compact(rows), length(rows), config[ACKNOWLEDGED] if before is not fresh else 0)

    def _context(self, config: Mapping[str, Any], reach: float) -> UploadContext:
        """Where noise is added, nothing is drawn from the server's seed, or the server could remove the noise."""
        lr = jnp.asarray(config["lr"] / (config.get("step-scale") or 1.0), jnp.float32)
        work = (lr, jnp.asarray(reach, jnp.float32), jnp.asarray(config[ROUND] - 1, jnp.float32))
        if not any(part.adds_noise for part in all_parts(self._upload)):
            return UploadContext(jnp.asarray(config[UPLOAD_SEED], jnp.uint32), *work)
        seed, *key = np.frombuffer(os.urandom(4 + _KEY_BYTES), np.uint32)
        return UploadContext(jnp.asarray(seed), *work, jr.wrap_key_data(jnp.asarray(key), impl="rbg"))


def answer(
    wanted: ClientSide | None, upload: Upload, update: Params, before: NodeState, context: UploadContext
) -> tuple[Params, NodeState]:
    """What a client sends of its update, and what it keeps if that arrives; as in simulations.

    What it keeps is made of what is sent, so that server and client agree. An update of no work says nothing.
    """
    if wanted is None:
        sent, uploads = upload.encode(update, before.uploads, context)
        return sent, NodeState(uploads)
    work = Work(update, context.lr, context.reach, context.t)
    worked = says_something(context.reach, context.lr)
    said = wanted.say(before.algorithm, work).update
    sent, uploads = upload.encode(tree.where(worked, said, tree.zeros_like(said)), before.uploads, context)
    kept = wanted.keep(before.algorithm, work, Answer(sent))
    return sent, NodeState(uploads, tree.where(worked, kept, before.algorithm))


def _update(trained: Mapping[str, Any], start: Arrays) -> Params:
    """Δ of the trained arrays, in 32-bit floats."""
    update = {}
    for name in Layout.of(start).trained:
        if name not in trained:
            raise ValueError(f"array {name!r} is missing in the trained model")
        end = np.asarray(trained[name])
        if end.shape != start[name].shape:
            raise ValueError(f"array {name!r} of the trained model has shape {end.shape}, not {start[name].shape}")
        update[name] = jnp.asarray(end.astype(np.float32) - start[name].astype(np.float32))
    return update
