"""The server's round as compiled functions, between which real clients work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout.flower.wire.layout import Arrays
from turnout.server.server import Closed, Server, ServerState
from turnout.server.tally import Tally
from turnout.simulator.local import Local
from turnout.streams import Stream, client_seeds, round_key
from turnout.types import Array, Cohort, Params, Reports, View


@dataclass(frozen=True)
class Order:
    """What one client is asked to do in a round."""

    client: str
    find_start: Callable[[], Arrays] = field(repr=False)
    rate: float  # η times the step scale
    scale: float  # factor of its step length, in `rate` already
    weight: float  # factor of its update in the direction, as known before the replies
    seed: int  # 32 bits that belong to this client and round
    upload_seed: int  # 32 more, for the transform of its update
    acknowledged: int  # round of its last update that arrived, counted from 1; 0 before the first

    @property
    def start(self) -> Arrays:
        """The model to start from, not to be written to; good until the reply of this client is checked."""
        return self.find_start()


@dataclass(frozen=True)
class RoundRecord:
    """The result of a round."""

    t: int
    available: tuple[str, ...]
    asked: tuple[str, ...]
    uploads: tuple[str, ...]  # asked, available, and admitted if the strategy admits only some
    arrived: tuple[str, ...]
    weights: dict[str, float]  # of the updates that arrived
    steady: bool  # false if the replies would have made the model infinite, and all were dropped
    unknown: tuple[str, ...] = ()  # listed, but not asked or still busy: available or not, nobody knows
    members: tuple[str, ...] = ()  # the whole fleet
    late: tuple[str, ...] = ()  # arrived with an update that was asked for in an earlier round
    steps: float = 0.0  # local work that was reported
    loss: float | None = None  # mean of the losses reported with the updates, weighted by the target
    bytes_uploaded: int = 0  # in all arrays that were received, dropped ones included

    def summary(self) -> dict[str, int | float]:
        """Numbers of the round, named as in Flower's log."""
        counts = {name: len(getattr(self, name)) for name in ("available", "asked", "uploads", "arrived", "late")}
        sums = {"weight-sum": sum(self.weights.values()), "bytes-uploaded": self.bytes_uploaded}
        return {**counts, **sums} | ({} if self.loss is None else {"loss": self.loss})


class ClosedRound(eqx.Module):
    """The state after a round, and whether it is valid."""

    closed: Closed
    cohort: Cohort
    steady: Array  # whether everything is still finite


Opened = tuple[View, Cohort, ServerState, tuple[Array, Array], Array]


@eqx.filter_jit(donate="all-except-first")
def open_round(inputs: tuple[Server, Local, Array, Array, Array | None, Array], state: ServerState) -> Opened:
    """View, cohort, state, two seeds per slot, and η; the state is donated, else gigabytes of memory would be copied.

    Inputs are server, clients' optimizer, t, who is available, the losses of a probe, and the root of all keys.
    """
    server, local, t, available, losses, root = inputs
    rate = jnp.asarray(local.rate(t), jnp.float32)
    view = server.view(state, t, available, rate, None, losses)
    cohort, state = server.ask(state, view, root)
    train, upload = (client_seeds(round_key(root, stream, t), cohort.ids) for stream in (Stream.TRAIN, Stream.UPLOAD))
    return view, cohort, state, (train, upload), rate


@eqx.filter_jit
def starts(server: Server, state: ServerState, places: Array) -> Params:
    """The models from which the clients at these places start, one row per client."""
    return jax.vmap(lambda place: server.strategy.start(state.strategy, state.params, place))(places)


@eqx.filter_jit
def words(root: Array, stream: Stream, t: Array, places: Array) -> Array:
    return client_seeds(round_key(root, stream, t), places)


@eqx.filter_jit
def admit(server: Server, state: ServerState, view: View, cohort: Cohort, norms: Array, root: Array) -> Cohort:
    return server.admit(state, view, cohort, norms, root)


@eqx.filter_jit
def close(
    server: Server,
    state: ServerState,
    view: View,
    cohort: Cohort,
    tally: Tally,
    updates: Params,
    losses: Array,
    reach: Array,
    came: Array,
) -> ClosedRound:
    """Close the round; rows of slots that are not active, or did not arrive, must be zero.

    The state is not donated: it is kept if the next one is not finite.
    """
    cohort = replace(cohort, arrived=cohort.active & came)
    reports = Reports(updates, losses, reach)
    closed = server.close(state, view, cohort, reports, tally)
    floats = [leaf for leaf in jax.tree.leaves(closed.state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    steady = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in floats]))
    return ClosedRound(closed, cohort, steady)


@eqx.filter_jit(donate="all-except-first")
def renew(inputs: tuple[Server, Tally, Array, Array, bool], state: ServerState) -> tuple[ServerState, Tally]:
    """State and sums in which some places are as before a client's first round; the state is donated.

    Inputs are the server of the fleet as it is now, the sums, t, the places, and whether clients have left them.
    """
    server, tally, t, places, left = inputs
    state = server.vacate(state, places) if left else server.renew(state, places)
    return state, tally.renew(t, places)


@eqx.filter_jit
def model(server: Server, state: ServerState) -> Params:
    return server.model(state)
