"""Transition matrices of finite chains, dense or sparse: what makes one valid, and the law by elimination."""

from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from turnout.declarations.arrays import MAX_NAMED, refuse

Matrix = TypeVar("Matrix", np.ndarray, sp.csr_array)

ROW_ERROR = 1e-6  # of the sum of a row: the rounding of six printed digits
MAX_LISTED_STATES = 12  # the parts of a larger reducible chain are only counted


def stochastic(matrix: Matrix) -> Matrix:
    """The matrix with rows that sum to one exactly; a ValueError if they are not probabilities."""
    least = np.min(matrix, axis=1) if isinstance(matrix, np.ndarray) else matrix.min(axis=1).toarray().ravel()
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    refuse(~(least >= 0), lambda s: f"transition row {s} has {least[s]:g}", "probabilities must not be negative")
    refuse(
        ~(np.abs(sums - 1) <= ROW_ERROR), lambda s: f"transition row {s} sums to {sums[s]:g}", "every row must sum to 1"
    )
    if isinstance(matrix, np.ndarray):
        return matrix / sums[:, None]
    return sp.csr_array(sp.diags_array(1 / sums) @ matrix)


def require_irreducible(matrix: np.ndarray | sp.csr_array) -> None:
    """Refuse a chain with a state that cannot be reached from another one."""
    count, group = connected_components(matrix > 0, connection="strong")
    if count == 1:
        return
    if group.size <= MAX_LISTED_STATES:
        parts = str([np.flatnonzero(group == g).tolist() for g in range(count)])
    else:
        sizes = sorted(np.bincount(group).tolist(), reverse=True)
        more = ", …" if count > MAX_NAMED else ""
        parts = f"{count} parts of {', '.join(map(str, sizes[:MAX_NAMED]))}{more} states"
    raise ValueError(
        f"transition is not irreducible, its states fall into {parts}: "
        "every state must be reachable from every other, else there is no single long-run law"
    )


def stationary_law(transition: np.ndarray) -> np.ndarray:
    """Stationary law of an irreducible chain, by elimination of states (Grassmann, Taksar & Heyman 1985).

    It subtracts nothing, so small probabilities are as exact as large ones.
    """
    reduced = transition.astype(np.float64).copy()
    last = len(reduced) - 1
    for s in range(last, 0, -1):
        reduced[:s, s] /= reduced[s, :s].sum()
        reduced[:s, :s] += np.outer(reduced[:s, s], reduced[s, :s])
    law = np.ones(len(reduced))
    for s in range(1, last + 1):
        law[s] = law[:s] @ reduced[:s, s]
    return law / law.sum()
