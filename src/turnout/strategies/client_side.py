"""The client's side of an algorithm: what steers its local steps, what it says, and what it keeps."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

import jax

from turnout import tree
from turnout.declarations import Declared
from turnout.types import Answer, Params, PyTree, Scalar, Work

Kept = TypeVar("Kept")
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

    @property
    def pull(self) -> Scalar | None:
        """A, the same for all clients and rounds, since the server must know it for the reach; None for zero."""
        return None

    def init(self, params: Params) -> Kept:
        """What a client keeps before its first participation."""
        return None  # pyright: ignore[reportReturnType]

    def push(self, kept: Kept, shared: PyTree) -> Params | None:
        """b, constant during a participation; None for zero."""
        return None

    def say(self, kept: Kept, work: Work) -> Answer:
        """What the client sends; by default its update."""
        return Answer(work.update)

    def keep(self, kept: Kept, work: Work, sent: Answer) -> Kept:
        """What it keeps if that arrives."""
        return kept

    def goodbye(self, kept: Kept) -> Params:
        """What it says when it leaves for good: the change that takes its word out of the server's `Words`.

        It counts with the weight that the word has there; by default it is the opposite of what the client keeps. A
        client that has sent nothing takes nothing back.
        """
        if not jax.tree.leaves(kept):
            raise ValueError(f"{type(self).__name__} keeps no word that the server has summed up: nothing to take back")
        return tree.scale(kept, -1.0)
