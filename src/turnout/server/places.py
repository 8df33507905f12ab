"""Places of a fleet on real nodes: clients join it, leave it for good, and their places are given to others.

Simulations have a fixed fleet and need none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout.server.server import Server, ServerState
from turnout.strategies.last_updates import Sums, Words
from turnout.types import Answer, Fleet, Mask, Params, PerClient, PyTree, where_rows


def grow(server: Server, state: ServerState, num_before: int) -> ServerState:
    """State for a fleet that clients have joined: the old clients keep theirs, the new ones start afresh.

    `server` is that of the larger fleet, whose first `num_before` clients are the old ones.
    """

    def carry_over(old: Array, new: Array) -> Array:
        return old if old.shape == new.shape else new.at[:num_before].set(old)

    return _with_parts(state, jax.tree.map(carry_over, _parts(state), _parts(server.init(state.params))))


def renew(server: Server, state: ServerState, places: Mask) -> ServerState:
    """State in which these places are as before a client's first round, for clients that join or have left."""

    def reset(old: Array, new: Array, has_row: bool) -> Array:
        return where_rows(places, new, old) if has_row else old

    fresh = server.init(state.params)
    return _with_parts(state, jax.tree.map(reset, _parts(state), _parts(fresh), has_rows(server, state.params)))


def take_back(server: Server, state: ServerState, place: Int[Array, ""], said: Answer) -> ServerState:
    """State after the goodbye of the client at this place, which takes its word out of the sum that the server holds.

    Where the server holds the words themselves, `vacate` does that, and nobody need say anything.
    """
    if not any(map(is_sum, words_in(state.strategy))):
        name = type(server.strategy).__name__
        raise ValueError(f"{name} has no sum of words that its clients keep: a client that leaves has nothing to say")

    def without(words: Words | Sums) -> Words | Sums:
        return words.take_back(place, said) if is_sum(words) else words

    return replace(state, strategy=_map_words(without, state.strategy))


def vacate(server: Server, state: ServerState, places: Mask) -> ServerState:
    """State after the clients at these places have left; `server` is that of the fleet without them.

    Words that clients keep themselves stay in the sum, unless they were taken back before.
    """
    state = renew(server, state, places)
    return replace(state, strategy=_map_words(_recount, state.strategy))


def has_rows(server: Server, params: Params) -> PyTree:
    """For each array that belongs to strategy, facts or rests: whether it has one row per client.

    That is so if one client more makes it larger. A length alone proves nothing: a model's may be the same.
    """

    def shapes(num_clients: int) -> PyTree:
        importance = jax.ShapeDtypeStruct((num_clients,), server.fleet.importance.dtype)

        def parts(importance: PerClient, params: Params) -> PyTree:
            other = replace(server, fleet=Fleet(importance, jnp.ones(num_clients, bool)))
            return _parts(other.init(params))

        return jax.eval_shape(parts, importance, params)

    count = server.fleet.num_clients
    return jax.tree.map(lambda one, other: one.shape != other.shape, shapes(count), shapes(count + 1))


def _parts(state: ServerState) -> tuple[PyTree, PyTree, PyTree]:
    """What may have rows of clients."""
    return state.strategy, state.facts, state.rest


def _with_parts(state: ServerState, parts: tuple[PyTree, PyTree, PyTree]) -> ServerState:
    strategy, facts, rest = parts
    return replace(state, strategy=strategy, facts=facts, rest=rest)


def _is_words(part: PyTree) -> bool:
    return isinstance(part, Words | Sums)


def _recount(words: Words | Sums) -> Words | Sums:
    return words.recount() if isinstance(words, Words) else words


def is_sum(words: Words | Sums) -> bool:
    """Whether the words themselves are with the clients."""
    return isinstance(words, Sums) or words.rows is None


def words_in(state: PyTree) -> list[Words | Sums]:
    """The memories in the state of a strategy."""
    return [part for part in jax.tree.leaves(state, is_leaf=_is_words) if _is_words(part)]


def _map_words(change: Callable[[Words | Sums], Words | Sums], state: PyTree) -> PyTree:
    """The state of a strategy with each memory in it changed."""
    return jax.tree.map(lambda part: change(part) if _is_words(part) else part, state, is_leaf=_is_words)
