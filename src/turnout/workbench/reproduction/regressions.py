"""Least squares that several clients share, as in the notebook of FOCUS: its optimum is known exactly."""

from __future__ import annotations

import numpy as np

from turnout.declarations import Count, Seed, checked
from turnout.tasks.quadratics import Quadratics


@checked
def shared_regression(
    num_clients: Count = 16, rows: Count = 500, dimension: Count = 50, noise: float = 0.1, seed: Seed = 0
) -> Quadratics:
    """Every client has F_i(x) = ½ ‖A_i x - b_i‖², the sum over its rows, with b = A x_o + noise.

    Rows are N(0, I) times a number from U(0.5, 1), and x_o ~ N(0, I). Lengths are in units of the optimum's, so that
    the distance to it is a relative one.
    """
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((num_clients, rows, dimension))
    matrix *= generator.uniform(0.5, 1.0, (num_clients, rows, 1))
    truth = generator.standard_normal(dimension)
    values = matrix @ truth + noise * generator.standard_normal((num_clients, rows))
    bends = np.einsum("krd,kre->kde", matrix, matrix)
    pulls = np.einsum("krd,kr->kd", matrix, values)
    optimum = np.linalg.solve(bends.sum(axis=0), pulls.sum(axis=0))
    centres = np.linalg.solve(bends, pulls[..., None])[..., 0]
    return Quadratics.of(centres / np.linalg.norm(optimum), (bends + bends.swapaxes(1, 2)) / 2)
