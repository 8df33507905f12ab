"""FOCUS's quadratics: 16 linear regressions whose common optimum is known, and how close a strategy comes to it.

The problem of the public code of Ying et al. 2025, with clients that come as they like, some rarely and some often.
"""

import numpy as np

from played_in_time import Fleet, play
from turnout import Local, Rounds, World, simulate
from turnout.availability import bernoulli
from turnout.tasks.quadratics import Quadratics
from turnout.workbench.reproduction.regressions import shared_regression

COUNT, ROWS, DIMENSION, STEPS, ROUNDS, RATE = 16, 500, 50, 3, 500, 1e-4
FLOOR = 2e-6  # of single precision; FedAvg ends at 1e-4 and more
PRESENT = np.linspace(0.08, 0.42, COUNT)  # four clients a round in the mean


def regressions(importance=None):
    """Sums of squares ½‖A_k x - b_k‖² as quadratics."""
    task = shared_regression(COUNT, ROWS, DIMENSION)
    centres, curvature = (np.asarray(values, np.float64) for values in (task.centres, task.curvature))
    return Fleet(centres, curvature, np.ones(COUNT) if importance is None else np.asarray(importance, np.float64))


def optimum(fleet):
    pull = np.einsum("k,kij,kj->i", fleet.share, fleet.curvature, fleet.centres)
    return np.linalg.solve(np.einsum("k,kij->ij", fleet.share, fleet.curvature), pull)


def task(fleet):
    return Quadratics.of(fleet.centres, fleet.curvature, importance=fleet.importance.tolist())


def settled(fleet, rate=RATE):
    """Where the updates of all clients, by their targets, sum to zero: off the optimum by the drift of their steps."""
    eye = np.eye(DIMENSION)
    pulls = [
        share * (eye - np.linalg.matrix_power(eye - rate * bend, STEPS))
        for share, bend in zip(fleet.share, fleet.curvature, strict=True)
    ]
    return np.linalg.solve(sum(pulls), sum(pull @ centre for pull, centre in zip(pulls, fleet.centres, strict=True)))


def distances(strategy, twin, fleet, rate=RATE, goal=None, world=None):
    """How far simulator and twin end from the optimum or another goal, over the norm of that."""
    world = world or World(bernoulli(COUNT, PRESENT.tolist()), compute=STEPS)
    run = simulate(task(fleet), world, strategy, rounds=ROUNDS, local=Local(learning_rate=rate, batch_size=1))
    plain = play(world, fleet, Rounds(), twin, ROUNDS, lambda version: rate, start=np.zeros(DIMENSION))
    best = optimum(fleet) if goal is None else goal
    return [np.linalg.norm(model - best) / np.linalg.norm(best) for model in (run.params[0], plain.model)]
