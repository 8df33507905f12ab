"""What servers of different paces would make of the fleet of a log, and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool

from turnout import strategies
from turnout.auditor import audit
from turnout.paces import Buffered, Pace, Rounds
from turnout.server.facts import Online
from turnout.theory.time.arrivals import UsedUpdates, effective_in_time, weighing_efficiency
from turnout.theory.time.pace import pace_arrivals
from turnout.workbench.diagnosis.findings.all_findings import Findings
from turnout.workbench.diagnosis.findings.fedavg_weights import total_variation
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.fit import Fitted
from turnout.workbench.diagnosis.world.in_ticks import TimedWorld, timed_world
from turnout.workbench.diagnosis.world.links_and_steps import steps_of
from turnout.workbench.diagnosis.world.ranking import FAIR
from turnout.world import World, compute

SAMPLE_SIZE = 100  # clients of a larger fleet
QUORUMS = (0.5, 0.8, 0.9, 0.95, 1.0)
KEPT = (0.5, 0.9)  # quorums with late answers kept
BUFFER = 0.1  # of the clients that are there, which a step waits for
UNHEARD = 1e-3  # of what a client's share would be if the server waited, below which it is never heard
WORTHWHILE = 1.5  # times the useful updates of waiting for all, from which on another pace is recommended
NEARLY = 0.9  # of the best, which a buffer need only reach
AUDITED = 60  # times the longest work, in ticks, that an audit lasts at least
MOST_AUDITED = 40_000  # ticks


@dataclass(frozen=True)
class PaceCost:
    """One pace in the world of the log, by formula."""

    pace: str  # its name in an experiment
    options: dict[str, float | int | str]
    step_seconds: float  # time from one step of the server to the next
    used_per_hour: float  # updates
    useful_per_hour: float  # of these, what is left once weights are the target's; 0 if somebody is never heard
    off_target: float  # weight that FedAvg misplaces
    unheard: int  # clients that are never heard, of those that waiting for all would hear
    unheard_clients: Bool[np.ndarray, " clients"] | None  # None: a sample was taken
    age: float  # mean versions from start to use
    doubts: tuple[str, ...]

    def build(self) -> Pace:
        """The pace itself."""
        return (Rounds if self.pace == "rounds" else Buffered)(**self.options)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class PacedStrategy:
    """A strategy at the recommended pace, played."""

    strategy: str
    distance: float  # total variation of its effective weights from the target
    by_formula: float | None
    consistent: bool


@dataclass(frozen=True)
class Pacing:
    """The paces, and the recommendation."""

    costs: tuple[PaceCost, ...]
    recommended: PaceCost
    audited: tuple[PacedStrategy, ...]  # at the recommended pace; none if nothing was audited
    ticks: int  # of that audit
    tick_seconds: float
    sampled: int | None  # clients, if not all
    kind: str  # of the availability in ticks
    notes: tuple[str, ...]

    def of(self, quorum: float, late: str = "drop") -> PaceCost | None:
        """The cost of rounds with this quorum."""
        wanted = (quorum, late)
        return next(
            (cost for cost in self.costs if (cost.options.get("quorum"), cost.options.get("late")) == wanted), None
        )

    @property
    def waits_for_all(self) -> bool:
        """Whether waiting for all is recommended."""
        return self.recommended.options.get("quorum") == 1.0

    @property
    def strategy(self) -> PacedStrategy | None:
        """What to train with at the recommended pace: FedAvg if it is about right, else LastWord, else the nearest."""
        by_name = {one.strategy: one for one in self.audited}
        plain, usual = by_name.get("fedavg"), by_name.get("last_word")
        if plain is not None and (plain.consistent or plain.distance < FAIR):
            return plain
        if usual is not None and (usual.consistent or usual.distance < FAIR):
            return usual
        return min(self.audited, key=lambda one: one.distance, default=None)


def pacing(log: Log, findings: Findings, fitted: Fitted, rounds: int) -> Pacing | None:
    """Compare paces by formula, and audit strategies at the best one for at least `rounds` ticks, if not 0.

    None if the log does not say how long work takes.
    """
    if log.work is None or not findings.weights.target.sum() > 0:
        return None
    chosen = np.arange(log.num_clients)
    if log.num_clients > SAMPLE_SIZE:
        chosen = np.sort(np.random.default_rng(0).choice(log.num_clients, SAMPLE_SIZE, replace=False))
    world = timed_world(log, findings, fitted, chosen)
    target = findings.weights.target[chosen]
    if world is None or not target.sum() > 0:
        return None
    target, sampled = target / target.sum(), len(chosen) < log.num_clients
    costs = _costs(log, world, target, sampled)
    if not costs:
        return None
    best = _recommended(costs)
    audited, ticks = _audited(log, world, target, best, rounds)
    return Pacing(
        costs=costs,
        recommended=best,
        audited=audited,
        ticks=ticks,
        tick_seconds=world.durations.tick_seconds,
        sampled=len(chosen) if sampled else None,
        kind=world.kind,
        notes=world.notes,
    )


def _costs(log: Log, world: TimedWorld, target: np.ndarray, sampled: bool) -> tuple[PaceCost, ...]:
    """Every pace that has a formula here."""
    count = len(target)
    there = max(float(world.pi.sum()), 1.0)
    paces = [("rounds", {"quorum": quorum, "late": "drop"}) for quorum in QUORUMS]
    paces += [("rounds", {"quorum": quorum, "late": "keep"}) for quorum in KEPT]
    paces += [("buffered", {"size": int(np.clip(round(BUFFER * there), 1, count))})]
    law = world.durations.law(count)
    table = law.law(_steps(log, world))
    costs, heard = [], None
    for name, options in sorted(paces, key=lambda one: one[1].get("quorum") != 1.0):  # waiting for all comes first
        empty = PaceCost(name, options, 0.0, 0.0, 0.0, 0.0, 0, None, 0.0, ())
        try:
            arrivals = pace_arrivals(empty.build(), world.pi, world.lam, table, law.leaving)
        except ValueError:  # has no formula here, such as work of many thousand ticks
            continue
        heard = arrivals.shares if heard is None else heard
        costs.append(_cost(empty, arrivals, target, heard, world.durations.tick_seconds, sampled, log.num_clients))
    order = {(name, *options.values()): place for place, (name, options) in enumerate(paces)}
    return tuple(sorted(costs, key=lambda cost: order[cost.pace, *cost.options.values()]))


def _cost(
    empty: PaceCost,
    arrivals: UsedUpdates,
    target: np.ndarray,
    heard: np.ndarray,
    tick: float,
    sampled: bool,
    num_clients: int,
) -> PaceCost:
    per_hour = 3600 / tick
    unheard = (arrivals.shares < UNHEARD * heard) & (target > 0)
    useful = 0.0 if unheard.any() else float(arrivals.rates.sum()) * per_hour * weighing_efficiency(arrivals, target)
    weights = effective_in_time(arrivals, target, average=empty.pace == "rounds")
    return replace(
        empty,
        step_seconds=float(arrivals.ticks_per_step) * tick,
        used_per_hour=float(arrivals.rates.sum()) * per_hour,
        useful_per_hour=useful,
        off_target=total_variation(weights, target),
        unheard=round(float(unheard.mean()) * num_clients),
        unheard_clients=None if sampled else unheard,
        age=float(arrivals.shares @ arrivals.age),
        doubts=arrivals.doubts,
    )


def _recommended(costs: tuple[PaceCost, ...]) -> PaceCost:
    """Waiting for all where that costs little, else a buffer if it is about the best, else the best."""
    best = max(costs, key=lambda cost: cost.useful_per_hour)
    waiting = next((cost for cost in costs if cost.options.get("quorum") == 1.0), None)
    if waiting is not None and best.useful_per_hour < WORTHWHILE * waiting.useful_per_hour:
        return waiting
    buffered = next((cost for cost in costs if cost.pace == "buffered"), best)
    return buffered if buffered.useful_per_hour >= NEARLY * best.useful_per_hour else best


def _audited(
    log: Log, world: TimedWorld, target: np.ndarray, best: PaceCost, rounds: int
) -> tuple[tuple[PacedStrategy, ...], int]:
    """FedAvg, FedAU and LastWord at the recommended pace, by a server that estimates what it needs."""
    if rounds == 0:
        return (), 0
    steps = _steps(log, world)
    law = world.durations.law(len(target))
    longest = float(law.mean(steps).max()) + best.step_seconds / world.durations.tick_seconds
    ticks = int(min(max(rounds, AUDITED * longest), MOST_AUDITED))
    played = World(world.process(), None, compute.per_client(len(target), steps.tolist()), durations=law)
    candidates = {"fedavg": strategies.FedAvg(), "fedau": strategies.FedAU(), "last_word": strategies.LastWord()}
    found = audit(played, candidates, importance=target.tolist(), facts=Online(), rounds=ticks, pace=best.build())
    paced = [PacedStrategy(one.label, one.total_variation, one.off_by_formula, one.consistent) for one in found.entries]
    return tuple(paced), found.rounds


def _steps(log: Log, world: TimedWorld) -> np.ndarray:
    """Local steps of the world's clients, 1 if the log does not say."""
    steps = steps_of(log)
    return np.ones(len(world.clients), np.int64) if steps is None else steps[world.clients]
