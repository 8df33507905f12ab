"""Paces: when a server asks clients to work, and when it steps.

Time runs in ticks, one step of the world each. A server steps at most once in a tick, at its end; what happens inside
a tick has no order. The number of steps so far is the model's version.
"""

from __future__ import annotations

import abc
from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from turnout.declarations import ClientCount, Declared, Numbers
from turnout.types import Scalar

__all__ = ["Buffered", "Clocked", "Pace", "PaceState", "Rounds", "Traffic"]

Count = Int[Array, ""]
Flag = Bool[Array, ""]
Late = Literal["drop", "keep"]
_NOT_OPEN = -1
_ROUNDING = 1e-4  # a quorum of 0.7 of 10 clients is 7, although 0.7 is not a binary number


class PaceState(eqx.Module):
    """What a server notes of its own steps."""

    version: Count  # steps so far: what strategies, schedules and learning rates count as rounds
    opened: Count  # tick in which the open round began, -1 if none is open
    asked: Count  # clients asked in that round

    @classmethod
    def empty(cls) -> PaceState:
        return cls(jnp.zeros((), jnp.int32), jnp.full((), _NOT_OPEN, jnp.int32), jnp.zeros((), jnp.int32))

    def open_round(self, tick: Count, asked: Count) -> PaceState:
        """The state after clients were asked, which opens a round if none is open."""
        opening = self.opened == _NOT_OPEN
        return PaceState(self.version, jnp.where(opening, tick, self.opened), jnp.where(opening, asked, self.asked))

    def close_round(self, due: Flag) -> PaceState:
        """The state after the end of a tick, in which the server has stepped if it was due."""
        return PaceState(self.version + due.astype(jnp.int32), jnp.where(due, _NOT_OPEN, self.opened), self.asked)


class Traffic(eqx.Module):
    """Work that is over and not yet used, at the end of a tick."""

    ended: Count  # of clients asked since the last step: arrived, lost or given up
    arrived: Count  # of all clients


class Pace(Declared):
    """When a server asks, and when it steps. Fields are numbers, so a grid of them is one program."""

    # Whether clients are asked together, and those that do not answer belong to the round nevertheless.
    in_rounds: ClassVar[bool] = False

    @abc.abstractmethod
    def openings(self, state: PaceState, at_work: Count, num_clients: int) -> Count:
        """How many clients may be asked now; if the strategy wants more, a uniform draw decides."""

    @abc.abstractmethod
    def due(self, state: PaceState, tick: Count, traffic: Traffic) -> Flag:
        """Whether the server steps at the end of this tick."""

    @property
    def goal(self) -> Scalar | None:
        """K, the updates that a step waits for; None where that is no fixed number."""
        return None

    @property
    def is_bounded(self) -> bool:
        """Whether there may be too few openings for all clients that the strategy wants."""
        return getattr(self, "concurrency", None) is not None

    @property
    def drops_late(self) -> bool:
        """Whether the answer to a round that is over is worth nothing."""
        return False

    def check(self, num_clients: int, shortest: int = 0) -> None:
        """Raise a ValueError if this pace cannot be kept by so many clients. Called on the host.

        `shortest`: ticks beyond the first that all work needs.
        """
        most = getattr(self, "concurrency", None)
        if most is not None and not _is_count(most, num_clients):
            raise ValueError(
                f"pace: concurrency must be a whole number from 1 to the {num_clients} clients, not {most}"
            )


class Rounds(Pace):
    """Ask when no round is open. Close it when a share `quorum` of the asked has ended, or after `deadline` ticks.

    Whose answer comes later is late. With `late = "drop"` it works on to no use and is not asked meanwhile; with
    "keep" it counts in the round that is open when it arrives. At most `concurrency` clients are at work.
    """

    in_rounds = True

    quorum: Annotated[Scalar, Numbers(0, 1, above=True)] = 1.0
    deadline: ClientCount | None = None  # ticks, the one in which the round opens included
    late: Late = eqx.field(static=True, default="drop")
    concurrency: ClientCount | None = None  # everyone that the strategy wants if not given

    def openings(self, state: PaceState, at_work: Count, num_clients: int) -> Count:
        return jnp.where(state.opened == _NOT_OPEN, _places_left(self.concurrency, at_work, num_clients), 0)

    def due(self, state: PaceState, tick: Count, traffic: Traffic) -> Flag:
        wanted = jnp.ceil(jnp.asarray(self.quorum, jnp.float32) * state.asked.astype(jnp.float32) - _ROUNDING)
        is_open = state.opened != _NOT_OPEN
        enough = traffic.ended.astype(jnp.float32) >= wanted
        if self.deadline is None:
            return is_open & enough
        return is_open & (enough | (tick - state.opened + 1 >= jnp.asarray(self.deadline, jnp.int32)))

    @property
    def drops_late(self) -> bool:
        return self.late == "drop"

    def check(self, num_clients: int, shortest: int = 0) -> None:
        super().check(num_clients, shortest)
        if not 0 < float(self.quorum) <= 1:
            raise ValueError(f"pace: quorum must be a share above 0 and at most 1, not {self.quorum}")
        if self.deadline is not None and not _is_count(self.deadline):
            raise ValueError(f"pace: deadline must be a whole number of 1 or more ticks, not {self.deadline}")
        if self.deadline is not None and int(self.deadline) <= shortest:
            raise ValueError(
                f"pace: deadline = {self.deadline} is over before anybody can answer: all work takes {shortest + 1} "
                "ticks or more"
            )


class Buffered(Pace):
    """Keep up to `concurrency` clients at work, and step as soon as `size` updates have arrived, with all of them."""

    size: ClientCount = 10  # K
    concurrency: ClientCount | None = None  # C, clients at work; everyone that the strategy wants if not given

    def openings(self, state: PaceState, at_work: Count, num_clients: int) -> Count:
        return _places_left(self.concurrency, at_work, num_clients)

    def due(self, state: PaceState, tick: Count, traffic: Traffic) -> Flag:
        return traffic.arrived >= jnp.asarray(self.size, jnp.int32)

    @property
    def goal(self) -> Scalar | None:
        return self.size

    def check(self, num_clients: int, shortest: int = 0) -> None:
        super().check(num_clients, shortest)
        if not _is_count(self.size, num_clients):
            raise ValueError(f"pace: size must be a whole number from 1 to the {num_clients} clients, not {self.size}")
        if self.concurrency is not None and float(self.concurrency) < float(self.size):
            raise ValueError(
                f"pace: concurrency = {self.concurrency} is below size = {self.size}: allow at least as many clients "
                "at work as the buffer holds"
            )


class Clocked(Pace):
    """Step every `every` ticks, with whatever has arrived; a client is asked as soon as it is idle."""

    every: ClientCount = 1  # Δt
    concurrency: ClientCount | None = None  # clients at work; everyone that the strategy wants if not given

    def openings(self, state: PaceState, at_work: Count, num_clients: int) -> Count:
        return _places_left(self.concurrency, at_work, num_clients)

    def due(self, state: PaceState, tick: Count, traffic: Traffic) -> Flag:
        return (tick + 1) % jnp.asarray(self.every, jnp.int32) == 0

    def check(self, num_clients: int, shortest: int = 0) -> None:
        super().check(num_clients, shortest)
        if not _is_count(self.every):
            raise ValueError(f"pace: every must be a whole number of 1 or more ticks, not {self.every}")


def _places_left(concurrency: Scalar | None, at_work: Count, num_clients: int) -> Count:
    most = num_clients if concurrency is None else jnp.asarray(concurrency, jnp.int32)
    return jnp.maximum(most - at_work, 0)


def _is_count(value: object, most: float | int = np.inf) -> bool:
    """Whether this is a whole number from 1 to `most`."""
    number = np.asarray(value)
    return (
        number.ndim == 0
        and np.issubdtype(number.dtype, np.number)
        and 1 <= float(number) <= most
        and float(number).is_integer()
    )
