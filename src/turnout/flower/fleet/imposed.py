"""Absences drawn from an availability process, for an engine in which every node is always available."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flwr.serverapp import Grid

from turnout.availability import Process
from turnout.declarations import Seed, checked
from turnout.flower.settings import Waiting
from turnout.flower.wire.retries import PollingGrid
from turnout.world import World


class ImposedGrid(PollingGrid):
    """Another grid, of which each round shows only the nodes that are available by an availability process.

    Nodes are the clients of the process in the order of their numbers, newcomers after earlier nodes. Absences equal
    those of a simulation with the same seed, also if a training continues from a checkpoint.
    """

    @checked
    def __init__(self, grid: Grid, process: Process, seed: Seed = 0, waiting: Waiting | None = None) -> None:
        super().__init__(grid, waiting)
        self._world, self._root, self._t = World(process), jr.key(seed), 0
        self._state = self._world.init(self._root)
        self._step = eqx.filter_jit(self._world.step)
        self._places: dict[int, int] = {}
        self._mask = np.ones(process.num_clients, bool)

    def begin_round(self, t: int) -> None:
        while self._t < t:
            self._state, nature = self._step(self._state, self._root, jnp.asarray(self._t, jnp.int32))
            self._mask, self._t = np.asarray(nature.available), self._t + 1

    def get_nodes(self) -> list[Any]:
        nodes = list(super().get_nodes())
        self._seat(node.node_id for node in nodes)
        return [node for node in nodes if self._mask[self._places[node.node_id]]]

    def get_node_ids(self) -> list[int]:
        nodes = list(super().get_node_ids())
        self._seat(nodes)
        return [node for node in nodes if self._mask[self._places[node]]]

    @property
    def takes_time(self) -> bool:
        """Imposed absences take no time."""
        return not self._places

    def _seat(self, nodes: Iterable[int]) -> None:
        for node in sorted(nodes):
            self._places.setdefault(node, len(self._places))
        if len(self._places) > len(self._mask):
            raise ValueError(f"the process has {len(self._mask)} clients, but there are {len(self._places)} nodes")
