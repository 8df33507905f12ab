"""Which strategies would meet the target in a world like that of the log: an audit of the fitted world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from turnout import strategies
from turnout.auditor import Audited, audit
from turnout.availability.base import Process
from turnout.server.facts import Online
from turnout.strategies.base import Strategy
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.fit import Fitted
from turnout.workbench.diagnosis.world.likeness import part
from turnout.workbench.diagnosis.world.links_and_steps import steps_of, success_of
from turnout.world import World, compute, links

ROUNDS = 4000
MAX_CLIENTS = 5000  # of a larger fleet, a sample is audited
SAMPLE_SIZE = 2000
FAIR = 0.05  # total variation below which plain averaging is about right
PLAIN, USUAL = "fedavg", "last_word"  # enough where all clients are alike; the answer elsewhere
# Strategies that need only what a server sees for itself, one of each kind.
CANDIDATES = {
    PLAIN: strategies.FedAvg(),
    USUAL: strategies.LastWord(),
    "unbiased": strategies.Unbiased(),
    "adafed": strategies.AdaFed(),
    "fedau": strategies.FedAU(),
    "debiased": strategies.Debiased(),
    "mifa": strategies.MIFA(),
    "fedvarp": strategies.FedVARP(),
    "fedawe": strategies.FedAWE(),
}


@dataclass(frozen=True)
class Rank:
    """One strategy in the fitted world."""

    strategy: str  # its name in an experiment
    distance: float  # total variation of its effective weights from the target
    by_chance: float  # distance expected from chance alone
    consistent: bool  # whether the distance can be chance
    unsteady: float  # standard deviation of the total weight per round, over its mean
    memory: str  # what the server must keep, in words
    note: str = ""  # in which worlds it is consistent in theory
    remembers_models: bool = False  # whether the server must keep a model or an update per client


@dataclass(frozen=True)
class Ranking:
    """The strategies, fair and steady ones first."""

    ranks: tuple[Rank, ...]
    rounds: int
    clients: int  # audited; a sample of a large fleet
    by_chance: float = 0.0  # most that FedAvg is off in a log as long where all clients come equally often

    @property
    def best(self) -> Rank:
        return self.ranks[0]

    @property
    def recommended(self) -> Rank:
        """FedAvg where it is about right or off by chance, else LastWord where that is fair, else the best."""
        fair = {rank.strategy: rank for rank in self.ranks if rank.consistent}
        plain = self.rank_of(PLAIN)
        near = plain if plain is not None and self.beyond_chance(plain.distance) < FAIR else None
        return fair.get(PLAIN) or near or fair.get(USUAL) or self.best

    def beyond_chance(self, distance: float) -> float:
        """What is left of a distance without chance: the rates of the fitted world err as those of the log do."""
        return float(np.sqrt(max(distance**2 - self.by_chance**2, 0.0)))

    @property
    def without_models(self) -> Rank | None:
        """The best fair strategy that keeps no model per client; None if there is none."""
        return next((rank for rank in self.ranks if rank.consistent and not rank.remembers_models), None)

    def rank_of(self, strategy: str) -> Rank | None:
        """The rank of a strategy, if it was audited."""
        return next((rank for rank in self.ranks if rank.strategy == strategy), None)


def rank(
    log: Log,
    fitted: Fitted,
    target: np.ndarray,
    rounds: int = ROUNDS,
    candidates: Mapping[str, Strategy] = MappingProxyType(CANDIDATES),
    by_chance: float = 0.0,
) -> Ranking | None:
    """Audit the candidates in the fitted world; None if a large fleet cannot be sampled.

    The server knows nothing in advance: it estimates rates from what it sees. Lost uploads and local steps are those of
    the log, if it has them. `by_chance` is the most that a log is off by chance.
    """
    chosen = np.arange(fitted.num_clients)
    if fitted.num_clients > MAX_CLIENTS:
        if fitted.kind == "minimum_separation":
            return None  # clients take turns, so a sample is another fleet
        chosen = np.sort(np.random.default_rng(0).choice(fitted.num_clients, SAMPLE_SIZE, replace=False))
        fitted = part(fitted, chosen)
    importance = np.asarray(target, np.float64)[chosen]
    if not importance.sum() > 0:
        return None
    world = _world(log, fitted.process(), chosen)
    result = audit(world, candidates, importance=importance.tolist(), facts=Online(), rounds=rounds)
    return Ranking(tuple(_rank(entry) for entry in result.ranked()), result.rounds, len(chosen), by_chance)


def _rank(entry: Audited) -> Rank:
    return Rank(
        strategy=entry.label,
        distance=entry.total_variation,
        by_chance=entry.noise,
        consistent=entry.consistent,
        unsteady=entry.step_variation,
        memory=entry.strategy.server_memory,
        note=entry.strategy.consistent,
        remembers_models=entry.strategy.remembers_models,
    )


def _world(log: Log, process: Process, chosen: np.ndarray) -> World:
    """The fitted process with the lost uploads and steps of the log; without steps, all clients do one."""
    success, steps = success_of(log), steps_of(log)
    lossy = None if success is None else links.bernoulli(len(chosen), success[chosen].tolist())
    return World(process, lossy, 1 if steps is None else compute.per_client(len(chosen), steps[chosen].tolist()))
