"""Which clients a strategy trains for in a world: in seconds, without data and without a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from turnout.auditor.exact import exact_weights
from turnout.auditor.in_time import formula_in_time
from turnout.auditor.results import Audit, Audited, UsedAges
from turnout.auditor.voting import BURN_IN, SEGMENTS, Votes, local_rates, play_trials
from turnout.declarations import NotNegative, NumRounds, checked
from turnout.paces import Pace
from turnout.server.settings import ServerSettings
from turnout.simulator.ages import Ages, quantile
from turnout.simulator.client_optimizer import Local
from turnout.simulator.kinds import Strategies, labelled_strategies
from turnout.simulator.simulate import Seeds, check_seeds
from turnout.simulator.trial import Trial, check_length, check_trial_in_fleet
from turnout.strategies.base import Strategy
from turnout.types import Fleet, PyTree
from turnout.uploads import Plain
from turnout.world import World

ROUNDS = 10_000  # by default
MIN_ARRIVALS = 10  # of a client, for its share to be estimated


@checked
def audit(  # noqa: PLR0913 (those of a trial)
    world: World,
    strategies: Strategy[PyTree] | Strategies,
    *,
    importance: Sequence[NotNegative] | None = None,
    rounds: NumRounds = ROUNDS,
    seeds: Seeds = 1,
    local: Local | None = None,
    progress: Callable[[int, int], None] | None = None,
    names: Sequence[str] | None = None,
    pace: Pace | None = None,
    **server: Any,
) -> Audit:
    """Play only the server's decisions, and measure how much every client counts.

    Args:
        world: who is available, whose uploads arrive, how much local work is done, and how long it takes.
        strategies: one, several, or several by name.
        importance: how much each client should count, up to a common factor; all the same if not given.
        rounds: T, rounded up to whole segments; ticks, where work takes time.
        seeds: how many seeds, or which ones; each is one more run.
        local: the clients' optimizer, whose reach counts; plain SGD if not given.
        progress: called with the number of strategies done and their total.
        names: of the clients, such as `task.names`; numbers if not given.
        pace: when the server asks and when it steps, such as `Buffered(10)`; in rounds that wait for all if not given.
        server: as in `ServerSettings`. `facts` and `rest` count; rate, optimizer and radius do not change shares.

    """
    named = labelled_strategies([strategies] if isinstance(strategies, Strategy) else strategies)
    worth = np.ones(world.num_clients) if importance is None else np.asarray(importance, np.float64)
    if worth.shape != (world.num_clients,) or not worth.sum() > 0:
        raise ValueError(f"importance must be {world.num_clients} numbers of 0 or more, one per client, not all zero")
    optimizer, settings = Local() if local is None else local, ServerSettings.of(server)
    trials = {label: Trial(strategy, world, optimizer, settings, pace=pace) for label, strategy in named.items()}
    fleet = Fleet(jnp.asarray(worth, jnp.float32))
    return audit_trials(fleet, trials, rounds=rounds, seeds=seeds, progress=progress, names=names)


@checked
def audit_trials(
    fleet: Fleet,
    trials: Mapping[str, Trial],
    *,
    rounds: NumRounds = ROUNDS,
    seeds: Seeds = 1,
    progress: Callable[[int, int], None] | None = None,
    names: Sequence[str] | None = None,
) -> Audit:
    """Audit trials, each of which may have a world of its own; server optimizers are left out."""
    if names is not None and len(names) != fleet.num_clients:
        raise ValueError(f"names: given {len(names)}, expected one for each of the {fleet.num_clients} clients")
    for trial in trials.values():
        check_trial_in_fleet(fleet, trial)
        check_length(trial, rounds)

    def report(done: int) -> None:
        if progress is not None:
            progress(done, len(trials))

    played = play_trials(fleet, list(trials.values()), rounds=rounds, seeds=seeds, report=report)
    clients = None if names is None else tuple(names)
    entries = [_entry(*named, fleet, votes, clients) for named, votes in zip(trials.items(), played, strict=True)]
    return Audit(tuple(entries), played[0].moves.shape[-1], check_seeds(seeds))


@checked
def effective_weights(
    strategy: Strategy[PyTree],
    world: World,
    *,
    importance: Sequence[NotNegative] | None = None,
    local: Local | None = None,
    rounds: NumRounds = ROUNDS,
    seeds: Seeds = 1,
    pace: Pace | None = None,
    **server: Any,
) -> np.ndarray:
    """Long-run shares of the clients: in closed form if there is one, else as played; arguments as in `audit`."""
    options = {"importance": importance, "local": local, "rounds": rounds, "seeds": seeds, "pace": pace}
    result = audit(world, strategy, **options, **server)
    return result.entries[0].best


def _entry(label: str, trial: Trial, fleet: Fleet, votes: Votes, names: tuple[str, ...] | None) -> Audited:
    target = np.asarray(fleet.target, np.float64)
    weights, errors, freedom = _shares(np.asarray(votes.counted, np.float64))
    clients = {name: np.asarray(sums, np.float64) for name, sums in votes.clients.items()}
    seldom, exact = clients["arrived"].sum(axis=0) < MIN_ARRIVALS, exact_weights(trial, fleet)
    rounds = votes.moves.shape[-1]
    late = rounds // SEGMENTS * BURN_IN

    def per_round(name: str) -> float:
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
        moves=_moves(trial, votes, late),
        participants=per_round("cohort"),
        uploads=per_round("uploads"),
        arrivals=per_round("arrived"),
        notes=_notes(trial, int(seldom.sum()) if exact is None else 0),
        names=names,
        duration=trial.world.mean_ticks(),
        ages=None if votes.ages is None else _used_ages(votes.ages),
        formula=formula_in_time(trial, fleet),
    )


def _moves(trial: Trial, votes: Votes, late: int) -> np.ndarray:
    """Total weight times reach, round by round, without the learning rate; in time, of the steps of all seeds."""
    moves, rounds = np.asarray(votes.moves, np.float64), votes.moves.shape[-1]
    rates = np.broadcast_to(local_rates(trial.local, rounds), moves.shape)
    if "server_steps" in votes.records:
        stepped = np.asarray(votes.records["server_steps"]) > 0
        versions = np.cumsum(stepped, axis=1) - stepped
        rates, chosen = np.take_along_axis(rates, versions, axis=1), stepped[:, late:]
        moves, rates = moves[:, late:][chosen][None], rates[:, late:][chosen][None]
    else:
        moves, rates = moves[:, late:], rates[:, late:]
    return np.divide(moves, rates, out=np.zeros(moves.shape), where=rates > 0)


def _used_ages(ages: Ages) -> UsedAges:
    """Ages of the updates of all seeds."""
    used, total = (np.asarray(each, np.float64).sum(axis=0) for each in (ages.used, ages.age))
    bins = np.asarray(ages.bins, np.float64).sum(axis=0)
    by_client = np.divide(total, used, out=np.full_like(used, np.nan), where=used > 0)
    mean = float(total.sum() / max(used.sum(), 1.0))
    return UsedAges(mean, float(quantile(bins, 0.5)), float(quantile(bins, 0.9)), by_client)


def _shares(counted: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Share of each client, its standard error, and the degrees of freedom of that.

    The error is that of a ratio of means over segments. Segments are long compared with most memories; votes used in a
    later segment than the one they were cast in make the error too large, never too small.
    """
    sums = counted.sum(axis=(0, 1))
    if not sums.sum() > 0:
        raise ValueError("no update ever arrives: the model never moves, so there are no shares")
    shares = sums / sums.sum()
    settled = counted[:, BURN_IN:].reshape(-1, counted.shape[-1])
    totals = settled.sum(axis=1, keepdims=True)
    deviations = settled - shares * totals
    count = len(settled)
    errors = np.sqrt(count / (count - 1) * (deviations**2).sum(axis=0)) / totals.sum()
    return shares, errors, count - 1


def _notes(trial: Trial, seldom: int) -> tuple[str, ...]:
    """What an audit cannot say, since it has no model and a finite number of rounds."""
    notes = []
    if seldom:
        notes.append(f"{seldom} clients came fewer than {MIN_ARRIVALS} times, too few to estimate their share")
    if trial.strategy.needs_losses:
        notes.append("clients are weighed by their losses, which are all the same in an audit")
    if not trial.strategy.admits_all:
        notes.append("uploads are chosen by the norm of updates, which is the same per step for all in an audit")
    if not isinstance(trial.uploads, Plain):
        notes.append("updates arrive as they were made: clipping, rounding and noise on their way are left out")
    return tuple(notes)
