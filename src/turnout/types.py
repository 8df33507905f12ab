"""The vocabulary of turnout as types: the fleet, what a server sees, what it asks for and what comes back."""
# Long: the vocabulary of all rooms stands in one place, so that each word is defined once.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from turnout.packing import first_indices

__all__ = [
    "Answer",
    "Array",
    "Ask",
    "Cohort",
    "Download",
    "Fleet",
    "Key",
    "Known",
    "Law",
    "Mask",
    "Move",
    "Params",
    "PerClient",
    "PerSlot",
    "PyTree",
    "RandomKey",
    "RandomKeys",
    "Reports",
    "Round",
    "Scalar",
    "Schedule",
    "SlotMask",
    "Steps",
    "Tree",
    "View",
    "Work",
    "divide",
    "rate_at",
]

RandomKey = PRNGKeyArray
RandomKeys = Key[Array, "*lanes"]  # one, or one per lane
Tree = TypeVar("Tree")  # for functions that return a tree of the same kind
if TYPE_CHECKING:
    Params = PyTree = Any  # a type checker cannot see into a tree
else:
    from jaxtyping import PyTree

    Params = PyTree[Shaped[Array, "..."]]
Scalar = float | int | Float[Array, ""] | Int[Array, ""]
Round = int | Int[Array, ""]
Schedule = Callable[[Round], Scalar]
PerClient = Float[Array, " clients"]
Mask = Bool[Array, " clients"]
Steps = Int[Array, " clients"]
PerSlot = Float[Array, " slots"]
SlotMask = Bool[Array, " slots"]
OneOrPerSlot = Float[Array, "*slots"]


def divide(numerator: Array, denominator: Array, otherwise: float = 0.0) -> Array:
    """Quotient that is `otherwise`, never NaN, where the denominator is zero."""
    safe = jnp.where(denominator == 0, 1, denominator)
    return jnp.where(denominator == 0, otherwise, numerator / safe)


def says_something(reach: Float[Array, "*any"], lr: Float[Array, "*any"]) -> Bool[Array, "*any"]:
    """Whether an update counts as a client's word: one of no work, of reach or rate zero, says nothing."""
    return reach * lr > 0


def rate_at(rate: Scalar | Schedule, t: Round) -> Scalar:
    """A learning rate in round t, be it a number or a function of the round."""
    return rate(t) if callable(rate) else rate


class Fleet(eqx.Module):
    """The clients and how much each should count; importance need not sum to one.

    On real nodes some places are vacant, so that a newcomer changes no shape. A vacant place has importance 0 and is
    never available.
    """

    importance: PerClient
    members: Mask | None = None  # the places that hold a client; all of them if not given

    @property
    def num_clients(self) -> int:
        """Number of places, vacant ones included."""
        return self.importance.shape[-1]

    @property
    def num_members(self) -> Scalar:
        """Number of clients, vacant places left out."""
        return self.num_clients if self.members is None else jnp.sum(self.members, dtype=jnp.float32)

    @property
    def target(self) -> PerClient:
        """Share of each client in the objective, α (ω in FedACS)."""
        return self.importance / jnp.sum(self.importance)


class Law(eqx.Module):
    """The stationary law of a world, one entry per client; NaN where it has none."""

    pi: PerClient  # π, stationary availability
    lam: PerClient  # λ, second eigenvalue of the client's on/off chain

    @classmethod
    def unknown(cls, num_clients: int) -> Law:
        """The law of a world that has none."""
        nothing = jnp.full(num_clients, jnp.nan)
        return cls(nothing, nothing)


class Known(eqx.Module):
    """What is known of each client, true or estimated: a strategy cannot tell which."""

    pi: PerClient  # π, stationary availability
    lam: PerClient  # λ, second eigenvalue of the client's on/off chain
    success: PerClient  # 1 - q, probability that an upload arrives
    reach: PerClient  # ‖a‖₁, gradient mass of one update; the number of steps for plain SGD


class View(eqx.Module):
    """Everything that a strategy may use when it decides in round t."""

    t: Round
    importance: PerClient
    available: Mask
    known: Known
    lr: Scalar  # η, the local learning rate of this round
    losses: PerClient | None  # fresh loss of the available clients, if the strategy needs it
    slots: int = eqx.field(static=True)
    watched: Mask | None = None  # clients whose availability is certain; None for all, as in simulations
    listed: Mask | None = None  # clients that are listed, whether there or not; None where nobody keeps a list
    span: Scalar | None = None  # length of the last round, in usual rounds; None for one
    members: Mask | None = None  # the places that hold a client; all of them if not given
    tick: Round | None = None  # of the world's time, where that is not t: t then counts the server's steps
    goal: Scalar | None = None  # K, the updates that a step waits for; None where that is no fixed number
    openings: Scalar | None = None  # how many may be asked now; None for all. Of more than that a lot decides

    @property
    def num_clients(self) -> int:
        """Number of places, vacant ones included."""
        return self.importance.shape[-1]

    @property
    def num_members(self) -> Scalar:
        """Number of clients, vacant places left out."""
        return self.num_clients if self.members is None else jnp.sum(self.members, dtype=jnp.float32)

    @property
    def now(self) -> Round:
        """From what random keys are folded: a server may ask several times between two steps."""
        return self.t if self.tick is None else self.tick

    @property
    def vacant(self) -> Mask:
        """The places that hold no client; none in simulations."""
        return jnp.zeros_like(self.available) if self.members is None else ~self.members

    @property
    def target(self) -> PerClient:
        """Share of each client in the objective, α."""
        return self.importance / jnp.sum(self.importance)

    def among(self, idle: Mask) -> View:
        """The view for a choice among these clients only, for example those that rest no more."""
        losses = None if self.losses is None else jnp.where(idle, self.losses, 0.0)
        return replace(self, available=self.available & idle, losses=losses)


class Ask(eqx.Module):
    """What a strategy asks of each client this round; zero copies means not asked."""

    copies: PerClient  # how often the client was drawn
    weight: PerClient  # factor of its update in the direction
    scale: PerClient  # factor of its local step length

    @classmethod
    def of(cls, wanted: Mask, weight: PerClient, scale: PerClient | None = None) -> Ask:
        """Ask each wanted client once."""
        copies = wanted.astype(weight.dtype)
        return cls(copies, weight, jnp.ones_like(weight) if scale is None else scale)


class Cohort(eqx.Module):
    """The ask packed into a fixed number of slots, some of them empty.

    Slots hold clients in increasing order. An empty slot has the id `num_clients`, one past the last client, which
    reads as zero and is never written. Three masks, each within the one before: clients that have `trained`, those that
    are `uploading`, and those whose update `arrived`.
    """

    ids: Int[Array, " slots"]
    uploading: SlotMask  # the client may upload: all that were asked, unless the strategy admits fewer
    copies: PerSlot
    weight: PerSlot
    scale: PerSlot
    arrived: SlotMask  # its upload came back; all false before delivery
    overflow: Int[Array, ""]  # asked clients without a slot; must be zero
    lr: PerSlot  # η of the round in which the client was asked, without its step scale
    age: PerSlot  # server steps since then; zero where every update is used in its own round
    waited: PerSlot  # ticks of time since then; likewise
    num_clients: int = eqx.field(static=True)

    @classmethod
    def pack(cls, ask: Ask, slots: int, lr: Scalar) -> Cohort:
        """Give each asked client a slot; `lr` is the learning rate of this round."""
        wanted = ask.copies > 0
        num_clients = wanted.shape[0]
        ids = first_indices(wanted, slots)
        filled = ids < num_clients

        def pick(values: PerClient) -> PerSlot:
            return values.at[ids].get(mode="fill", fill_value=0)

        overflow = jnp.sum(wanted, dtype=jnp.int32) - jnp.sum(filled, dtype=jnp.int32)
        return cls(
            ids=ids,
            uploading=filled,
            copies=pick(ask.copies),
            weight=pick(ask.weight),
            scale=pick(ask.scale),
            arrived=jnp.zeros_like(filled),
            overflow=overflow,
            lr=jnp.full(slots, lr, jnp.float32),
            age=jnp.zeros(slots),
            waited=jnp.zeros(slots),
            num_clients=num_clients,
        )

    def take(self, values: Shaped[Array, "clients ..."]) -> Shaped[Array, "slots ..."]:
        """Per-client values as per-slot ones, zero in empty slots."""
        return values.at[self.ids].get(mode="fill", fill_value=0)

    def put(self, rows: Shaped[Array, "slots ..."]) -> Shaped[Array, "clients ..."]:
        """Per-slot values as per-client ones, zero for clients whose upload did not arrive."""
        rows = where_rows(self.arrived, rows, jnp.zeros_like(rows))
        empty = jnp.zeros((self.num_clients, *rows.shape[1:]), rows.dtype)
        return empty.at[self.ids].set(rows, mode="drop")

    @property
    def factors(self) -> PerSlot:
        """Weight times copies: the factor of each update, as it was asked for."""
        return self.weight * self.copies

    @property
    def mask(self) -> Mask:
        """The clients whose update arrived."""
        return self.put(self.arrived)

    @property
    def trained(self) -> SlotMask:
        """The slots that hold a client, which was asked to train."""
        return self.ids < self.num_clients

    @property
    def asked(self) -> Mask:
        """The clients that may upload: all that were asked to train, unless the strategy admits fewer."""
        empty = jnp.zeros(self.num_clients, bool)
        return empty.at[self.ids].set(self.uploading, mode="drop")

    def speaking(self, reports: Reports) -> Cohort:
        """The cohort without updates of no work."""
        return replace(self, arrived=self.arrived & says_something(reports.reach, self.lr))

    def read(self, memory: Params) -> Params:
        """Rows of a memory with one row per client, zero in empty slots."""
        return jax.tree.map(self.take, memory)

    def write(self, memory: Params, before: Params, rows: Params, mask: SlotMask) -> Params:
        """The memory with the marked rows written; `before` is what `read` gave.

        It must be those same rows: otherwise, inside a loop, the compiler copies the whole memory every round.
        """

        def write_leaf(held: Array, old: Array, new: Array) -> Array:
            return held.at[self.ids].set(where_rows(mask, new, old), mode="drop")

        return jax.tree.map(write_leaf, memory, before, rows)

    def swap(self, memory: Params, rows: Params) -> tuple[Params, Params]:
        """Rows of an (N × model) memory before, and the memory with the arrived rows written."""
        old = self.read(memory)
        return old, self.write(memory, old, rows, self.arrived)


class Download(eqx.Module):
    """What a client is sent, or one row per slot."""

    model: Params  # x, from which it starts
    shared: PyTree = None  # what the strategy sends besides, the same to all, such as SCAFFOLD's c


class Work(eqx.Module):
    """What a client has done in one participation, or one row per slot."""

    update: Params  # Δ, the model after local work minus the model before
    lr: OneOrPerSlot  # η of the round in which it was asked, without its step scale
    reach: OneOrPerSlot  # ‖a‖₁ of the work
    t: OneOrPerSlot  # the round in which it was asked
    shared: PyTree = None  # as it was sent
    mean_gradient: Params | None = None  # of the raw gradients, where the client's side wants it
    last_gradient: Params | None = None  # likewise
    importance: OneOrPerSlot | float = 1.0  # α of the client, in the units of the server's


class Answer(eqx.Module):
    """What a client sends, or one row per slot."""

    update: Params  # Δ, or whatever the strategy takes in its place
    second: Params | None = None  # a second vector of the model's shape
    numbers: Array | None = None  # further numbers, which the client side names


class Reports(eqx.Module):
    """What came back, one row per slot, exactly zero where nothing arrived."""

    updates: Params  # Δ, the model after local work minus the model before
    losses: PerSlot  # mean loss during local work
    reach: PerSlot  # ‖a‖₁ of the work that was done
    second: Params | None = None  # the second vector of each answer, where clients send one
    starts: Params | None = None  # the models that were sent, where the strategy needs them and they were other ones
    lost: Params | None = None  # updates that did not arrive, zero elsewhere; only in simulations that need them
    numbers: Array | None = None  # the numbers of each answer, where clients send some

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        answers: Answer,
        losses: PerSlot,
        reach: PerSlot,
        starts: Params | None = None,
        keep_lost: bool = False,
    ) -> Reports:
        """What a cohort has sent, with every row that did not arrive set to zero, whatever it holds."""

        def keep(rows: Array) -> Array:
            return where_rows(cohort.arrived, rows, jnp.zeros_like(rows))

        def drop(rows: Array) -> Array:
            return where_rows(cohort.uploading & ~cohort.arrived, rows, jnp.zeros_like(rows))

        kept, lost = jax.tree.map(keep, answers), jax.tree.map(drop, answers.update) if keep_lost else None
        told = (keep(losses), keep(reach))
        return cls(kept.update, *told, kept.second, jax.tree.map(keep, starts), lost, kept.numbers)


class Move(eqx.Module):
    """How the model is to move: along the weighted sum of what arrived, or along another direction."""

    weight: PerSlot  # factor of each update; also for the records
    direction: Params | None = None  # for the server optimizer; Σ weight · update if not given


def where_rows(mask: SlotMask, yes: Shaped[Array, "slots ..."], no: Shaped[Array, "slots ..."]) -> Array:
    """`where` along the leading axis, so that a NaN in an unused row cannot leak."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (yes.ndim - 1)), yes, no)
