"""Eigenvalues of finite chains, which say how fast a chain forgets its start."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, eigs, eigsh

from turnout.availability.mathematics.transition import require_irreducible
from turnout.declarations import Count, checked
from turnout.theory.chains import Transition, check_transition, has_narrow_band, is_reversible, num_states, period

DENSE_STATES = 1000  # up to here all eigenvalues are computed, by dense algebra
SHIFT_MARGIN = 1e-8  # distance of the shift of shift-and-invert above the largest eigenvalue
MIN_SUBSPACE, RESTARTS = 40, 40  # vectors that the Arnoldi iteration keeps, and its restarts


@checked
def eigenvalues(transition: Transition, count: Count | None = None) -> np.ndarray:
    """Eigenvalues by decreasing modulus, the first being 1; real for a reversible chain, else complex in general.

    All of them, or the first `count`. Above 1,000 states give a `count`, at most the number of states minus 3. If such
    a chain is not reversible, only eigenvalues that stand apart from the others can be computed, else a RuntimeError.
    """
    matrix = check_transition(transition)
    require_irreducible(matrix)
    size = num_states(matrix)
    wanted = size if count is None else min(count, size)
    if size <= DENSE_STATES:
        dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        values = np.linalg.eigvalsh(np.sqrt(dense * dense.T)) if is_reversible(dense) else np.linalg.eigvals(dense)
        return _by_modulus(values)[:wanted]
    if wanted > size - 3:
        raise ValueError(f"count = {wanted} of {size} states: must be at most {size - 3}")
    sparse = sp.csr_array(matrix)
    values = _ends(sparse, wanted) if is_reversible(sparse) else _converge(eigs, sparse, wanted, "LM", _start(size))
    return _by_modulus(values)[:wanted]


@checked
def second_eigenvalue(transition: Transition) -> float:
    """λ(P), the largest modulus among the eigenvalues other than 1; it is 1 for a periodic chain, 0 for one state."""
    matrix = check_transition(transition)
    if period(matrix) > 1:
        return 1.0
    if num_states(matrix) == 1:
        return 0.0
    return float(min(np.abs(eigenvalues(matrix, 2)[1]), 1.0))


def _ends(matrix: sp.csr_array, count: int) -> np.ndarray:
    """Both ends of the spectrum of a reversible chain, which is that of the symmetric matrix sqrt(P_xy P_yx)."""
    symmetric = sp.csr_array((matrix * matrix.T).sqrt())
    start = _start(num_states(matrix))
    if not has_narrow_band(matrix):
        return np.concatenate([_converge(eigsh, symmetric, count, which, start) for which in ("LA", "SA")])
    # Both ends of S are one end of S², near which a factorisation works however slow the chain is. S within the
    # subspace gives the signs back. One more than asked for, so that a pair of opposite signs is not cut in half.
    squared = sp.csc_matrix(symmetric @ symmetric)
    _, vectors = eigsh(squared, count + 1, sigma=1 + SHIFT_MARGIN, v0=start)
    return np.linalg.eigvalsh(vectors.T @ (symmetric @ vectors))


def _converge(
    solver: Callable[..., Any], matrix: sp.csr_array, count: int, which: str, start: np.ndarray
) -> np.ndarray:
    vectors = min(num_states(matrix) - 1, max(MIN_SUBSPACE, 2 * count + 1))
    try:
        return solver(matrix, count, which=which, ncv=vectors, v0=start, maxiter=RESTARTS, return_eigenvectors=False)
    except ArpackNoConvergence as failure:
        raise RuntimeError(
            f"the eigenvalues of {num_states(matrix)} states did not converge: none stands apart enough for an "
            "iteration; total_variation_over_time follows the chain round by round from a given start"
        ) from failure


def _start(size: int) -> np.ndarray:
    """A fixed vector to iterate from, so that results repeat. A constant vector would not do: it is an eigenvector."""
    return np.random.default_rng(0).random(size)


def _by_modulus(values: np.ndarray) -> np.ndarray:
    """Sort by decreasing modulus; among equals the larger real part first, so that 1 comes before -1."""
    return values[np.lexsort((-np.real(values), -np.round(np.abs(values), 12)))]
