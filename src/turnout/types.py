"""The vocabulary of turnout as types: the fleet, what a server sees, what it asks for and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

__all__ = [
    "Array",
    "Ask",
    "Cohort",
    "Fleet",
    "Key",
    "Known",
    "Mask",
    "Params",
    "PerClient",
    "PerSlot",
    "PyTree",
    "RandomKey",
    "Reports",
    "Round",
    "Scalar",
    "Schedule",
    "SlotMask",
    "Steps",
    "View",
    "divide",
    "rate_at",
]

RandomKey = PRNGKeyArray
if TYPE_CHECKING:
    Params = Any  # what a PyTree is to a type checker
else:
    Params = PyTree[Shaped[Array, "..."]]
Scalar = float | int | Float[Array, ""] | Int[Array, ""]
Round = int | Int[Array, ""]
Schedule = Callable[[Round], Scalar]
PerClient = Float[Array, " clients"]
Mask = Bool[Array, " clients"]
Steps = Int[Array, " clients"]
PerSlot = Float[Array, " slots"]
SlotMask = Bool[Array, " slots"]


def divide(numerator: Array, denominator: Array, otherwise: float = 0.0) -> Array:
    """Quotient that is `otherwise`, never NaN, where the denominator is zero."""
    safe = jnp.where(denominator == 0, 1, denominator)
    return jnp.where(denominator == 0, otherwise, numerator / safe)


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


class Known(eqx.Module):
    """What is known of each client, true or estimated: a strategy cannot tell which."""

    pi: PerClient  # π, stationary availability
    lam: PerClient  # λ, second eigenvalue of the client's on/off chain
    success: PerClient  # 1 - q, probability that an upload arrives
    reach: PerClient  # ‖a‖₁, gradient mass of one update; the number of steps for plain SGD


class ClientMemory(eqx.Module):
    """How clients remember their own last update for the server, and send only what has changed.

    Updates are remembered per unit of learning rate, or also per unit of work. `fading`: what was sent in round l
    counts in round t by ((l + 1) / (t + 1))^fading.
    """

    fading: Scalar = 0.0
    per_work: bool = eqx.field(static=True, default=False)


class View(eqx.Module):
    """Everything that a strategy may use when it decides in round t."""

    t: Round
    importance: PerClient
    available: Mask
    known: Known
    lr: Scalar  # η, the local learning rate of this round
    losses: PerClient | None  # fresh loss of the available clients, if the strategy probes
    slots: int = eqx.field(static=True)
    watched: Mask | None = None  # clients whose availability is certain; None for all, as in simulations
    span: Scalar | None = None  # length of the last round, in usual rounds; None for one
    members: Mask | None = None  # the places that hold a client; all of them if not given

    @property
    def num_clients(self) -> int:
        """Number of places, vacant ones included."""
        return self.importance.shape[-1]

    @property
    def vacant(self) -> Mask:
        """The places that hold no client; none in simulations."""
        return jnp.zeros_like(self.available) if self.members is None else ~self.members

    @property
    def target(self) -> PerClient:
        """Share of each client in the objective, α."""
        return self.importance / jnp.sum(self.importance)


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
    reads as zero and is never written.
    """

    ids: Int[Array, " slots"]
    active: SlotMask  # the slot holds a client, not padding
    copies: PerSlot
    weight: PerSlot
    scale: PerSlot
    arrived: SlotMask  # its upload came back; all false before delivery
    overflow: Int[Array, ""]  # asked clients without a slot; must be zero
    num_clients: int = eqx.field(static=True)

    @classmethod
    def pack(cls, ask: Ask, slots: int) -> Cohort:
        wanted = ask.copies > 0
        num_clients = wanted.shape[0]
        ids = first_indices(wanted, slots)
        active = ids < num_clients

        def pick(values: PerClient) -> PerSlot:
            return values.at[ids].get(mode="fill", fill_value=0)

        overflow = jnp.sum(wanted, dtype=jnp.int32) - jnp.sum(active, dtype=jnp.int32)
        return cls(
            ids=ids,
            active=active,
            copies=pick(ask.copies),
            weight=pick(ask.weight),
            scale=pick(ask.scale),
            arrived=jnp.zeros_like(active),
            overflow=overflow,
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
    def mask(self) -> Mask:
        """The clients whose update arrived."""
        return self.put(self.arrived)

    @property
    def asked(self) -> Mask:
        """The clients that were asked to train."""
        empty = jnp.zeros(self.num_clients, bool)
        return empty.at[self.ids].set(self.active, mode="drop")

    def read(self, memory: Params) -> Params:
        """Rows of a memory with one row per client, zero in empty slots."""
        return jax.tree.map(self.take, memory)

    def write(self, memory: Params, before: Params, rows: Params, mask: SlotMask) -> Params:
        """The memory with the marked rows written; `before` is what `read` gave.

        It must be those same rows: otherwise, inside a loop, the compiler copies the whole memory every round.
        """

        def written(held: Array, old: Array, new: Array) -> Array:
            return held.at[self.ids].set(where_rows(mask, new, old), mode="drop")

        return jax.tree.map(written, memory, before, rows)

    def swap(self, memory: Params, rows: Params) -> tuple[Params, Params]:
        """Rows of an (N × model) memory before, and the memory with the arrived rows written."""
        old = self.read(memory)
        return old, self.write(memory, old, rows, self.arrived)


class Reports(eqx.Module):
    """What came back, one row per slot, exactly zero where nothing arrived."""

    updates: Params  # Δ, the model after local work minus the model before
    losses: PerSlot  # mean loss during local work
    reach: PerSlot  # ‖a‖₁ of the work that was done

    @classmethod
    def arrived(cls, cohort: Cohort, updates: Params, losses: PerSlot, reach: PerSlot) -> Reports:
        """Set every row that did not arrive to zero, whatever it holds."""

        def keep(rows: Any) -> Any:
            return where_rows(cohort.arrived, rows, jnp.zeros_like(rows))

        return cls(jax.tree.map(keep, updates), keep(losses), keep(reach))


def first_indices(mask: Mask, count: int) -> Int[Array, " slots"]:
    """Indices of the first `count` true entries, in order, padded with the length of the mask.

    Like `nonzero` with a size. A few out of many are looked up, many are dealt out. For a thousand of a million looking
    up is ten times faster, for half of a thousand forty times slower.
    """
    return _look_up(mask, count) if count * 64 < mask.shape[0] else _deal_out(mask, count)


def _look_up(mask: Mask, count: int) -> Int[Array, " slots"]:
    """Find the block of every rank, then its position in the block."""
    blocks = _in_blocks(mask, 64)
    totals = jnp.cumsum(jnp.sum(blocks, axis=1, dtype=jnp.int32))
    rank = jnp.arange(count, dtype=jnp.int32)
    block = jnp.searchsorted(totals, rank, side="right").astype(jnp.int32)
    block = jnp.minimum(block, totals.shape[0] - 1)
    before = jnp.where(block > 0, totals[block - 1], 0)
    inside = jnp.cumsum(blocks[block], axis=1, dtype=jnp.int32) <= (rank - before)[:, None]
    index = block * blocks.shape[1] + jnp.sum(inside, axis=1, dtype=jnp.int32)
    return jnp.where(rank < totals[-1], index, mask.shape[0])


def _deal_out(mask: Mask, count: int) -> Int[Array, " slots"]:
    """Number the true entries, in blocks since one long running sum is slow, and scatter each to its number."""
    length = mask.shape[0]
    inside = jnp.cumsum(_in_blocks(mask, 8), axis=1, dtype=jnp.int32)
    totals = inside[:, -1]
    before = jnp.cumsum(totals) - totals
    rank = (inside + before[:, None]).reshape(-1)[:length] - 1
    empty = jnp.full(count, length, jnp.int32)
    return empty.at[jnp.where(mask, rank, count)].set(jnp.arange(length, dtype=jnp.int32), mode="drop")


def _in_blocks(mask: Mask, width: int) -> Bool[Array, "blocks width"]:
    return jnp.pad(mask, (0, -mask.shape[0] % width)).reshape(-1, width)


def where_rows(mask: SlotMask, yes: Shaped[Array, "slots ..."], no: Shaped[Array, "slots ..."]) -> Array:
    """`where` along the leading axis, so that a NaN in an unused row cannot leak."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (yes.ndim - 1)), yes, no)
