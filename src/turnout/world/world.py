"""Availability, links and compute in one object, with key streams of their own."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax.random as jr
import numpy as np

from turnout.availability.base import ErgodicProcess, Process
from turnout.declarations import Declared, NumRounds, checked
from turnout.streams import Stream, round_key
from turnout.types import Cohort, Law, Mask, PerClient, RandomKey, Round, Steps
from turnout.world import compute as computes
from turnout.world import durations as all_durations
from turnout.world import links as all_links


class Nature(eqx.Module):
    """What nature decided for one round."""

    available: Mask  # A_t
    delivers: Mask  # the clients whose upload would arrive
    success: PerClient  # the probability of that, 1 - q
    steps: Steps  # local steps each client can do
    durations: Steps | None = None  # ticks beyond this one that work takes if it starts now; None for zero

    def deliver(self, cohort: Cohort) -> Cohort:
        """The cohort, with the clients whose upload arrives marked as arrived."""
        return replace(cohort, arrived=cohort.uploading & cohort.take(self.delivers))


class WorldState(eqx.Module):
    """What nature remembers."""

    availability: Any
    links: Any


class World(Declared):
    """Everything that a strategy cannot change, and so the same for every strategy compared.

    By default uploads always arrive and every client does five local steps. `compute` may be a whole number of steps.
    With `durations` work takes time, and one step of the world is a tick of it; a whole number is that many ticks
    beyond the first, for all clients. Without, all work ends in the round in which it starts.
    """

    example: ClassVar[str] = "World(availability.two_classes(10))"

    availability: Process[Any]
    links: all_links.Links
    compute: computes.Compute
    durations: all_durations.Durations | None = None

    @checked
    def __init__(
        self,
        availability: Process[Any],
        links: all_links.Links | None = None,
        compute: computes.Compute | NumRounds = 5,
        durations: all_durations.Durations | int | None = None,
    ) -> None:
        count = availability.num_clients
        self.availability = availability
        self.links = all_links.perfect(count) if links is None else links
        self.compute = computes.fixed(count, compute) if isinstance(compute, int) else compute
        self.durations = all_durations.as_durations(durations, count)
        if links is not None:
            _check_count("links", _links_clients(self.links), count)
        if not isinstance(compute, int):
            _check_count("compute", _compute_clients(self.compute), count)
        if self.durations is not None:
            _check_count("durations", self.durations.num_clients, count)

    @property
    def num_clients(self) -> int:
        return self.availability.num_clients

    def init(self, root: RandomKey) -> WorldState:
        def key(which: int) -> RandomKey:
            return round_key(root, Stream.WORLD_START, which)

        return WorldState(self.availability.init(key(0)), self.links.init(key(1)))

    def step(self, state: WorldState, root: RandomKey, t: Round) -> tuple[WorldState, Nature]:
        """State and decisions of round t, for t = 0, 1, 2, … in turn."""
        process, available = self.availability.step(state.availability, t, round_key(root, Stream.AVAILABILITY, t))
        links, delivers, success = self.links.step(state.links, t, round_key(root, Stream.LINKS, t))
        steps = self.compute.step(t, round_key(root, Stream.COMPUTE, t))
        lasting = None
        if self.durations is not None:
            lasting = self.durations.step(t, steps, round_key(root, Stream.DURATIONS, t))
        return WorldState(process, links), Nature(available, delivers, success, steps, lasting)

    def mean_ticks(self) -> np.ndarray | None:
        """Ticks that work of each client takes on average, the first included; None where work takes no time.

        In a fleet of more than 5,000 clients None, too: the laws of all of them would take much memory.
        """
        if self.durations is None or self.num_clients > _MOST_LAWS:
            return None
        steps = self.compute.mean_of(np.arange(self.compute.most + 1, dtype=np.float64))
        return 1.0 + self.durations.mean(np.broadcast_to(steps, (self.num_clients,)))

    def law(self) -> Law | None:
        """The stationary law of the availability, None if it has none."""
        if not isinstance(self.availability, ErgodicProcess):
            return None
        return Law(self.availability.stationary(), self.availability.correlation())


_MOST_LAWS = 5_000


def _check_count(name: str, described: int, count: int) -> None:
    if described != count:
        raise ValueError(f"{name} describes {described} clients, but the availability {count}: they must be as many")


def _links_clients(links: all_links.Links) -> int:
    key = jr.key(0)
    return eqx.filter_eval_shape(lambda: links.step(links.init(key), 0, key)[1]).shape[0]


def _compute_clients(compute: computes.Compute) -> int:
    return eqx.filter_eval_shape(lambda: compute.step(0, jr.key(0))).shape[0]
