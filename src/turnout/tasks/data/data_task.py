"""Tasks made of data: the clients' samples, a model and a loss."""
# Long: a task of data, and how its draws for many seeds are stacked.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from turnout.metrics import on_split
from turnout.tasks.base import Task, in_a_line
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.models.model import Loss, Model, Seed
from turnout.types import Params, PerClient, RandomKey, Scalar, divide

Inputs = Shaped[Array, "batch ..."]
Labels = Shaped[Array, " batch"]
DataBatch = tuple[Inputs, Labels]
PIECE = 1024  # entries summed one by one
MOST_PATCHES = 2**26  # numbers that patches of a model of one's own may hold at once in an evaluation
Factor = float | tuple[float, ...]  # one number, or one per channel, which is the last axis


class Split(eqx.Module):
    """Samples of every client, each input held once.

    An entry is one sample of one client: a row of the common pool of inputs, and a label of its own, so that two
    clients may share an input and label it differently. Entries are grouped by client.
    """

    inputs: Shaped[Array, "pool ..."]
    rows: Int[Array, " entries"]
    labels: Shaped[Array, " entries"]
    owners: Int[Array, " entries"]  # never decreasing
    starts: Int[Array, " clients"]  # first entry of each client
    sizes: Int[Array, " clients"]
    scale: Factor = eqx.field(static=True, default=1.0)  # bytes b are read as scale * b + shift
    shift: Factor = eqx.field(static=True, default=0.0)

    @classmethod
    def group(
        cls,
        inputs: Shaped[Array | np.ndarray, "pool ..."],
        labels: Shaped[np.ndarray, " entries"],
        owners: Int[np.ndarray, " entries"],
        num_clients: int,
        rows: Int[np.ndarray, " entries"] | None = None,
        scale: Factor = 1.0,
        shift: Factor = 0.0,
    ) -> Split:
        """Sort entries by owner; without `rows` entry i is row i of the pool."""
        order = np.argsort(owners, kind="stable")
        sizes = np.bincount(owners, minlength=num_clients)
        whole = np.issubdtype(labels.dtype, np.integer)
        return cls(
            inputs=jnp.asarray(inputs),
            rows=jnp.asarray(order if rows is None else rows[order], jnp.int32),
            labels=jnp.asarray(labels[order], jnp.int32 if whole else jnp.float32),
            owners=jnp.asarray(owners[order], jnp.int32),
            starts=jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
            sizes=jnp.asarray(sizes, jnp.int32),
            scale=scale,
            shift=shift,
        )

    @property
    def num_entries(self) -> int:
        return self.rows.shape[0]

    def cut(self, entries: Int[Array, " batch"]) -> DataBatch:
        """Inputs and labels of the given entries; bytes become floats only here."""
        inputs = self.inputs[self.rows[entries]]
        if inputs.dtype == jnp.uint8:
            inputs = inputs.astype(jnp.float32) * along(self.scale, inputs.ndim) + along(self.shift, inputs.ndim)
        return inputs, self.labels[entries]


def along(factor: Factor, rank: int) -> Array:
    """The factor in a shape that broadcasts with arrays of that rank."""
    numbers = jnp.asarray(factor, jnp.float32)
    return numbers.reshape((1,) * (rank - 1) + (-1,)) if numbers.size > 1 else numbers.reshape(())


class ClientNames:
    """Names that the compiler does not look at: tasks that differ in nothing else run as one program."""

    def __init__(self, values: Sequence[str]) -> None:
        self.values = tuple(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientNames)

    def __hash__(self) -> int:
        return hash(ClientNames)


_PARTS: tuple[Callable[[DataTask], Any], ...] = (
    lambda task: task.train,
    lambda task: task.validation,
    lambda task: task.test,
)


class DataTask(Task):
    """Fit a model to the clients' samples: F_k is the mean loss over client k's training entries plus ½ ridge ‖w‖².

    The ridge covers all parameters w, biases included, as the weight decay in CA-Fed's public code does; that is what
    makes its objective strongly convex.
    """

    train: Split
    validation: Split | None
    test: Split | None
    model: Model = eqx.field(static=True)
    judge: Loss = eqx.field(static=True)
    worth: PerClient  # α, up to a common factor
    ridge: Scalar = 0.0
    chunk: int = eqx.field(static=True, default=4096)  # samples evaluated at once
    client_names: ClientNames | None = eqx.field(static=True, default=None)
    frozen: Params | None = None  # of a model with adapters: its base, shared by all clients
    augment: Augment | None = eqx.field(static=True, default=None)

    def __repr__(self) -> str:
        splits = {"train": self.train, "validate": self.validation, "test": self.test}
        rows = {f"samples to {what}": split.rows for what, split in splits.items() if split is not None}
        return in_a_line(self, {"clients": self.worth, **rows})

    def beside(self, tasks: Sequence[Any]) -> tuple[Task, Task]:
        """Draws side by side: the inputs of all are one pool, held once where they are the same."""
        pool, firsts = _pool_inputs([task.train.inputs for task in tasks])
        stacked = eqx.tree_at(lambda task: task.worth, self, jnp.stack([task.worth for task in tasks]))
        for part in _PARTS:
            if len({part(task) is None for task in tasks}) > 1:
                raise ValueError("some draws of the task have validation or test data, and others none: give all some")
            if part(self) is not None:
                splits = _stack_splits([part(task) for task in tasks], pool, firsts)
                stacked = eqx.tree_at(part, stacked, splits)
        held = [pool, *jax.tree.leaves(_one_base([task.frozen for task in tasks]))]
        own, common = eqx.partition(stacked, lambda leaf: eqx.is_array(leaf) and not any(leaf is one for one in held))
        return common, own

    @property
    def sizes(self) -> Int[Array, " clients"]:
        return self.train.sizes

    @property
    def importance(self) -> PerClient:
        return self.worth

    @property
    def names(self) -> tuple[str, ...] | None:
        return None if self.client_names is None else self.client_names.values

    @property
    def one_by_one_on_cpu(self) -> bool:
        return self.model.one_by_one_on_cpu or self._patch_numbers > 0

    @property
    def _patch_numbers(self) -> int:
        inputs, _ = jax.eval_shape(self.train.cut, jnp.zeros(2, jnp.int32))
        return self.model.patch_numbers(inputs, self.frozen)

    def as_written(self) -> DataTask | None:
        return replace(self, model=self.model.as_written()) if self._patch_numbers else None

    def init(self, key: RandomKey) -> Params:
        return self.model.init(key)

    def batch(self, client: Int[Array, ""], positions: Int[Array, " batch"]) -> DataBatch:
        return self.train.cut(self.train.starts[client] + positions)

    def loss(self, params: Params, batch: DataBatch, present: Float[Array, " batch"]) -> Float[Array, ""]:
        return self._mean_loss(params, self.model.outputs(self._all(params), batch[0]), batch[1], present)

    def _all(self, params: Params) -> Params:
        """What the model takes: the parameters that are trained, with the frozen ones where there are some."""
        return params if self.frozen is None else (self.frozen, params)

    def shorten(self, batch: DataBatch) -> DataBatch:
        if not jnp.issubdtype(batch[0].dtype, jnp.inexact):
            raise ValueError("inputs are whole numbers, such as tokens, not numbers: leave precision at 'float32'")
        return batch[0].astype(jnp.bfloat16), batch[1]

    def _mean_loss(
        self, params: Params, outputs: Array, labels: Labels, present: Float[Array, " batch"]
    ) -> Float[Array, ""]:
        losses = self.judge.per_sample(outputs, labels)
        return divide(jnp.sum(losses * present), jnp.sum(present)) + self.penalty(params)

    def training_loss(
        self, params: Params, batch: DataBatch, present: Float[Array, " batch"], seed: Seed
    ) -> Float[Array, ""]:
        """The loss, with the model's own noise where it has any, and of augmented inputs where that is wanted."""
        if self.augment is not None:
            batch = self.augment.apply(batch[0], self.train.shift, seed), batch[1]
        if self.model.apply_noisily is None:
            return self.loss(params, batch, present)
        return self._mean_loss(params, self.model.outputs(self._all(params), batch[0], seed), batch[1], present)

    def penalty(self, params: Params) -> Float[Array, ""]:
        if isinstance(self.ridge, float | int) and self.ridge == 0:
            return jnp.zeros(())  # the compiler may not leave out a product with zero
        squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)]
        return 0.5 * self.ridge * sum(squares, jnp.zeros(()))

    def per_client(self, params: Params) -> dict[str, PerClient]:
        """Mean loss and, for classes, accuracy of each client on each split.

        The training loss is the objective, so it includes the penalty; the others do not. NaN says that the client has
        no data there, and only that: a loss that is NaN because the model diverged is reported as infinite. In a
        compiled program the metrics that are not used cost nothing.
        """
        metrics: dict[str, PerClient] = {}
        for name, split in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            if split is None:
                continue
            losses, correct = self.per_entry(params, split)
            loss = client_mean(jnp.where(jnp.isnan(losses), jnp.inf, losses), split)
            metrics[on_split(name, "loss")] = loss + self.penalty(params) if name == "train" else loss
            if correct is not None:
                metrics[on_split(name, "accuracy")] = client_mean(correct, split)
        return metrics

    def per_entry(
        self, params: Params, split: Split
    ) -> tuple[Float[Array, " entries"], Float[Array, " entries"] | None]:
        """Loss and correctness of every entry, chunk by chunk, so that memory does not grow with the data."""

        def evaluate(entries: Int[Array, " batch"]) -> tuple[Array, Array | None]:
            inputs, labels = split.cut(entries)
            outputs = self.model.outputs(self._all(params), inputs)
            correct = None if self.judge.correct is None else self.judge.correct(outputs, labels)
            return self.judge.per_sample(outputs, labels), correct

        num_entries, chunk = split.num_entries, self.chunk
        if numbers := self._patch_numbers:
            chunk = min(chunk, max(1, MOST_PATCHES // numbers))
        if num_entries <= chunk:
            return evaluate(jnp.arange(num_entries))
        num_chunks = math.ceil(num_entries / chunk)
        size = math.ceil(num_entries / num_chunks)
        entries = jnp.minimum(jnp.arange(num_chunks * size), num_entries - 1).reshape(num_chunks, size)
        return jax.tree.map(lambda rows: rows.reshape(-1)[:num_entries], jax.lax.map(evaluate, entries))


def _pool_inputs(pools: Sequence[Array]) -> tuple[Array, list[int]]:
    """All inputs in one pool, and the row in it at which those of each draw begin."""
    if all(pool is pools[0] or bool(jnp.array_equal(pool, pools[0])) for pool in pools[1:]):
        return pools[0], [0] * len(pools)
    ends = np.cumsum([len(pool) for pool in pools])
    return jnp.concatenate(pools), [0, *ends[:-1].tolist()]


def _one_base(bases: Sequence[Params | None]) -> Params | None:
    """The frozen parameters that all draws share."""
    for base in bases[1:]:
        if base is not bases[0] and not eqx.tree_equal(base, bases[0]):
            raise ValueError("draws of the task have adapters of different bases: give all the same base")
    return bases[0]


def _stack_splits(splits: Sequence[Split], pool: Array, firsts: list[int]) -> Split:
    """One row per draw of everything but the pool; entries are filled up with some that no client owns."""
    longest, (num_clients,) = max(split.num_entries for split in splits), splits[0].sizes.shape
    nobody = {"owners": num_clients}

    def stack(name: str) -> Array:
        arrays = [getattr(split, name) for split in splits]
        if name == "rows":
            arrays = [rows + first for rows, first in zip(arrays, firsts, strict=True)]
        room = longest if name in ("rows", "labels", "owners") else num_clients
        return jnp.stack([jnp.pad(row, (0, room - len(row)), constant_values=nobody.get(name, 0)) for row in arrays])

    names = ("rows", "labels", "owners", "starts", "sizes")
    new = [pool, *map(stack, names)]
    return eqx.tree_at(lambda split: [split.inputs, *(getattr(split, name) for name in names)], splits[0], new)


def client_mean(values: Float[Array, " entries"], split: Split) -> PerClient:
    """Mean over each client's entries, NaN for a client that has none."""
    sums = _client_sums(values, split.owners, split.starts, values.shape[0])
    return divide(sums, split.sizes.astype(values.dtype), otherwise=jnp.nan)


def _client_sums(values: Array, owners: Array, starts: Array, longest: int, in_order: bool = True) -> PerClient:
    """Sums over each client's entries, of which there are `longest` at most; entries of nobody do not count.

    A sum of many entries one by one drifts in single precision: by a percent over a million equal ones. So the entries
    of a client are summed in pieces, and the pieces likewise.
    """
    (num_clients,), count = starts.shape, values.shape[0]
    if longest <= PIECE:
        return jax.ops.segment_sum(values, owners, num_clients, indices_are_sorted=in_order)
    first, room = starts[owners], num_clients + count // PIECE + 1
    # Numbers that rise from piece to piece, with gaps that hold nothing: a running count of the pieces is slow.
    piece = owners + first // PIECE + (jnp.arange(count) - first) // PIECE
    piece = jnp.where((owners >= 0) & (owners < num_clients), piece, room)
    sums = jax.ops.segment_sum(values, piece, room, indices_are_sorted=in_order)
    piece_owners = jax.ops.segment_max(owners, piece, room, indices_are_sorted=in_order)  # negative in a gap
    first_pieces = jnp.arange(num_clients) + starts // PIECE
    return _client_sums(sums, piece_owners, first_pieces, -(-longest // PIECE), in_order=False)
