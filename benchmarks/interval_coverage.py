"""How often the intervals that turnout prints hold the truth: made-up draws of which the truth is known.

    python benchmarks/interval_coverage.py           # the table, 5,000 draws per row, 500 where a draw is a run
    python benchmarks/interval_coverage.py --store   # also in docs/results/coverage.json, for docs/theory/intervals.md

Every function asks the code that prints the interval, not a copy of its formula.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from turnout.auditor import Audited, auditing
from turnout.auditor.voting import play_trials
from turnout.availability import markov
from turnout.paces import Buffered
from turnout.server.facts import Online
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.statistics import LEVEL, Interval
from turnout.strategies import FedAsync, FedAU, FedAvg, FedBuff, LastWord
from turnout.types import Fleet
from turnout.workbench.diagnosis.findings.lost_uploads import interval_of_share
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.reproduction.curve_table import Curve, Measured
from turnout.workbench.reproduction.measures import StrategyCurves, rounds_to
from turnout.workbench.reproduction.verdicts import verdict_of_equality, verdict_of_lead
from turnout.world import World
from turnout.world.durations import lognormal

STORED = Path(__file__).parent.parent / "docs" / "results" / "coverage.json"
DRAWS, RUNS = 5_000, 500
PI = [0.2, 0.8] * 5
WITHIN, WITHIN_OF_RUNS = 0.02, 0.03  # that a row may be off its level

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
LAWS: dict[str, tuple[Draw, float]] = {  # each with its mean
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "log-normal": (lambda rng, shape: np.exp(rng.standard_normal(shape)), float(np.exp(0.5))),
    "t, 3 degrees": (lambda rng, shape: rng.standard_t(3, shape), 0.0),
}
SEEDS = (3, 5, 10)
OVER_SEEDS = ("means", "paired", "joint", "leads", "equalities", "times")
PARTS = (*OVER_SEEDS, "losses", "chains", "spells", "on_nodes", "audits", "audits_in_time")


@dataclass(frozen=True)
class Row:
    """What one interval promises, and how often it holds."""

    what: str  # the number that is printed
    draws: str  # what it was tried on
    size: str  # seeds, slots or rounds
    level: float
    held: float
    one_sided: bool = False  # more than the level is no fault
    is_run: bool = False

    @property
    def holds(self) -> bool:
        """Whether it covers as often as it says, or more often where only that is promised."""
        short = self.level - self.held
        return short <= self.within if self.one_sided else abs(short) <= self.within

    @property
    def too_narrow(self) -> bool:
        return self.level - self.held > self.within

    @property
    def within(self) -> float:
        return WITHIN_OF_RUNS if self.is_run else WITHIN


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", nargs="?", type=Path, const=STORED, metavar="FILE")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="the others stay as they are stored")
    options = parser.parse_args()
    before = json.loads(STORED.read_text(encoding="utf-8"))["parts"] if STORED.exists() else {}
    parts = {part: rows for part, rows in before.items() if part in PARTS}
    for part in options.parts:
        parts[part] = []
        for row in globals()[part](RUNS if part.startswith("audits") else DRAWS):
            parts[part].append(asdict(row) | {"held": round(row.held, 4)})
            mark = "" if row.holds else "  !"
            print(f"{row.what:38}{row.draws:42}{row.size:14}{row.level:6.3f}{row.held:8.3f}{mark}", flush=True)
    if options.store:
        about = {"draws": DRAWS, "runs": RUNS, "parts": {part: parts[part] for part in PARTS if part in parts}}
        options.store.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# Over the seeds


def held_by(samples: np.ndarray, truth: float, comparisons: int = 1) -> np.ndarray:
    """Whether the interval of each row holds the truth."""
    intervals = [Interval.of(row, comparisons) for row in samples]
    return np.array([one.low <= truth <= one.high for one in intervals])


def means(draws: int) -> Iterator[Row]:
    """Numbers of one strategy, or differences that are skewed."""
    for law, (draw, mean) in LAWS.items():
        for seeds in SEEDS:
            held = held_by(draw(np.random.default_rng(0), (draws, seeds)), mean).mean()
            yield Row("mean over the seeds", law, f"{seeds} seeds", LEVEL, float(held))


def paired(draws: int) -> Iterator[Row]:
    """Differences of two strategies with the same spread, which met the same worlds."""
    for law, (draw, _) in LAWS.items():
        for seeds in SEEDS:
            rng = np.random.default_rng(1)
            world = draw(rng, (draws, seeds))
            one, other = (world + draw(rng, (draws, seeds)) for _ in range(2))
            held = held_by(one - other, 0.0).mean()
            yield Row("paired difference", f"two of {law}", f"{seeds} seeds", LEVEL, float(held), one_sided=True)


def joint(draws: int) -> Iterator[Row]:
    """A table of four strategies: its three intervals against the first hold together."""
    for law, (draw, _) in LAWS.items():
        for seeds in SEEDS:
            rng = np.random.default_rng(2)
            first, *others = (draw(rng, (draws, seeds)) for _ in range(4))
            held = np.all([held_by(other - first, 0.0, comparisons=3) for other in others], axis=0).mean()
            yield Row("three joint intervals", f"two of {law}", f"{seeds} seeds", LEVEL, float(held), one_sided=True)


def leads(draws: int) -> Iterator[Row]:
    """Claims: strategies that are alike are not told apart; also where some never reach a target."""
    for law, (draw, _) in LAWS.items():
        for never in (0.0, 0.3):
            for seeds in SEEDS:
                rng = np.random.default_rng(3)
                lead = draw(rng, (draws, seeds)) - draw(rng, (draws, seeds))
                infinite = np.where(rng.random(lead.shape) < 0.5, np.inf, -np.inf)
                lead = np.where(rng.random(lead.shape) < never, infinite, lead)
                held = np.mean([verdict_of_lead(row) == "undecided" for row in lead])
                what = f"two of {law}{', some never' if never else ''}"
                yield Row("verdict on a lead of 0", what, f"{seeds} seeds", LEVEL, float(held), one_sided=True)


def equalities(draws: int) -> Iterator[Row]:
    """Claims: a difference as large as the margin is not called equal; one end of the interval says so."""
    for law, (draw, _) in LAWS.items():
        for seeds in SEEDS:
            rng = np.random.default_rng(4)
            difference = draw(rng, (draws, seeds)) - draw(rng, (draws, seeds)) + 4.0
            held = np.mean([verdict_of_equality(row, 4.0) != "holds" for row in difference])
            level = (1 + LEVEL) / 2
            yield Row("verdict on equality", f"two of {law}", f"{seeds} seeds", level, float(held), one_sided=True)


def times(draws: int) -> Iterator[Row]:
    """Rounds until noisy curves of different speeds reach a target, measured every five rounds."""
    x = np.arange(0, 401, 5)
    for law, spread in (("log-normal speeds", 0.5), ("nearly equal speeds", 0.05)):

        def reached(rng: np.random.Generator, count: int, scale: float, spread: float = spread) -> np.ndarray:
            pace = scale * np.exp(spread * rng.standard_normal(count))
            values = 1 - np.exp(-x / pace[:, None]) + 0.02 * rng.standard_normal((count, x.size))
            values[:, -1] = 1.0  # all of them reach it
            curve = Curve("", "one", "test_accuracy", x, tuple(range(count)), values)
            return rounds_to(StrategyCurves(Measured([curve]), "", "one"), "test_accuracy", 0.8, average=3)

        rng = np.random.default_rng(5)
        truth = float(np.mean(reached(rng, 50_000, 30.0)) - np.mean(reached(rng, 50_000, 20.0)))
        for seeds in SEEDS:
            slow, fast = (reached(rng, draws * seeds, scale).reshape(draws, seeds) for scale in (30.0, 20.0))
            held = held_by(slow - fast, truth).mean()
            what = "difference of times to a target"
            yield Row(what, law, f"{seeds} seeds", LEVEL, float(held))


# Of clients


def played(rng: np.random.Generator, clients: int, slots: int, pi: float, lam: float) -> np.ndarray:
    """On/off chains, one row per slot."""
    present = np.empty((slots, clients), bool)
    present[0] = rng.random(clients) < pi
    for t in range(1, slots):
        present[t] = rng.random(clients) < pi * (1 - lam) + lam * present[t - 1]
    return present


def losses(draws: int) -> Iterator[Row]:
    """A diagnosis: the share of uploads that arrive, of clients that differ and of such that are all alike."""
    rng = np.random.default_rng(6)
    for sent in (10, 50, 500):
        success = rng.beta(0.5, 0.5, draws)
        low, high = interval_of_share(rng.binomial(sent, success), np.full(draws, sent))
        held = ((low <= success) & (success <= high)).mean()
        yield Row("success of uploads, diagnosis", "from none to all arrive", f"{sent} uploads", LEVEL, float(held))
    for success in (0.5, 0.9, 0.99):
        for sent in (10, 50, 500):
            came = rng.binomial(sent, success, draws)
            low, high = interval_of_share(came, np.full(draws, sent))
            held = ((low <= success) & (success <= high)).mean()
            what = f"{100 * success:g} % arrive"
            yield Row("success of uploads, diagnosis", what, f"{sent} uploads", LEVEL, float(held))


def chains(draws: int) -> Iterator[Row]:
    """A diagnosis: π and λ of clients that are chains."""
    for pi in (0.2, 0.5):
        for lam in (0.0, 0.5, 0.9):
            for slots in (100, 1000):
                found = rates(Log.from_matrix(played(np.random.default_rng(7), draws, slots, pi, lam).T))
                for name, truth, low, high in (
                    ("π", pi, found.pi_low, found.pi_high),
                    ("λ", lam, found.lam_low, found.lam_high),
                ):
                    held = ((low <= truth) & (truth <= high)).mean()
                    what, drawn = f"{name}, diagnosis", f"chains, π = {pi}, λ = {lam}"
                    yield Row(what, drawn, f"{slots} slots", LEVEL, float(held))


def spells(draws: int) -> Iterator[Row]:
    """A diagnosis: π of clients whose spells are no chain's: all about equally long, or with heavy tails."""
    laws: dict[str, Draw] = {
        "spells of 5 to 15 slots": lambda rng, shape: rng.integers(5, 16, shape),
        "spells with a tail of power 2.5": lambda rng, shape: np.ceil(6 * (1 - rng.random(shape)) ** (-1 / 2.5)),
    }
    for law, draw in laws.items():
        for slots in (1000,):
            rng = np.random.default_rng(8)
            ends = np.cumsum(draw(rng, (draws, (slots + 1000) // 5)), axis=1)
            state = np.stack([np.searchsorted(row, np.arange(1000, 1000 + slots), side="right") for row in ends]) % 2
            found = rates(Log.from_matrix(state == 1))
            held = ((found.pi_low <= 0.5) & (found.pi_high >= 0.5)).mean()
            yield Row("π, diagnosis", law, f"{slots} slots", LEVEL, float(held), one_sided=True)


def on_nodes(draws: int) -> Iterator[Row]:
    """Real nodes: what the server has learned of clients that are chains."""
    for asked in (1.0, 0.3):
        for lam in (0.0, 0.5, 0.9):
            for rounds in (60, 500):
                yield from _on_nodes(draws, asked, lam, rounds)


def _on_nodes(draws: int, asked: float, lam: float, rounds: int) -> Iterator[Row]:
    from turnout.flower.run.estimates import columns_of

    rng, pi, success = np.random.default_rng(9), 0.5, 0.9
    present = played(rng, draws, rounds, pi, lam)
    chosen = rng.random(present.shape) < asked
    facts = Online()
    watched = ~present | chosen  # who is listed and not asked may be there or not
    state = _watched(facts, *map(jnp.asarray, (present, watched, present)))
    sent = (present & chosen).sum(axis=0)
    sums = [jnp.asarray(number, jnp.float32) for number in (sent, rng.binomial(sent, success))]
    state = replace(state, asked=sums[0], arrived=sums[1])
    found = columns_of(facts, state, np.arange(draws))
    who = "everybody asked" if asked == 1 else f"{100 * asked:g} % asked"
    for name, key, truth in (("π", "pi", pi), ("λ", "lam", lam), ("success", "success", success)):
        held = ((found[f"{key}_low"] <= truth) & (truth <= found[f"{key}_high"])).mean()
        yield Row(f"{name}, real nodes", f"{who}, λ = {lam}", f"{rounds} rounds", LEVEL, float(held))


@eqx.filter_jit
def _watched(facts: Online, present: jax.Array, watched: jax.Array, listed: jax.Array) -> Any:
    def step(state: Any, seen: Any) -> tuple[Any, None]:
        available, certain, here = seen
        return facts.watch(state, available, certain, listed=here), None

    fleet = Fleet(jnp.ones(present.shape[1]), jnp.ones(present.shape[1], bool))
    return jax.lax.scan(step, facts.init(fleet), (present, watched, listed))[0]


# Of runs


def _of_run(entry: Audited, counted: np.ndarray) -> Audited:
    weights, errors, freedom = auditing._shares(counted)
    return replace(entry, weights=weights, errors=errors, freedom=freedom)


def audits(runs: int, rounds: int = 2_000, lams: tuple[float, ...] = (0.0, 0.9)) -> Iterator[Row]:
    """Audits: the share of each client, the chance that a distance is given, and false alarms."""
    for lam in lams:
        world = World(markov(10, PI, lam))
        named = {"FedAvg": FedAvg(), "FedAU": FedAU(), "LastWord": LastWord()}
        trials = {f"{label}, λ = {lam}": Trial(strategy, world, Local()) for label, strategy in named.items()}
        for where, entries in _audited(trials, runs, rounds):
            yield _shares_held(where, entries, f"{rounds} rounds")
            if where.startswith("LastWord"):
                fair = np.mean([entry.consistent for entry in entries])
                what = "called consistent, audit"
                yield Row(what, where, f"{rounds} rounds", 0.99, float(fair), one_sided=True, is_run=True)


def audits_in_time(runs: int, ticks: int = 2_000, lams: tuple[float, ...] = (0.0, 0.9)) -> Iterator[Row]:
    """Audits where work takes time: updates of earlier segments arrive in later ones."""
    for lam in lams:
        world = World(markov(10, PI, lam), durations=lognormal(10, median=3.0))
        named = {"FedBuff": (FedBuff(), Buffered(3)), "FedAsync": (FedAsync(), Buffered(1))}
        trials = {
            f"{label}, work takes 3 ticks, λ = {lam}": Trial(strategy, world, Local(), pace=pace)
            for label, (strategy, pace) in named.items()
        }
        for where, entries in _audited(trials, runs, ticks):
            yield _shares_held(where, entries, f"{ticks} ticks")


def _audited(trials: dict[str, Trial], runs: int, rounds: int) -> Iterator[tuple[str, list[Audited]]]:
    """The audits of single runs, by what was played."""
    fleet = Fleet(jnp.ones(10))
    votes = play_trials(fleet, list(trials.values()), rounds=rounds, seeds=range(runs))
    for (where, trial), played_votes in zip(trials.items(), votes, strict=True):
        first = jax.tree.map(lambda leaf: leaf[:1], played_votes)
        entry = replace(auditing._entry(where, trial, fleet, first, None), exact=None)
        yield where, [_of_run(entry, counted[None]) for counted in played_votes.counted.astype(np.float64)]


def _shares_held(where: str, entries: list[Audited], size: str) -> Row:
    truth = np.mean([entry.weights for entry in entries], axis=0)
    held = np.mean([(entry.low <= truth) & (truth <= entry.high) for entry in entries])
    return Row("share of a client, audit", where, size, LEVEL, float(held), is_run=True)


if __name__ == "__main__":
    main()
