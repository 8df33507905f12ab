"""Where strategies end up: each in a world with a predicted limit, on quadratics that tell limits apart.

A row predicts the effective weights Ω of a strategy in a world, up to a factor and without the reach: on quadratics of
equal curvature a client that does T steps of rate η pulls with 1 - (1 - η)^T, and the model tends to the mean of the
minima E, each weighed by Ω times its pull.
"""

from dataclasses import dataclass
from itertools import combinations

import jax.numpy as jnp
import numpy as np
import pytest

from turnout.availability import bernoulli, markov, minimum_separation
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import (
    MIFA,
    CAFed,
    CAFedAvg,
    Debiased,
    FedACS,
    FedAU,
    FedAvg,
    FedAWE,
    FedLaAvg,
    FedNova,
    ImportanceSampling,
    LastWord,
    MoreAvailable,
    NormSampling,
    OptimalSampling,
    StaleFill,
    Strategy,
    Unbiased,
    UniformSampling,
)
from turnout.tasks.quadratics import quadratics
from turnout.world import World, compute, links

COUNT, RATE, SEEDS = 5, 0.02, 128
TARGET = np.array([0.3, 0.1, 0.25, 0.2, 0.15])
PI = np.array([0.9, 0.2, 0.6, 0.35, 0.5])
SUCCESS = np.array([0.5, 0.95, 0.7, 0.6, 0.85])
STEPS = np.array([1, 8, 3, 5, 2])
ODDS = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
TASKS = {
    "unequal": quadratics(COUNT, 2, spread=3.0, seed=8, importance=TARGET.tolist()),
    "equal": quadratics(COUNT, 2, spread=3.0, seed=8),
}


def lossy(pi=1.0):
    """Links and local work that differ between clients."""
    rates = pi if isinstance(pi, float) else pi.tolist()
    return World(
        bernoulli(COUNT, rates), links.bernoulli(COUNT, SUCCESS.tolist()), compute.per_client(COUNT, STEPS.tolist())
    )


# Weng et al. 2025, dynamic: two clients with bad links and few steps, three with good links and many.
GOOD = np.array([0.5, 0.5, 0.9, 0.9, 0.9])
FEW, MANY = np.array([1, 1, 5, 5, 5]), np.array([3, 3, 8, 8, 8])


def redrawn():
    """Links and steps that are drawn anew each round."""
    quality = links.redrawn(COUNT, GOOD.tolist(), (GOOD + 0.1).tolist())
    return World(bernoulli(COUNT, 1.0), quality, compute.redrawn(COUNT, FEW.tolist(), MANY.tolist()))


def correlated():
    """Heterogeneous Markov availability, one step per round."""
    return World(markov(COUNT, pi=PI.tolist(), lam=0.5), compute=1)


def joint():
    """Correlated absences, lossy links and steps that are drawn anew each round, all different between clients."""
    away, quality = markov(COUNT, pi=PI.tolist(), lam=0.5), links.bernoulli(COUNT, SUCCESS.tolist())
    return World(away, quality, compute.redrawn(COUNT, FEW.tolist(), MANY.tolist()))


def separated(rest):
    """One client per round that was not there in the last `rest` rounds."""
    return World(minimum_separation(COUNT, ODDS.tolist(), separation=rest), compute=1)


def received(target, present):
    """E[α 1 / Σ α 1] over all sets of independent clients."""
    total = np.zeros(COUNT)
    for size in range(1, COUNT + 1):
        for members in combinations(range(COUNT), size):
            here = np.isin(np.arange(COUNT), members)
            total += np.prod(np.where(here, present, 1 - present)) * here * target / target[here].sum()
    return total


@dataclass(frozen=True)
class Row:
    """A strategy in a world, and the effective weights it should have there; without any, those of the target."""

    strategy: Strategy
    world: World
    weights: np.ndarray | None = None
    pull: np.ndarray | None = None  # E[1 - (1 - η)^T]; that of one step if not given
    task: str = "unequal"
    rounds: int = 1500
    rest: int | None = None  # of the server's settings


def pull(low, high):
    """E[1 - (1 - η)^T] of each client, T uniform between two numbers of steps."""
    return np.array([np.mean(1 - (1 - RATE) ** np.arange(a, b + 1)) for a, b in zip(low, high, strict=True)])


def redrawn_fedacs():
    """E[ω (pull / T) / Z] with Z = Σ ω / ((1 - q) T): the draws' normaliser is redrawn, too, and does not cancel."""
    draw = np.random.default_rng(0)
    success = draw.uniform(GOOD, GOOD + 0.1, (200_000, COUNT))
    steps = draw.integers(FEW, MANY + 1, (200_000, COUNT))
    odds = TARGET / (success * steps)
    arrived = odds / odds.sum(axis=1, keepdims=True) * success
    return (arrived * (1 - (1 - RATE) ** steps)).mean(axis=0)


def per_step(low, high):
    """E[(1 - (1 - η)^T) / T] of each client."""
    ranges = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    return np.array([np.mean((1 - (1 - RATE) ** steps) / steps) for steps in ranges])


ALL = FedAvg(normaliser="all")
NOVA = FedNova(cohort=3, normaliser="draws", effective_steps=2.0)
ABSENT = World(bernoulli(COUNT, PI.tolist()), compute=1)
ABSENT_AND_LOST = World(bernoulli(COUNT, PI.tolist()), links.bernoulli(COUNT, SUCCESS.tolist()), compute=1)
ALWAYS = World(bernoulli(COUNT, 1.0), compute=1)
PULL, REDRAWN_PULL = pull(STEPS, STEPS), pull(FEW, MANY)
RATES = {rest: np.asarray(separated(rest).law().pi, np.float64) for rest in (0, 1, 3)}
RESTED = np.asarray(minimum_separation(COUNT, TARGET.tolist(), separation=2).stationary(), np.float64)

ROWS = {
    "fedavg draws, links and steps": Row(FedAvg(3, "draws"), lossy(), TARGET * SUCCESS, PULL),
    "fedavg draws, redrawn": Row(FedAvg(3, "draws"), redrawn(), TARGET * (GOOD + 0.05), REDRAWN_PULL),
    "fedavg draws, absences": Row(FedAvg(2, "draws"), ABSENT, received(TARGET, PI)),
    "fedavg all, links, steps and absences": Row(ALL, lossy(PI), TARGET * PI * SUCCESS, PULL),
    "fedavg all, correlated": Row(ALL, correlated(), TARGET * PI),
    "fedavg all, alike": Row(ALL, World(bernoulli(COUNT, 0.5), compute=1)),
    "fedavg received, links and absences": Row(FedAvg(), ABSENT_AND_LOST, received(TARGET, PI * SUCCESS)),
    "fedavg received, correlated": Row(FedAvg(), correlated(), received(TARGET, PI)),
    **{f"fedavg, separation {rest}": Row(FedAvg(), separated(rest), RATES[rest], task="equal") for rest in RATES},
    "unbiased, correlated": Row(Unbiased(), correlated()),
    "unbiased, links, steps and absences": Row(Unbiased(), lossy(PI), TARGET * SUCCESS, PULL),
    **{f"unbiased, separation {rest}": Row(Unbiased(), separated(rest)) for rest in (1, 3)},
    "more available, correlated": Row(MoreAvailable(0.5), correlated(), TARGET * (PI >= 0.5)),
    "fedavg draws, rests": Row(FedAvg(1, "draws"), ALWAYS, RESTED, rest=2),
    # Lossy links and unequal work: FedACS mends both, c-a-FedAvg and FedNova one each.
    "fedacs, links and steps": Row(FedACS(3), lossy(), pull=PULL / STEPS),
    "fedacs, redrawn": Row(FedACS(3), redrawn(), pull=redrawn_fedacs() / TARGET),
    "c-a-fedavg, links and steps": Row(CAFedAvg(3), lossy(), TARGET * 1.0, PULL),
    "c-a-fedavg, redrawn": Row(CAFedAvg(3), redrawn(), TARGET * 1.0, REDRAWN_PULL),
    "fednova, links and steps": Row(NOVA, lossy(), TARGET * SUCCESS, PULL / STEPS),
    "fednova, redrawn": Row(NOVA, redrawn(), TARGET * (GOOD + 0.05), per_step(FEW, MANY)),
    "stale fill, links and steps": Row(StaleFill(3), lossy(), TARGET * 1.0, PULL),
    # Heterogeneous Markov availability: consistent without knowing any rate.
    "fedau, correlated": Row(FedAU(cutoff=1000.0), correlated(), rounds=4000),
    "mifa, correlated": Row(MIFA(), correlated()),
    "fedlaavg, correlated": Row(FedLaAvg(cohort=2), correlated()),
    "fedawe, correlated": Row(FedAWE(), correlated()),
    "ca-fed that shuns bias, correlated": Row(CAFed(kappa=1e9), correlated()),
    # Everything at once: only LastWord is right, here and wherever another one is.
    "last word, links, steps and absences": Row(LastWord(), lossy(PI), pull=PULL / STEPS),
    "blended last word, links, steps and absences": Row(LastWord(rule="blend"), lossy(PI), pull=PULL / STEPS),
    "last word, joint": Row(LastWord(), joint(), pull=per_step(FEW, MANY)),
    "plain last word, joint": Row(LastWord(fading=0.0), joint(), pull=per_step(FEW, MANY)),
    "last word, links and steps": Row(LastWord(), lossy(), pull=PULL / STEPS),
    "last word, redrawn": Row(LastWord(), redrawn(), pull=per_step(FEW, MANY)),
    "last word, correlated": Row(LastWord(), correlated()),
    "last word, cohort": Row(LastWord(cohort=2), correlated()),
    # What fades tends to the target like the mean absence over the rounds played, so long absences take more rounds.
    **{f"last word, separation {rest}": Row(LastWord(), separated(rest), rounds=8000) for rest in RATES},
    "mifa, joint": Row(MIFA(), joint(), TARGET * 1.0, REDRAWN_PULL),
    # Minimum separation: debiased is consistent for every R.
    **{f"debiased, separation {rest}": Row(Debiased(), separated(rest), task="equal", rounds=4000) for rest in RATES},
    # Sampling schemes are unbiased for whoever is there.
    "optimal sampling, correlated": Row(OptimalSampling(2), correlated(), TARGET * PI),
    "norm sampling, correlated": Row(NormSampling(2), correlated(), TARGET * PI),
    "importance sampling, correlated": Row(ImportanceSampling(2), correlated(), TARGET * PI),
    "uniform sampling, correlated": Row(UniformSampling(2), correlated(), TARGET * PI),
}


# A strategy's second world, and samplers whose closed forms the audit's tests play as well.
SLOW = {
    "fedavg draws, redrawn",
    "fedavg draws, absences",
    "fedavg all, correlated",
    "fedavg all, alike",
    "fedavg received, correlated",
    "c-a-fedavg, redrawn",
    "fednova, redrawn",
    "stale fill, links and steps",
    "plain last word, joint",
    "last word, redrawn",
    "last word, cohort",
    "last word, separation 0",
    "last word, separation 1",
    "mifa, joint",
    "optimal sampling, correlated",
    "norm sampling, correlated",
    "importance sampling, correlated",
    "uniform sampling, correlated",
}


@pytest.mark.parametrize(
    "label", [pytest.param(label, marks=pytest.mark.slow) if label in SLOW else label for label in ROWS]
)
def test_the_limit_is_the_predicted_one(label):
    row = ROWS[label]
    task, local = TASKS[row.task], Local(learning_rate=RATE, batch_size=1)
    every = row.rounds
    run = simulate(
        task, row.world, row.strategy, rounds=every, seeds=SEEDS, local=local, evaluate_every=every, rest=row.rest
    )
    ends = np.asarray(run.params, np.float64)
    found, error = ends.mean(axis=0), ends.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    weights = np.asarray(task.fleet.target) if row.weights is None else row.weights
    pulls = jnp.asarray(weights * (1.0 if row.pull is None else row.pull), jnp.float32)
    assert (np.abs(found - np.asarray(task.minimiser(pulls))) <= 5 * error + 1e-3).all()
    if row.weights is not None:  # told apart from the optimum, or the row would prove nothing
        assert np.abs(found - np.asarray(task.optimum)).max() > 10 * error.max()
