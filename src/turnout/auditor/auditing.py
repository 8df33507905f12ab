"""Which clients a strategy trains for in a world, found in seconds, without data and without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from turnout.auditor.exact import exact_weights
from turnout.auditor.results import Audit, Audited
from turnout.auditor.voting import BURN_IN, SEGMENTS, Votes, local_rates, play_trials
from turnout.server.facts import Facts
from turnout.server.settings import ServerSettings
from turnout.simulator import chosen_seeds
from turnout.simulator.local import Local
from turnout.simulator.trial import Trial, check_trial_in_fleet
from turnout.strategies.base import Strategy
from turnout.types import Fleet
from turnout.uploads import Plain
from turnout.world import World

ROUNDS = 10_000
SELDOM = 10  # arrivals below which a client's share cannot be told


def audit(
    world: World,
    strategies: Strategy | Sequence[Strategy] | Mapping[str, Strategy],
    *,
    importance: Sequence[float] | None = None,
    rounds: int = ROUNDS,
    seeds: int | Sequence[int] = 1,
    local: Local | None = None,
    facts: Facts | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Play the server's decisions only, and say how much every client counts.

    Args:
        world: who is available, whose uploads arrive, how much local work is done.
        strategies: one, several, or several by name.
        importance: how much each client should count, up to a common factor; all alike if not given.
        rounds: T, rounded up to whole segments.
        seeds: how many seeds, or which ones; each is one more run.
        local: the clients' optimizer, whose reach counts; plain SGD if not given.
        facts: what the server knows of π, λ, links and reach; the truth if not given.
        progress: called with strategies done and strategies in all.

    """
    if isinstance(strategies, Strategy):
        strategies = [strategies]
    named = strategies if isinstance(strategies, Mapping) else {_label(s, strategies): s for s in strategies}
    worth = np.ones(world.num_clients) if importance is None else np.asarray(importance, np.float64)
    if worth.shape != (world.num_clients,) or not (np.isfinite(worth) & (worth >= 0)).all() or not worth.sum() > 0:
        raise ValueError(f"importance must be {world.num_clients} numbers of 0 or more, one a client, not all zero")
    works, settings = Local() if local is None else local, ServerSettings(facts=facts)
    trials = {label: Trial(strategy, world, works, settings) for label, strategy in named.items()}
    return audit_trials(Fleet(jnp.asarray(worth, jnp.float32)), trials, rounds=rounds, seeds=seeds, progress=progress)


def _label(strategy: Strategy, all_of_them: Sequence[Strategy]) -> str:
    """The class, and which one of them if there are several."""
    name = type(strategy).__name__
    same = [other for other in all_of_them if type(other).__name__ == name]
    place = next(number for number, other in enumerate(same, start=1) if other is strategy)
    return name if len(same) == 1 else f"{name} {place}"


def audit_trials(
    fleet: Fleet,
    trials: Mapping[str, Trial],
    *,
    rounds: int = ROUNDS,
    seeds: int | Sequence[int] = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """The same for trials, each of which may have a world of its own; server optimizers are left out."""
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, not {rounds}")
    for trial in trials.values():
        check_trial_in_fleet(fleet, trial)

    def report(done: int) -> None:
        if progress is not None:
            progress(done, len(trials))

    played = play_trials(fleet, list(trials.values()), rounds=rounds, seeds=seeds, report=report)
    entries = [_audited(*named, fleet, votes) for named, votes in zip(trials.items(), played, strict=True)]
    return Audit(tuple(entries), played[0].moves.shape[-1], chosen_seeds(seeds))


def effective_weights(
    strategy: Strategy,
    world: World,
    *,
    importance: Sequence[float] | None = None,
    local: Local | None = None,
    facts: Facts | None = None,
    rounds: int = ROUNDS,
    seeds: int | Sequence[int] = 1,
) -> np.ndarray:
    """Shares that the clients have in the long run: in closed form where there is one, else as played."""
    found = audit(world, strategy, importance=importance, local=local, facts=facts, rounds=rounds, seeds=seeds)
    return found.entries[0].best


def _audited(label: str, trial: Trial, fleet: Fleet, votes: Votes) -> Audited:
    target = np.asarray(fleet.target, np.float64)
    weights, errors, freedom = _shares(np.asarray(votes.counted, np.float64))
    clients = {name: np.asarray(sums, np.float64) for name, sums in votes.clients.items()}
    seldom, exact = clients["arrived"].sum(axis=0) < SELDOM, exact_weights(trial, fleet)
    rounds = votes.moves.shape[-1]
    late = rounds // SEGMENTS * BURN_IN
    rates = local_rates(trial.local, rounds)[late:]

    def a_round(name: str) -> float:
        return float(votes.records[name][:, late:].mean())

    return Audited(
        label=label,
        strategy=trial.strategy,
        target=target / target.sum(),
        weights=weights,
        errors=errors,
        freedom=freedom,
        seldom=seldom,
        exact=exact,
        available=clients["available"].mean(axis=0) / rounds,
        arrived=clients["arrived"].mean(axis=0) / rounds,
        stalest=clients["stalest"].max(axis=0),
        staleness=float(votes.staleness[:, late:].mean()),
        moves=np.divide(votes.moves[:, late:], rates, out=np.zeros((len(votes.moves), rates.size)), where=rates > 0),
        participants=a_round("cohort"),
        uploads=a_round("uploads"),
        arrivals=a_round("arrived"),
        notes=_notes(trial, int(seldom.sum()) if exact is None else 0),
    )


def _shares(counted: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Share of each client, its standard error, and the degrees of freedom of that.

    The error is that of a ratio of means over segments, which are long against most memories: votes that are used in a
    later segment than they were cast make it too large, never too small.
    """
    sums = counted.sum(axis=(0, 1))
    if not sums.sum() > 0:
        raise ValueError("nobody's update ever arrives: there is no model to speak of")
    shares = sums / sums.sum()
    settled = counted[:, BURN_IN:].reshape(-1, counted.shape[-1])
    totals = settled.sum(axis=1, keepdims=True)
    off = settled - shares * totals
    count = len(settled)
    errors = np.sqrt(count / (count - 1) * (off**2).sum(axis=0)) / totals.sum()
    return shares, errors, count - 1


def _notes(trial: Trial, seldom: int) -> tuple[str, ...]:
    """What playing without a model, and not for ever, leaves open."""
    notes = []
    if seldom:
        notes.append(f"{seldom} clients came fewer than {SELDOM} times, too seldom to tell their share")
    if trial.strategy.probes:
        notes.append("clients are weighed by their losses, which were all alike here")
    if not trial.strategy.admits_all:
        notes.append("uploads are chosen by the length of updates, which all had the same length a step here")
    if not isinstance(trial.uploads, Plain):
        notes.append("updates arrive as they were made: clipping, rounding and noise on their way are left out")
    return tuple(notes)
