"""What the word of a client that leaves does to a sum that the server keeps without rows: c, h and y.

    python benchmarks/leaving.py [STRATEGY]

Ten clients with quadratics, each in half of the rounds. One of them, whose optimum is far from all others', leaves
with a goodbye, or without. Printed is the distance of the model from the optimum of the nine that stay, over the
distance of the two optima, and where the theory says that it ends.
"""

import copy
import sys

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.strategies import FOCUS, SCAFFOLD, AmplifiedSCAFFOLD, FedDyn
from turnout.tasks.quadratics import Quadratics
from turnout.testing.by_hand import RATE, HandDriven, Happening
from turnout.types import Known

COUNT, LEAVER, STEPS, BEFORE, AFTER = 10, 3, 3, 60, 150
STRATEGIES = (SCAFFOLD(), FedDyn(alpha=1.0), FOCUS(length=STEPS), AmplifiedSCAFFOLD(window=5, gain=1.0))


def fleet(seed):
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(COUNT, 3))
    centres[LEAVER] += 10.0
    return Quadratics.of(centres=centres, curvature=draw.uniform(0.5, 1.5, COUNT), start=np.zeros(3))


def optimum(task, who):
    pull = np.asarray(task.curvature, np.float64)[who]
    return pull @ np.asarray(task.centres, np.float64)[who] / pull.sum()


def played(drive, draw, rounds, first, gone=False):
    """The same server after more rounds; one that is gone does not come."""
    ones = jnp.ones(COUNT)
    for t in range(first, first + rounds):
        here = draw.random(COUNT) < 0.5
        here[LEAVER] &= not gone
        known = Known(ones * 0.5, ones * 0.0, ones, ones * STEPS)
        drive.play_round(t, jr.key(0), Happening(here, np.ones(COUNT, bool), np.full(COUNT, STEPS)), known)
    return drive


def ghost(task, strategy, seed):
    """Distances some rounds later, with and without a goodbye, and the one that theory gives without."""
    everybody, staying = np.arange(COUNT), np.arange(COUNT) != LEAVER
    drive = played(HandDriven(strategy, task), np.random.default_rng(seed), BEFORE, 0)
    goal, whole = optimum(task, staying), optimum(task, everybody)
    said = -np.asarray(
        strategy.client_side.goodbye(drive._kept[LEAVER]).update, np.float64
    )  # g, the word that the server has of it
    pull = np.asarray(task.curvature, np.float64)[staying]
    theory = np.linalg.norm(said) / pull.sum()  # from Σ h_k (w - e_k) + g = 0 over those that stay
    found = []
    for says in (True, False):
        one = copy.copy(drive)
        one._kept = list(drive._kept)
        if says:
            one.say_goodbye(LEAVER)
        one = played(one, np.random.default_rng(seed + 1), AFTER, BEFORE, gone=True)
        found.append(np.linalg.norm(np.asarray(one.state.params) - goal))
    return np.array([*found, theory]) / np.linalg.norm(whole - goal)


def main():
    print(f"{STEPS} steps of rate {RATE}; {BEFORE} rounds before and {AFTER} after it has left")
    print("strategy, with a goodbye, without, theory without")
    for strategy in STRATEGIES:
        if type(strategy).__name__ in (sys.argv[1:] or [type(strategy).__name__]):
            found = ghost(fleet(0), strategy, 0)
            print(type(strategy).__name__, *(f"{distance:.2g}" for distance in found), flush=True)


if __name__ == "__main__":
    main()
