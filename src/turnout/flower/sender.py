"""What a client sends in place of its trained model, and its memory of that: a file, or Flower's own state of the node.

An upload may be lost, and then the memory of it must not count. The next order of the server says which upload was the
last that arrived; until then the states before and after it are both kept.
"""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flwr.app import ConfigRecord, Context
from jaxtyping import Array, Float

from turnout import tree
from turnout.files import archive
from turnout.files.manifest import EditedError
from turnout.files.whole import durable_file
from turnout.flower.wire import layout, side
from turnout.flower.wire.compact import compact
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.messages import ACKNOWLEDGED, DURABLE, KEEP, ROUND, RUN_ID, SHARED, UPLOAD_SEED, client_name
from turnout.flower.wire.replies import length
from turnout.strategies.client_side import ClientSide
from turnout.types import Answer, Params, PyTree, Work, says_something
from turnout.uploads import Plain, Upload, UploadContext
from turnout.uploads.base import all_parts, check_fit

log = logging.getLogger("turnout.flower")

Place = str | Path | Callable[[Context], Path]
States = dict[int, Any]  # by the round of the upload after which they hold

REMEMBERED, _CONTENT = "turnout.memory", "npz"  # in the node's own state, where there is no file
_FORMAT = 3
_BEFORE = 2  # the format before, which is still read
_KEY_BYTES = 16  # of a key that cannot be guessed: 32 bits could be tried one by one


class Memory:
    """Keeps the states of a client, of its transform and of the algorithm, that may still count.

    A server that goes back to a checkpoint asks for the state of an older round. So all states since its last
    checkpoint are kept, and the one at the checkpoint. Where a state is lost, or belongs to another run, the client
    starts afresh: the remainder of its earlier uploads is never sent then, which does no harm.
    """

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def recall(self, fresh: Any, config: Mapping[str, Any], context: Context) -> States:
        """The states that may still count; none if the one after the last upload that arrived is lost.

        `fresh` is the state of a client that has sent nothing yet; the others have its form.
        """
        arrived, durable = int(config[ACKNOWLEDGED]), int(config[DURABLE])
        states = self._read(fresh, str(config[RUN_ID]), context)
        if arrived and arrived not in states:
            log.info("what is remembered of the upload of round %d is lost", arrived)
            return {}
        oldest = max((t for t in states if t <= min(arrived, durable)), default=0)
        return {t: state for t, state in states.items() if oldest <= t <= arrived}

    def keep(self, states: States, config: Mapping[str, Any], context: Context) -> None:
        """Replace the memory; it is on the disk when this returns."""
        named = {t: layout.named_leaves(state) for t, state in states.items()}
        header = {"format": _FORMAT, "run": config[RUN_ID], "client": client_name(context), "rounds": list(states)}
        rows = {f"{t} {path}": leaf for t, leaves in named.items() for path, leaf in leaves.items()}
        content = archive.to_bytes(header, rows)
        path = self._path(context)
        if path is None:
            context.state[REMEMBERED] = ConfigRecord({_CONTENT: content})
            return
        with durable_file(path) as file:
            file.write(content)

    def _read(self, fresh: Any, run: str, context: Context) -> States:
        content = self._content(context)
        if content is None:
            return {}
        try:
            header, rows = archive.from_bytes(content, self._path(context) or "the state of the node")
            if header["format"] not in (_FORMAT, _BEFORE) or header["run"] != run:
                log.info("the memory of earlier uploads belongs to another run: starting afresh")
                return {}
            if header["format"] == _BEFORE:
                rows = {_path_now(path): leaf for path, leaf in rows.items()}
            states = {t: layout.with_leaves(fresh, _of_round(t, rows)) for t in header["rounds"]}
        except (EditedError, ValueError, KeyError, TypeError) as error:
            log.info("the memory of earlier uploads cannot be read: %s; starting afresh", error)
            return {}
        if header["client"] != client_name(context):
            raise ValueError(
                f"{self._path(context)} holds the memory of client {header['client']!r}, but this is "
                f"{client_name(context)!r}: give each client a file of its own, by a function of its context"
            )
        return states

    def _content(self, context: Context) -> bytes | None:
        path = self._path(context)
        if path is not None:
            return path.read_bytes() if path.exists() else None
        content = context.state.config_records.get(REMEMBERED, ConfigRecord()).get(_CONTENT)
        return content if isinstance(content, bytes) else None

    def _path(self, context: Context) -> Path | None:
        place = self._place(context) if callable(self._place) else self._place
        return None if place is None else Path(place)


def _path_now(path: str) -> str:
    """The path of an array in a file of the format before, where a client had one state: of transform or algorithm."""
    t, _, leaf = path.partition(" ")
    if leaf == ".t" or leaf.startswith(".rows"):
        return f"{t} .algorithm{leaf.replace('.rows', '.word', 1)}"
    return f"{t} .uploads{leaf}"


def _of_round(t: int, rows: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{t} "
    return {path.removeprefix(prefix): leaf for path, leaf in rows.items() if path.startswith(prefix)}


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
        fresh = self._fresh(wanted, start)
        remembers = bool(jax.tree.leaves(fresh))
        states = self._memory.recall(fresh, config, context) if remembers else {}
        before = states.get(config[ACKNOWLEDGED], fresh)
        shared = jnp.asarray(config[SHARED], jnp.float32) if SHARED in config else None
        sent, after = self._answer(wanted, self._upload, update, before, self._context(config, reach), shared)
        if remembers:  # a state that is not finite would never become finite again
            is_finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(after))
            self._memory.keep({**states, config[ROUND]: after if is_finite else before}, config, context)
        rows = {name: np.asarray(part) for name, part in sent.items()}
        return Sending(compact(rows), length(rows), config[ACKNOWLEDGED] if before is not fresh else 0)

    def goodbye(self, start: Arrays, config: Mapping[str, Any], context: Context) -> Sending:
        """What takes the client's word out of the server's sum: whole, since what stays there would stay for ever."""
        wanted = side.from_config(config)
        assert wanted is not None  # else there is no sum
        fresh = self._fresh(wanted, start)
        before = self._memory.recall(fresh, config, context).get(config[ACKNOWLEDGED], fresh)
        rows = {name: np.asarray(part) for name, part in wanted.goodbye(before.algorithm).items()}
        return Sending(compact(rows), length(rows), config[ACKNOWLEDGED] if before is not fresh else 0)

    def _fresh(self, wanted: ClientSide | None, start: Arrays) -> NodeState:
        """What a client keeps that has sent nothing yet."""
        zeros = {name: jnp.zeros(start[name].shape, jnp.float32) for name in Layout.of(start).trained}
        return NodeState(*(None if part is None else part.init(zeros) for part in (self._upload, wanted)))

    def _context(self, config: Mapping[str, Any], reach: float) -> UploadContext:
        """Where noise is added, nothing is drawn from the server's seed, or the server could remove the noise."""
        lr = jnp.asarray(config["lr"] / (config.get("step-scale") or 1.0), jnp.float32)
        work = (lr, jnp.asarray(reach, jnp.float32), jnp.asarray(config[ROUND] - 1, jnp.float32))
        if not any(part.adds_noise for part in all_parts(self._upload)):
            return UploadContext(jnp.asarray(config[UPLOAD_SEED], jnp.uint32), *work)
        seed, *key = np.frombuffer(os.urandom(4 + _KEY_BYTES), np.uint32)
        return UploadContext(jnp.asarray(seed), *work, jr.wrap_key_data(jnp.asarray(key), impl="rbg"))


def answer(
    wanted: ClientSide | None,
    upload: Upload,
    update: Params,
    before: NodeState,
    context: UploadContext,
    shared: Float[Array, ""] | None = None,
) -> tuple[Params, NodeState]:
    """What a client sends of its update, and what it keeps if that arrives; as in simulations.

    What it keeps is made of what is sent, so that server and client agree. An update of no work says nothing.
    """
    if wanted is None:
        sent, uploads = upload.encode(update, before.uploads, context)
        return sent, NodeState(uploads)
    work = Work(update, context.lr, context.reach, context.t, shared)
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
