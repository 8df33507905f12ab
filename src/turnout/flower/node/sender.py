"""The transformed update that a client sends in place of its trained model."""

from __future__ import annotations

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
from turnout.types import Params
from turnout.uploads import Plain, Upload, UploadContext
from turnout.uploads.base import all_parts

_KEY_BYTES = 16  # of a key that cannot be guessed: 32 bits could be tried one by one


class Sending(NamedTuple):
    """What a client sends."""

    parts: Arrays
    length: float
    based_on: int  # the round of the upload from which it is a difference, 0 if it is none


class Sender:
    """Turns a trained model into an upload, and keeps the memory of the transform."""

    def __init__(self, upload: Upload | None = None, place: Place | None = None) -> None:
        upload = Plain() if upload is None else upload
        side.refuse_difference(upload)
        self._upload = upload
        self._noisy = [type(part).__name__ for part in all_parts(upload) if part.adds_noise]
        self._memory = Memory(place)
        self._encode = eqx.filter_jit(lambda whole, update, state, context: whole.encode(update, state, context))

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise a ValueError before any work is done, if updates cannot be sent as the server wants them."""
        if self._noisy and config.get(KEEP):
            raise ValueError(
                f"the server's strategy chooses uploads by the lengths of updates, which {self._noisy[0]} hides: "
                "take one or the other"
            )

    def check_order(self, config: Mapping[str, Any]) -> None:
        """The same, and that an order to train has all keys."""
        self.check(config)
        if missing := [name for name in (UPLOAD_SEED, RUN_ID, ACKNOWLEDGED, DURABLE) if name not in config]:
            raise ValueError(f"the server sends no {missing[0]!r}: uploads need a FlowerStrategy of this version there")

    def pack(
        self, trained: Mapping[str, Any], start: Arrays, config: Mapping[str, Any], context: Context, reach: float = 1.0
    ) -> Sending:
        """The upload of a model trained with this reach; the memory of it is stored before this returns."""
        update, upload = _update(trained, start), side.from_config(self._upload, config)
        fresh = upload.init(tree.zeros_like(update))
        remembers = bool(jax.tree.leaves(fresh))
        states = self._memory.recall(fresh, config, context) if remembers else {}
        before = states.get(config[ACKNOWLEDGED], fresh)
        sent, after = self._encode(upload, update, before, self._context(config, reach))
        if remembers:  # a state that is not finite would never become finite again
            self._memory.keep({**states, config[ROUND]: after if _is_finite(after) else before}, config, context)
        rows = {name: np.asarray(part) for name, part in sent.items()}
        return Sending(compact(rows), length(rows), config[ACKNOWLEDGED] if before is not fresh else 0)

    def _context(self, config: Mapping[str, Any], reach: float) -> UploadContext:
        """Where noise is added, nothing is drawn from the server's seed, or the server could remove the noise."""
        lr = jnp.asarray(config["lr"] / (config.get("step-scale") or 1.0), jnp.float32)
        work = {"reach": jnp.asarray(reach, jnp.float32), "t": jnp.asarray(config[ROUND] - 1, jnp.float32)}
        if not self._noisy:
            return UploadContext(jnp.asarray(config[UPLOAD_SEED], jnp.uint32), lr, **work)
        seed, *key = np.frombuffer(os.urandom(4 + _KEY_BYTES), np.uint32)
        return UploadContext(jnp.asarray(seed), lr, jr.wrap_key_data(jnp.asarray(key), impl="rbg"), **work)


def _is_finite(state: Any) -> bool:
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state))


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
