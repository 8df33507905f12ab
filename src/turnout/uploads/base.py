"""What an upload transform is: what a client sends instead of its update, what it remembers, and what it fits."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, UInt32

from turnout.declarations import Declared
from turnout.streams import scramble
from turnout.types import Answer, Params, PyTree, RandomKey

State = TypeVar("State")
Shapes = PyTree  # a model, or what has its shapes and types


class UploadContext(eqx.Module):
    """What a transform may use besides the update."""

    seed: UInt32[Array, "*any"]  # for this client and round
    lr: Float[Array, "*any"]  # η of the round in which the client was asked, without its step scale
    reach: Float[Array, "*any"]  # ‖a_k‖₁ of the local work
    t: Float[Array, "*any"]  # the round in which the client was asked
    noise_key: RandomKey | None = None  # the client's own, where the server knows the seed
    importance: Float[Array, "*any"] | None = None  # α of the client, where the algorithm has a client side


@dataclass(frozen=True)
class WireSize:
    """How much one upload takes: so many entries, each with a value and perhaps its index."""

    entries: int
    value_bytes: int
    index_bytes: int = 0
    extra_bytes: int = 0  # scales and the like

    @classmethod
    def whole(cls, params: Shapes) -> WireSize:
        """Of an update sent as it is."""
        leaves = jax.tree.leaves(params)
        return cls(sum(leaf.size for leaf in leaves), max((leaf.dtype.itemsize for leaf in leaves), default=4))

    @property
    def total(self) -> int:
        return self.entries * (self.value_bytes + self.index_bytes) + self.extra_bytes


class Upload(Declared, Generic[State]):
    """A transform of updates, as pure functions of one client's update and state; the engine maps it over clients.

    Fields are settings and pytree leaves, so a grid of them runs as one program. State belongs to the client. It is
    kept only if the upload arrives: a lost update is lost for both sides.
    """

    example: ClassVar[str] = "EightBit()"

    has_memory: ClassVar[bool] = False  # what is sent depends on what was sent before
    adds_noise: ClassVar[bool] = False  # on purpose, so that nobody may take it out again

    def init(self, params: Params) -> State:
        """State of a client that has not sent anything yet."""
        return None  # pyright: ignore[reportReturnType]

    @abc.abstractmethod
    def encode(self, update: Params, state: State, context: UploadContext) -> tuple[Params, State]:
        """What the server will read, in the shape of a model, and the state if it arrives."""

    def encode_numbers(self, numbers: Array, context: UploadContext) -> Array:
        """What the server will read of the numbers beside the vector; by default the numbers themselves."""
        return numbers

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        """Size of one upload, given its size before this transform; on the host, with concrete fields."""
        return size

    def inside(self) -> tuple[Upload[PyTree], ...]:
        """The transforms that this one contains."""
        return ()

    def num_bytes(self, params: Shapes) -> int:
        """Bytes of one upload of such a model."""
        return self.wire_size(WireSize.whole(params), params).total


def encode_answer(upload: Upload[State], answer: Answer, state: State, context: UploadContext) -> tuple[Answer, State]:
    """One client's answer as the server reads it, and the state if it arrives; a second vector has draws of its own.

    No state is for it: what remembers is refused where clients keep what they have sent.
    """
    update, after = upload.encode(answer.update, state, context)
    numbers = None if answer.numbers is None else upload.encode_numbers(answer.numbers, context)
    if answer.second is None:
        return Answer(update, None, numbers), after
    key = None if context.noise_key is None else jr.fold_in(context.noise_key, 1)
    other = replace(context, seed=scramble(context.seed + jnp.uint32(1)), noise_key=key)
    return Answer(update, upload.encode(answer.second, state, other)[0], numbers), after


def all_parts(upload: Upload[PyTree]) -> Iterator[Upload[PyTree]]:
    """A transform and everything inside it."""
    yield upload
    for part in upload.inside():
        yield from all_parts(part)


def refuse_inside(outer: str, inner: Upload[PyTree], *, memory: str, noise: str) -> None:
    """Raise a ValueError with the reason, if a transform must not stand inside another."""
    for part in all_parts(inner):
        name = type(part).__name__
        if part.has_memory:
            raise ValueError(f"{name} cannot stand inside {outer}: {memory}")
        if part.adds_noise:
            raise ValueError(f"{name} cannot stand inside {outer}: {noise}")


def check_fit(name: str, upload: Upload[Any], *, by_lengths: bool, keeps: bool, sends_changes: bool) -> None:
    """Raise a ValueError that says why, if a strategy of this name cannot work with a transform.

    `by_lengths`: it chooses uploads by the lengths of updates. `keeps`: its clients keep what they have sent.
    `sends_changes`: they send changes of it.
    """
    for part in all_parts(upload):
        kind = type(part).__name__
        if by_lengths and part.adds_noise:
            raise ValueError(
                f"{name} chooses uploads by the lengths of updates, which {kind} hides: take one or the other"
            )
        if keeps and part.has_memory:
            raise ValueError(
                f"{kind} cannot be used with {name}, whose clients keep what they have sent already: "
                "give the compressor alone"
            )
        if sends_changes and part.adds_noise:
            raise ValueError(
                f"{kind} cannot be used with {name}, whose clients send what has changed: the next "
                "upload would take the noise out again"
            )
