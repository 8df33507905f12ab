"""Places of clients on the server: who is at each, how much it counts, and spare ones for newcomers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.fleet.directory import Directory
from turnout.flower.wire.layout import Arrays, named_leaves, with_leaves
from turnout.server.places import grow, has_rows
from turnout.server.server import Server, ServerState
from turnout.server.tally import Tally
from turnout.strategies.base import Strategy
from turnout.types import Array, Fleet, Params, PyTree

_LISTING = ".facts.listing"
_LEAST, _MOST = 1e-30, 1e30  # importance of one client: 32 bits hold it, and the sum of any fleet
WORTHS = f"a number from {_LEAST:g} to {_MOST:g}"  # for errors to say


def can_count(worth: object) -> bool:
    """Whether a number can be the importance of a client."""
    return isinstance(worth, int | float) and _LEAST <= worth <= _MOST


class Places:
    """The directory of clients with the importance of each; spare places, so that newcomers compile nothing."""

    def __init__(self, strategy: Strategy, fleet: Sequence[tuple[str | None, float]] = ()) -> None:
        self.directory = Directory(name for name, _ in fleet)
        self.importance = tuple(float(worth) for _, worth in fleet)
        self._strategy = strategy

    @property
    def count(self) -> int:
        """A power of two, so that few programs serve all sizes of a fleet; the size itself if the strategy fixes it."""
        used = len(self.importance)
        return used if self._strategy.fixes_fleet_size else 1 << (used - 1).bit_length()

    @property
    def taken(self) -> list[int]:
        """The place of each client, in the order of the directory's names; vacant places are left out."""
        return self.find(self.directory.names)

    def find(self, names: Iterable[str]) -> list[int]:
        """The places of these clients."""
        return [self.directory.place(name) for name in names]

    def worth(self, name: str) -> float:
        """How much a client counts."""
        return self.importance[self.directory.place(name)]

    def share(self, name: str) -> float:
        """Share of a client in the target."""
        return self.worth(name) / sum(self.importance)

    def mask(self, chosen: Collection[int]) -> Array:
        """These places as a mask over all of them, vacant ones included."""
        mask = np.zeros(self.count, bool)
        mask[list(chosen)] = True
        return jnp.asarray(mask)

    def column(self, values: Mapping[str, float]) -> Array:
        """Values of clients, one entry per place, zero elsewhere."""
        column = np.zeros(self.count, np.float32)
        column[self.find(values)] = list(values.values())
        return jnp.asarray(column)

    def fleet(self) -> Fleet:
        """The fleet on all places: vacant are those at the end, and those that clients have left."""
        by_place, importance = self.directory.by_place, self.importance
        worths, members = np.zeros(self.count, np.float32), np.zeros(self.count, bool)
        worths[: len(importance)] = importance
        members[: len(by_place)] = [name is not None for name in by_place]
        return Fleet(*jax.device_put((worths, members)))

    def check(self, new: Mapping[str, float]) -> None:
        """Raise a ValueError if the strategy cannot serve the fleet with these newcomers."""
        worths = [*(worth for worth in self.importance if worth > 0), *new.values()]
        self._strategy.check(Fleet(jax.device_put(np.array(worths, np.float32))))

    def assign(self, importance: Mapping[int, float]) -> None:
        """Set the importance of some places, which may be new ones at the end."""
        worths = dict(enumerate(self.importance)) | dict(importance)
        self.importance = tuple(worths[place] for place in sorted(worths))

    def weigh(self, importance: Mapping[str, float]) -> bool:
        """Set the importance of some clients; returns whether any counts differently now."""
        before = self.importance
        known = {name: float(worth) for name, worth in importance.items() if name in self.directory}
        self.assign(dict(zip(self.find(known), known.values(), strict=True)))
        return self.importance != before


def leaves_of(server: Server, state: ServerState, tally: Tally, count: int) -> Arrays:
    """Every array of the state and of the sums by its path, with rows for the first `count` places only."""
    parts = (state.strategy, state.facts, state.rest)
    strategy, facts, rest = jax.tree.map(
        lambda leaf, cut: np.asarray(leaf)[:count] if cut else leaf, parts, has_rows(server, state.params)
    )
    tally = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], tally)
    rest = None if rest is None else jnp.asarray(rest)
    return named_leaves((replace(state, strategy=strategy, facts=facts, rest=rest), tally))


def from_leaves(
    server: Server, params: Params, count: int, leaves: Mapping[str, np.ndarray]
) -> tuple[ServerState, Tally]:
    """The state and the sums whose rows for `count` places are these; a ValueError if they do not fit."""
    fleet = jax.tree.map(lambda values: values[:count], server.fleet)
    small = replace(server, fleet=fleet)
    template = jax.eval_shape(lambda params: (small.init(params), Tally.empty(count)), params)
    # Checkpoints of version 0.1 do not count what being listed says.
    missing = {name: leaf for name, leaf in _named_shapes(template).items() if _LISTING in name and name not in leaves}
    leaves = {**leaves, **{name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in missing.items()}}
    try:
        state, tally = with_leaves(template, leaves)
    except ValueError as error:
        raise ValueError(f"{error} (another model, another version of turnout, or other settings)") from error
    return grow(server, state, count), tally.grow(server.fleet.num_clients)


def _named_shapes(template: PyTree) -> dict[str, jax.ShapeDtypeStruct]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(template)[0]}
