"""Is a log recognised for what it is? Logs of five kinds of known worlds, read back.

    python benchmarks/recognition.py                  # 50 seeds of each kind, some minutes
    python benchmarks/recognition.py --seeds 5
    python benchmarks/recognition.py --first 1000     # fleets on which no limit was chosen
    python benchmarks/recognition.py --quick          # five seeds of the fleets of churn and of the unseen ones
    python benchmarks/recognition.py --seeds 200 --only churn  # or: worlds, shifting, unseen, later, last

Prints the confusion matrix with its error rate, how often each detector sees what is not there, and how often the 95 %
intervals of π and λ hold the truth, over all clients and by group of λ. Fleets have 50 to 200 clients with rates and
correlations of their own, logs 500 to 2,000 slots. Then come the fleets of `shifting_fleets.py`, as many of each, with
60 clients and 600 slots: how often what is true of them is found, and what is not. So do those of `churn_fleets.py`,
written from studies of churn, those of `unseen_fleets.py`, of kinds on which first no limit was chosen, and those of
`later_fleets.py` and `last_fleets.py`, written after the limits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import churn_fleets
import last_fleets
import later_fleets
import numpy as np
import shifting_fleets
import unseen_fleets
from shifting_fleets import chain

from turnout.availability import clustered, diurnal, markov, minimum_separation
from turnout.availability.markov import lowest_correlation
from turnout.workbench.diagnosis.findings.all_findings import Findings, examine
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.likeness import play

KINDS = ("markov", "clustered", "diurnal", "minimum_separation", "drifting")
SIZES = ((50, 500), (100, 1000), (200, 2000), (50, 2000), (200, 500))  # clients and slots; few, as each is compiled
SETS = {
    "shifting": shifting_fleets.FLEETS,
    "churn": churn_fleets.FLEETS,
    "unseen": unseen_fleets.FLEETS,
    "later": later_fleets.FLEETS,
    "last": last_fleets.FLEETS,
}
GROUPS = ((-1.0, 0.0), (0.0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.0))  # of λ


@dataclass(frozen=True)
class Truth:
    """A log and what it was made of."""

    log: Log
    pi: np.ndarray | None = None
    lam: np.ndarray | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description="Are logs recognised for what they are?")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="five seeds, and only the fleets of churn and unseen ones")
    parser.add_argument("--only", choices=("worlds", *SETS), help="one of the sets")
    begin = time.perf_counter()
    options = parser.parse_args()
    seeds = range(options.first, options.first + (5 if options.quick else options.seeds))
    chosen = (options.only,) if options.only else ("churn", "unseen") if options.quick else ("worlds", *SETS)
    if "worlds" in chosen:
        print(report(recognise_all(seeds)))
    for name, fleets in SETS.items():
        if name in chosen:
            print(f"{name}: {shifting_fleets.report(shifting_fleets.play_all(seeds, fleets))}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")


def recognise_all(seeds: range, sizes: tuple[tuple[int, int], ...] = SIZES) -> dict[str, list[tuple[Truth, Findings]]]:
    """What is found in the logs of each kind, one per seed."""
    found: dict[str, list[tuple[Truth, Findings]]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for seed in seeds:
            truth = WORLDS[kind](np.random.default_rng(seed), *sizes[seed % len(sizes)], seed)
            found[kind].append((truth, examine(truth.log)))
    return found


def rates(draw: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Availabilities and correlations as fleets have them: all sorts, most clients persistent, a few restless."""
    pi = np.clip(draw.beta(1.2, 1.8, count), 0.03, 0.97)
    lam = np.where(draw.random(count) < 0.1, draw.uniform(-0.3, 0, count), draw.uniform(0, 0.95, count))
    return pi, np.maximum(lam, lowest_correlation(pi))


def markov_world(draw: np.random.Generator, clients: int, slots: int, seed: int) -> Truth:
    pi, lam = rates(draw, clients)
    process = markov(clients, pi=pi.tolist(), lam=lam.tolist())
    return Truth(Log.from_matrix(play(process, slots, seed)), pi, lam)


def clustered_world(draw: np.random.Generator, clients: int, slots: int, seed: int) -> Truth:
    count = int(draw.integers(3, clients // 4))
    cluster = np.r_[np.arange(count), draw.integers(0, count, clients - count)]
    pi, lam = rates(draw, count)
    process = clustered(clients, cluster.tolist(), pi=pi.tolist(), lam=lam.tolist())
    present = play(process, slots, seed)
    if seed % 2:  # every other fleet is noisy: now and then a client does the opposite of its cluster
        present = present ^ (draw.random(present.shape) < 0.05)
    return Truth(Log.from_matrix(present))


def diurnal_world(draw: np.random.Generator, clients: int, slots: int, seed: int) -> Truth:
    day = 24 if slots == 500 else 96
    pi, lam = rates(draw, clients)
    process = diurnal(
        clients,
        day,
        mean=pi.tolist(),
        amplitude=(draw.uniform(0.4, 0.9, clients) * np.minimum(pi, 1 - pi)).tolist(),
        peak_hour=float(draw.uniform(0, 24)),
        zones=draw.uniform(0, 24, clients).tolist() if seed % 2 else 1,
        lam=np.maximum(lam, 0).tolist(),
    )
    clock = 86400.0 / day if seed % 4 < 2 else None
    return Truth(Log.from_matrix(play(process, slots, seed), slot_seconds=clock))


def separated_world(draw: np.random.Generator, clients: int, slots: int, seed: int) -> Truth:
    batch = int(draw.choice([1, 2, 5, 10]))
    separation = int(draw.integers(1, clients // batch // 2 + 1))
    process = minimum_separation(clients, tail=float(draw.uniform(0, 1.2)), batch=batch, separation=separation)
    return Truth(Log.from_matrix(play(process, slots, seed)))


def drifting_world(draw: np.random.Generator, clients: int, slots: int, seed: int) -> Truth:
    """Rates that change suddenly or slowly, up for all or up for some and down for others."""
    pi, lam = rates(draw, clients)
    when = np.arange(slots)[:, None] / slots
    course = (when > draw.uniform(0.3, 0.7)) if seed % 2 else when
    side = draw.choice([-1.0, 1.0], clients) if seed % 4 < 2 else draw.choice([-1.0, 1.0])
    later = np.clip(pi + side * draw.uniform(0.2, 0.5, clients), 0.02, 0.98)
    return Truth(Log.from_matrix(chain(draw, pi + course * (later - pi), np.maximum(lam, 0))))


WORLDS: dict[str, Callable[[np.random.Generator, int, int, int], Truth]] = {
    "markov": markov_world,
    "clustered": clustered_world,
    "diurnal": diurnal_world,
    "minimum_separation": separated_world,
    "drifting": drifting_world,
}


def confusion(found: dict[str, list[tuple[Truth, Findings]]]) -> dict[str, dict[str, int]]:
    """How often a world of one kind is taken for another."""
    table = {}
    for kind, logs in found.items():
        seen = [findings.recognised.kind for _, findings in logs]
        table[kind] = {name: seen.count(name) for name in sorted(set(seen) | {kind})}
    return table


def error_rate(found: dict[str, list[tuple[Truth, Findings]]]) -> float:
    wrong = [findings.recognised.kind != kind for kind, logs in found.items() for _, findings in logs]
    return float(np.mean(wrong))


def false_positives(found: dict[str, list[tuple[Truth, Findings]]]) -> dict[str, float]:
    """How often each feature is seen in worlds that do not have it."""
    return {
        feature: float(
            np.mean(
                [feature in f.recognised.features for kind, logs in found.items() if kind != feature for _, f in logs]
            )
        )
        for feature in KINDS[1:]
    }


def coverage(found: dict[str, list[tuple[Truth, Findings]]]) -> dict[str, tuple[float, float, int]]:
    """Share of clients of Markov worlds whose π and whose λ lie in their intervals, by group of λ."""
    pi, lam, in_pi, in_lam = ([], [], [], [])
    for truth, findings in found["markov"]:
        r = findings.rates
        assert truth.pi is not None
        assert truth.lam is not None
        pi.append(truth.pi)
        lam.append(truth.lam)
        in_pi.append((r.pi_low <= truth.pi) & (truth.pi <= r.pi_high))
        in_lam.append((r.lam_low <= truth.lam) & (truth.lam <= r.lam_high))
    lams, held_pi, held_lam = (np.concatenate(part) for part in (lam, in_pi, in_lam))
    result = {"all": (float(held_pi.mean()), float(held_lam.mean()), len(lams))}
    for low, high in GROUPS:
        group = (lams >= low) & (lams < high)
        if group.any():
            result[f"{low:g} to {high:g}"] = (
                float(held_pi[group].mean()),
                float(held_lam[group].mean()),
                int(group.sum()),
            )
    return result


def report(found: dict[str, list[tuple[Truth, Findings]]]) -> str:
    lines = ["taken for"]
    for kind, seen in confusion(found).items():
        lines.append(f"  {kind:20}" + ", ".join(f"{name} {count}" for name, count in seen.items()))
    lines.append(f"error rate {error_rate(found):.1%}")
    lines.append("seen where it is not")
    lines += [f"  {feature:20}{rate:.1%}" for feature, rate in false_positives(found).items()]
    lines.append("95 % intervals that hold the truth, by λ        π       λ   clients")
    lines += [f"  {group:40}{p:9.1%}{q:8.1%}{n:9d}" for group, (p, q, n) in coverage(found).items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
