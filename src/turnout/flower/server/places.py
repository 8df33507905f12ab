"""Places of clients on the server: spare ones, so that newcomers compile nothing, and states without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np

from turnout.flower.wire.layout import Arrays, named_leaves, with_leaves
from turnout.server.server import Server, ServerState
from turnout.server.tally import Tally
from turnout.strategies.base import Strategy
from turnout.types import Fleet, Params

_LEAST, _MOST = 1e-30, 1e30  # importance of one client: 32 bits hold it, and the sum of any fleet
WORTHS = f"a number from {_LEAST:g} to {_MOST:g}"  # for errors to say


def can_count(worth: object) -> bool:
    """Whether a number can be the importance of a client."""
    return isinstance(worth, int | float) and _LEAST <= worth <= _MOST


def num_places(strategy: Strategy, count: int) -> int:
    """A power of two, so that few programs serve all sizes of a fleet; the size itself where the strategy fixes it."""
    return count if strategy.fixes_fleet_size else 1 << (count - 1).bit_length()


def fleet_of(by_place: Sequence[str | None], importance: Sequence[float], count: int) -> Fleet:
    """The fleet on so many places: vacant are those at the end, and those that clients have left."""
    worths, members = np.zeros(count, np.float32), np.zeros(count, bool)
    worths[: len(importance)] = importance
    members[: len(by_place)] = [name is not None for name in by_place]
    return Fleet(*jax.device_put((worths, members)))


def leaves_of(server: Server, state: ServerState, tally: Tally, count: int) -> Arrays:
    """Every array of the state and of the sums by its path, with rows for the first `count` places only."""
    has_rows = server.has_rows(state.params)
    parts = jax.tree.map(
        lambda leaf, cut: np.asarray(leaf)[:count] if cut else leaf, (state.strategy, state.facts), has_rows
    )
    tally = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], tally)
    return named_leaves((replace(state, strategy=parts[0], facts=parts[1]), tally))


def from_leaves(
    server: Server, params: Params, count: int, leaves: Mapping[str, np.ndarray]
) -> tuple[ServerState, Tally]:
    """The state and the sums whose rows for `count` places are these; a ValueError if they do not fit."""
    fleet = jax.tree.map(lambda values: values[:count], server.fleet)
    small = replace(server, fleet=fleet)
    template = jax.eval_shape(lambda params: (small.init(params), Tally.empty(count)), params)
    state, tally = with_leaves(template, leaves)
    return server.grow(state, count), tally.grow(server.fleet.num_clients)
