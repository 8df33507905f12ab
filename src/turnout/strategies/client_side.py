"""The client's side of an algorithm: what steers its local steps, what it says, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, Literal, TypeVar

import jax
import jax.numpy as jnp

from turnout import tree
from turnout.declarations import Declared
from turnout.types import Answer, Params, PyTree, Scalar, Work, says_something

Kept = TypeVar("Kept")
Coded = TypeVar("Coded")
Gradient = Literal["mean", "last"]


class ClientSide(Declared, Generic[Kept]):
    """What an algorithm has one client do besides plain training and sending its update; the engine maps it over all.

    A local step from z moves by -η (q + A (z - x) + b) with q the raw gradient, x the model that the client was sent,
    A = `pull` and b = `push`. After its work a client sends what it has to `say`. What it keeps for its next
    participation is made of what was *sent*, so that client and server agree on it also where uploads are compressed;
    and it is kept only if the upload arrives. A client that has done no work says nothing and keeps what it has.
    """

    gradients: ClassVar[tuple[Gradient, ...]] = ()  # raw gradients that are wanted in `Work`
    sends_second: ClassVar[bool] = False  # its answers have a second vector
    sends_changes: ClassVar[bool] = False  # its answers are changes of what it has sent before, which would undo noise
    numbers: ClassVar[tuple[str, ...]] = ()  # names of the numbers that its answers have beside the vector

    @property
    def pull(self) -> Scalar | None:
        """A, the same for all clients and rounds, since the server must know it for the reach; None for zero."""
        return None

    def init(self, params: Params) -> Kept:
        """What a client keeps before its first participation."""
        return None  # pyright: ignore[reportReturnType]

    def receives(self, params: Params) -> PyTree:
        """What it is sent beside the model, as zeros in that form: a node reads a message by it. None if nothing."""
        return None

    @property
    def steers(self) -> bool:
        """Whether it needs the gradients of the local steps, to correct them or to know them."""
        return self.pull is not None or type(self).push is not ClientSide.push or bool(self.gradients)

    def push(self, kept: Kept, shared: PyTree) -> Params | None:
        """b, constant during a participation; None for zero."""
        return None

    def say(self, kept: Kept, work: Work) -> Answer:
        """What the client sends; by default its update."""
        return Answer(work.update)

    def keep(self, kept: Kept, work: Work, sent: Answer) -> Kept:
        """What it keeps if that arrives."""
        return kept

    def goodbye(self, kept: Kept) -> Answer:
        """What it says when it leaves for good: the change that takes its word out of the server's sum.

        In `Words` it counts with the weight that the word has there, in `Sums` as it is; by default it is the opposite
        of what the client keeps. A client that has sent nothing takes nothing back.
        """
        if not jax.tree.leaves(kept):
            raise ValueError(f"{type(self).__name__} keeps no word that the server has summed up: nothing to take back")
        return Answer(tree.scale(kept, -1.0))


def blank_answers(side: ClientSide[Kept] | None, rows: Params) -> Answer:
    """Answers in their form, one row per slot: these rows for every vector, and no numbers yet."""
    if side is None:
        return Answer(rows)
    numbers = jnp.zeros((len(jax.tree.leaves(rows)[0]), len(side.numbers))) if side.numbers else None
    return Answer(rows, rows if side.sends_second else None, numbers)


def answer(
    side: ClientSide[Kept], kept: Kept, work: Work, code: Callable[[Answer], tuple[Answer, Coded]]
) -> tuple[Answer, Kept, Coded]:
    """What one client sends of its work, what it keeps if that arrives, and what the codec remembers.

    The order of simulations and real nodes alike: say, then code, then keep, so that what is kept is made of what is
    sent. An update of no work says nothing.
    """
    worked = says_something(work.reach, work.lr)
    said = side.say(kept, work)
    sent, coded = code(tree.where(worked, said, tree.zeros_like(said)))
    return sent, tree.where(worked, side.keep(kept, work, sent), kept), coded
