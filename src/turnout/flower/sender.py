"""What a client sends in place of its trained model, by the strategy's client side and the transform of uploads."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flwr.app import Context

from turnout import tree
from turnout.flower.memory import Memory, Place, States
from turnout.flower.steering import Steer
from turnout.flower.wire import side
from turnout.flower.wire.client_metrics import length
from turnout.flower.wire.compact import compact
from turnout.flower.wire.layout import Arrays, Layout
from turnout.flower.wire.messages import ACKNOWLEDGED, DURABLE, KEEP, ROUND, RUN_ID, SHARED, UPLOAD_SEED
from turnout.strategies.client_side import ClientSide, answer
from turnout.strategies.last_updates import LastUpdate
from turnout.types import Answer, Params, PyTree, Work
from turnout.uploads import Plain, Upload, UploadContext
from turnout.uploads.base import all_parts, check_fit, encode_answer

_KEY_BYTES = 16  # of a key that cannot be guessed: 32 bits could be tried one by one


class NodeState(NamedTuple):
    """What a client keeps from round to round, None where nothing."""

    uploads: PyTree = None  # of its transform
    algorithm: PyTree = None  # of the strategy's client side


class Begun(NamedTuple):
    """An order as it stands before the training."""

    side: ClientSide | None
    kept: NodeState
    based_on: int  # the round of the upload after which that holds, 0 for that of a client that has sent nothing
    versions: States  # all that may still count
    shared: PyTree  # what the strategy has sent besides the model
    steer: Steer | None  # of the local steps, None if they are left alone


class Sending(NamedTuple):
    """What a client sends."""

    parts: Arrays
    second: Arrays | None  # of the second vector, where the strategy's clients send one
    length: float
    based_on: int  # the round of the upload from which it is a difference, 0 if it is none
    numbers: np.ndarray | None = None  # those beside the vector, where the strategy's clients send some
    whole: np.ndarray | None = None  # the vector in one row, whatever few bytes it could be sent in


class Sender:
    """Turns a trained model into an answer, and keeps what transform and client side remember of it.

    Around the training in this order: recall and push before it, then say, code, keep and store.
    """

    def __init__(
        self, upload: Upload | None = None, place: Place | None = None, sides: Sequence[type[ClientSide]] = ()
    ) -> None:
        self._upload = Plain() if upload is None else upload
        self._memory = Memory(place)
        self._sides = sides  # of the app, besides those that are shipped
        self._answer = eqx.filter_jit(answer_of)

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise a ValueError before any work is done, if updates cannot be sent as the server wants them."""
        wanted, by_lengths = side.from_config(config, self._sides), bool(config.get(KEEP))
        changes = wanted is not None and wanted.sends_changes
        name, keeps = "the server's strategy", wanted is not None
        check_fit(name, self._upload, by_lengths=by_lengths, keeps=keeps, sends_changes=changes)

    def begin(self, start: Arrays, shared: Arrays | None, config: Mapping[str, Any], context: Context) -> Begun:
        """Recall what this client keeps, and how its steps are steered; `shared` came with the model."""
        self.check(config)
        if missing := [name for name in (UPLOAD_SEED, RUN_ID, ACKNOWLEDGED, DURABLE) if name not in config]:
            raise ValueError(f"the server sends no {missing[0]!r}: uploads need a FlowerStrategy of this version there")
        wanted, zeros = side.from_config(config, self._sides), _zeros(start)
        kept, based_on, versions = self._recall(wanted, zeros, config, context)
        if wanted is None:
            return Begun(None, kept, based_on, versions, None, None)
        told = side.shared_from(wanted, zeros, config.get(SHARED), shared)
        push = wanted.push(kept.algorithm, told)
        steer = Steer(
            {name: start[name] for name in zeros},
            None if push is None else {name: np.asarray(part) for name, part in push.items()},
            None if wanted.pull is None else float(wanted.pull),
            wanted.gradients,
        )
        return Begun(wanted, kept, based_on, versions, told, steer if wanted.steers else None)

    def pack(
        self,
        begun: Begun,
        trained: Mapping[str, Any],
        start: Arrays,
        config: Mapping[str, Any],
        context: Context,
        reach: float = 1.0,
        importance: float = 1.0,
    ) -> Sending:
        """The answer of a model trained with this reach by a client of this importance, stored before it returns."""
        update, how = _update(trained, start), self._context(config, reach)
        mean = last = None
        if begun.side is not None and begun.steer is not None:
            _check_steered(begun.side, begun.steer, update, reach, keeps=bool(jax.tree.leaves(begun.kept)))
            mean, last = (_on_device(part) for part in (begun.steer.mean(), begun.steer.last()))
        counts = jnp.asarray(importance, jnp.float32)
        work = Work(update, how.lr, how.reach, how.t, begun.shared, mean, last, counts)
        sent, after = self._answer(begun.side, self._upload, work, begun.kept, how)
        if jax.tree.leaves(after):  # a state that is not finite would never become finite again
            is_finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(after))
            now = {config[ROUND]: after if is_finite else begun.kept}
            self._memory.keep({**begun.versions, **now}, config, context)
        rows, second = _off_device(sent.update), None if sent.second is None else compact(_off_device(sent.second))
        told = (_numbers_of(sent), _in_one_row(rows))
        return Sending(compact(rows), second, length(rows), begun.based_on, *told)

    def goodbye(self, start: Arrays, config: Mapping[str, Any], context: Context) -> Sending | None:
        """What takes the client's word out of the server's sum: whole, since what stays there would stay for ever.

        None where it keeps none, or none that can be said: then the server must begin its sum anew.
        """
        wanted, zeros = side.from_config(config, self._sides), _zeros(start)
        kept, based_on, _ = self._recall(wanted, zeros, config, context)
        if wanted is None or not jax.tree.leaves(kept.algorithm):
            return None
        said = wanted.goodbye(kept.algorithm)
        if jax.tree.structure(said.update) != jax.tree.structure(zeros):
            return None
        rows = _off_device(said.update)
        return Sending(compact(rows), None, length(rows), based_on, _numbers_of(said))

    def goodbye_in_sum(self, start: Arrays, config: Mapping[str, Any], context: Context) -> Sending | None:
        """The same as what an update in this round would change: the whole word is taken out of a sum under masks."""
        wanted, zeros = side.from_config(config, self._sides), _zeros(start)
        kept, based_on, _ = self._recall(wanted, zeros, config, context)
        if not isinstance(wanted, LastUpdate) or based_on != config[ACKNOWLEDGED]:
            return None
        how = self._context(config, 0.0)
        said = tree.scale(wanted.goodbye(kept.algorithm), (how.t + 1.0) ** -jnp.asarray(wanted.fading, jnp.float32))
        sent, _ = encode_answer(self._upload, said, kept.uploads, how)
        rows = _off_device(sent.update)
        return Sending({}, None, length(rows), based_on, _numbers_of(sent), _in_one_row(rows))

    def _recall(
        self, wanted: ClientSide | None, zeros: Params, config: Mapping[str, Any], context: Context
    ) -> tuple[NodeState, int, States]:
        """What this client keeps, after the upload of which round, and all versions that may still count."""
        fresh = NodeState(*(None if part is None else part.init(zeros) for part in (self._upload, wanted)))
        versions = self._memory.recall(fresh, config, context) if jax.tree.leaves(fresh) else {}
        arrived = config[ACKNOWLEDGED]
        return (versions[arrived], arrived, versions) if arrived in versions else (fresh, 0, versions)

    def _context(self, config: Mapping[str, Any], reach: float) -> UploadContext:
        """Where noise is added, nothing is drawn from the server's seed, or the server could remove the noise."""
        lr = jnp.asarray(config["lr"] / (config.get("step-scale") or 1.0), jnp.float32)
        work = (lr, jnp.asarray(reach, jnp.float32), jnp.asarray(config[ROUND] - 1, jnp.float32))
        if not any(part.adds_noise for part in all_parts(self._upload)):
            return UploadContext(jnp.asarray(config[UPLOAD_SEED], jnp.uint32), *work)
        seed, *key = np.frombuffer(os.urandom(4 + _KEY_BYTES), np.uint32)
        return UploadContext(jnp.asarray(seed), *work, jr.wrap_key_data(jnp.asarray(key), impl="rbg"))


def answer_of(
    wanted: ClientSide | None, upload: Upload, work: Work, before: NodeState, context: UploadContext
) -> tuple[Answer, NodeState]:
    """What a client sends of its work, and what it keeps if that arrives."""

    def code(said: Answer) -> tuple[Answer, PyTree]:
        return encode_answer(upload, said, before.uploads, context)

    if wanted is None:
        sent, uploads = code(Answer(tree.scale(work.update, work.importance)))
        return sent, NodeState(uploads)
    sent, kept, uploads = answer(wanted, before.algorithm, work, code)
    return sent, NodeState(uploads, kept)


def _check_steered(side: ClientSide, steer: Steer, update: Params, reach: float, keeps: bool) -> None:
    """Raise a ValueError, if the training has left out what the algorithm needs of it."""
    if reach == 0:
        return
    name = type(side).__name__
    if not steer.calls:
        raise ValueError(
            f"the server's strategy steers local steps ({name}), but the training has not called config['steer']: "
            "gradients = steer(gradients, model) in every step, or steer(net) in PyTorch"
        )
    # These take the gradients for all that moves a model, and would lose or repeat what moves otherwise.
    if side.sends_changes or (keeps and not side.gradients):
        for array in [array for array in update if array not in steer.seen]:
            if bool(jnp.any(update[array] != 0)):
                raise ValueError(
                    f"array {array!r} has changed in the training, but steer was given no gradient of it, which {name} "
                    "cannot do: leave it as it was sent, and take layers without running statistics"
                )


def _zeros(start: Arrays) -> Params:
    """A model of zeros."""
    return {name: jnp.zeros(start[name].shape, jnp.float32) for name in Layout.of(start).trained}


def _on_device(arrays: Arrays) -> Params:
    return {name: jnp.asarray(part) for name, part in arrays.items()}


def _numbers_of(sent: Answer) -> np.ndarray | None:
    return None if sent.numbers is None else np.asarray(sent.numbers)


def _in_one_row(rows: Arrays) -> np.ndarray:
    return np.concatenate([np.ravel(rows[name]) for name in sorted(rows)])


def _off_device(vector: Params) -> Arrays:
    return {name: np.asarray(part) for name, part in vector.items()}


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
