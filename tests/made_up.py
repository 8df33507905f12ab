"""Runs of any size without a simulation: random curves, weights and absences."""

import numpy as np

from turnout.simulator.attendance import MAX_ROUNDS, Attendance, watched_clients
from turnout.simulator.history import History
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import Outcome, Run

NAMES = ("fedavg", "unbiased", "adafed", "ca_fed", "f3ast", "fedau", "mifa", "fedvarp", "fedawe", "fedlaavg")


def made_up_run(strategies: int, seeds: int, rounds: int, clients: int) -> Run:
    """A run of that size without a simulation."""
    rng = np.random.default_rng(0)
    pi, lam = rng.choice([0.1, 0.5, 0.9], clients), rng.choice([0.0, 0.9], clients)
    labels = [f"{NAMES[i % len(NAMES)]}{'' if i < len(NAMES) else f' {i}'}" for i in range(strategies)]
    document = {
        "title": "A large report",
        "rounds": rounds,
        "seeds": seeds,
        "task": {"name": "synthetic_leaf", "num_clients": clients},
        "availability": {"name": "two_classes"},
        "strategies": [{"name": label.split()[0], "label": label} for label in labels],
    }
    document["strategies"] = [_with_cohort(one, clients) for one in document["strategies"]]
    points = [_outcome(rng, label, seeds, rounds, pi, lam) for label in labels]
    return Run(Experiment.read(document), tuple(points), 1.0)


def _with_cohort(entrant: dict, clients: int) -> dict:
    return entrant | ({"cohort": max(1, clients // 10)} if entrant["name"] in ("f3ast", "fedlaavg") else {})


def _outcome(rng: np.random.Generator, label: str, seeds: int, rounds: int, pi: np.ndarray, lam: np.ndarray) -> Outcome:
    clients, every = len(pi), np.arange(rounds + 1)
    rise = 0.1 + rng.uniform(0.5, 0.8) * (1 - np.exp(-every / rng.uniform(20, 200)))
    noisy = {
        name: rise + rng.normal(0, 0.01, (seeds, rounds + 1)) for name in ("test_accuracy", "worst_decile_accuracy")
    }
    losses = {name: 2.3 - 2 * rise + rng.normal(0, 0.02, (seeds, rounds + 1)) for name in ("train_loss", "test_loss")}
    watched = watched_clients(clients)
    stride = 1 << ((rounds - 1) // MAX_ROUNDS).bit_length()
    shown = np.arange(0, rounds, stride)
    there = rng.random((len(shown), len(watched))) < pi[watched]
    states = np.where(there, rng.choice([1, 2, 3], there.shape, p=[0.2, 0.1, 0.7]), 0).astype(np.uint8)
    history = History(
        seeds=tuple(range(seeds)),
        rounds=rounds,
        evaluated=every,
        metrics=noisy | losses,
        records={name: rng.uniform(100, 200, (seeds, rounds)) for name in ("uploads", "local_steps", "available")},
        clients={
            "available": rng.binomial(rounds, pi, (seeds, clients)).astype(np.float32),
            "weight": (pi ** rng.uniform(0, 1) * rng.uniform(0.9, 1.1, (seeds, clients))).astype(np.float32),
            "stalest": rng.geometric(1 / 30, (seeds, clients)).astype(np.int32),
            "test_accuracy": rng.beta(8, 2, (seeds, clients)).astype(np.float32),
        },
        params=np.zeros((seeds, 10)),
        attendance=Attendance(0, shown + 1, watched, states),
        seconds=1.0,
        target=np.full(clients, 1 / clients),
        pi=pi,
        lam=lam,
    )
    return Outcome(label, label.split()[0], {}, history)
