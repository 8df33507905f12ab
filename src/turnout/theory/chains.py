"""Finite chains given by their transition matrix, dense or sparse: their law, and how they approach it.

A chain of 100,000 states takes seconds if its matrix is sparse.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, reverse_cuthill_mckee, shortest_path
from scipy.sparse.linalg import splu

from turnout.availability.mathematics.transition import require_irreducible, stochastic
from turnout.availability.mathematics.transition import stationary_law as law_by_elimination
from turnout.declarations import Count, CountOrZero, OpenShare, checked

Transition = np.ndarray | sp.sparray | sp.spmatrix
Checked = np.ndarray | sp.csr_array

DENSE_STATES = 600  # up to here a sparse matrix is treated as a dense one
BALANCE_ERROR = 1e-10  # relative error of detailed balance that rounding may cause in a reversible chain
MAX_BAND_ENTRIES = 1e8  # a factorisation within a band of so many entries is cheap
MAX_STEPS, STEPS_PER_CHECK = 20_000, 50  # of the iteration, for chains without a cheap factorisation
LAW_ERROR = 1e-13  # Σ |error| of an iterated law
MAX_RESIDUAL = 1e-12  # Σ |πP - π| above which a computed law is refused
MAX_STARTS = 3000  # all starts together are one dense matrix
MAX_ROUNDS = 1_000_000  # followed one by one from a given start
MAX_DOUBLINGS = 50
Start = int | np.ndarray | None


def check_transition(transition: Transition) -> Checked:
    """The matrix in float64, rows summing to one exactly; refused where it is not square or not stochastic."""
    shape = _shape(transition)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"transition has shape {shape}: must be square, one row and one column per state")
    if isinstance(transition, np.ndarray):
        return stochastic(transition.astype(np.float64))
    matrix = stochastic(sp.csr_array(transition, dtype=np.float64))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def num_states(matrix: Checked) -> int:
    return len(matrix) if isinstance(matrix, np.ndarray) else len(matrix.indptr) - 1


@checked
def stationary_law(transition: Transition) -> np.ndarray:
    """The law π of an irreducible chain with π P = π, Σ π = 1; the chain may be periodic.

    Dense matrices, and sparse ones of few states, are solved by elimination without subtractions: every entry is exact
    to rounding. A reversible sparse chain is solved by detailed balance along a spanning tree, also exact entry by
    entry. One whose states can be ordered into a narrow band is factorised. Any other is iterated to an error below
    1e-13 in total; a RuntimeError says where that takes too long.
    """
    matrix = check_transition(transition)
    require_irreducible(matrix)
    if isinstance(matrix, np.ndarray):
        return law_by_elimination(matrix)
    if num_states(matrix) <= DENSE_STATES:
        return law_by_elimination(matrix.toarray())
    log_law = _balanced_log_law(matrix)
    if log_law is not None:
        law = np.exp(log_law - log_law.max())
        return law / law.sum()
    return _verify(matrix, _factorised_law(matrix) if has_narrow_band(matrix) else _iterated_law(matrix))


@checked
def period(transition: Transition) -> int:
    """Greatest common divisor of the lengths of all paths from a state back to itself; 1 for an aperiodic chain.

    With d(x) the fewest steps from state 0, it is the greatest common divisor of d(x) + 1 - d(y) over all steps x → y.
    """
    matrix = check_transition(transition)
    require_irreducible(matrix)
    distance = shortest_path(sp.csr_array(matrix), unweighted=True, indices=0).astype(np.int64)
    before, after = matrix.nonzero()
    return int(np.gcd.reduce(distance[before] + 1 - distance[after]))


@checked
def is_reversible(transition: Transition) -> bool:
    """Whether π_x P_xy = π_y P_yx for all x, y, up to rounding, for an irreducible chain."""
    matrix = sp.csr_array(check_transition(transition))
    require_irreducible(matrix)
    return _balanced_log_law(matrix) is not None


def require_ergodic(transition: Transition) -> None:
    """Refuse a chain that is reducible or periodic: from some start its law does not tend to the stationary one."""
    length = period(transition)
    if length > 1:
        raise ValueError(
            f"transition has period {length}: the chain never forgets its start; "
            f"look at one round in {length} only, or let it stay where it is with some probability"
        )


def has_narrow_band(matrix: sp.csr_array) -> bool:
    """Whether some order of the states brings all entries near the diagonal, so that factors stay small."""
    order = reverse_cuthill_mckee(sp.csr_array(matrix + matrix.T), symmetric_mode=True)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    before, after = matrix.nonzero()
    return float(np.abs(place[before] - place[after]).max()) * order.size <= MAX_BAND_ENTRIES


def _shape(transition: Any) -> tuple[int, ...]:  # sparse arrays come without types
    return transition.shape


def _balanced_log_law(matrix: sp.csr_array) -> np.ndarray | None:
    """Logarithms of π up to a constant if the chain is reversible, else None."""
    backward = sp.csr_array(matrix.T)
    backward.sort_indices()
    if not (np.array_equal(matrix.indices, backward.indices) and np.array_equal(matrix.indptr, backward.indptr)):
        return None
    log_odds = sp.csr_array((np.log(matrix.data) - np.log(backward.data), matrix.indices, matrix.indptr))
    order, parents = breadth_first_order(matrix, 0)
    rises = np.zeros(order.size)
    rises[order[1:]] = np.asarray(log_odds[parents[order[1:]], order[1:]]).ravel()
    log_law = [0.0] * order.size
    for state, parent, rise in zip(
        order[1:].tolist(), parents[order[1:]].tolist(), rises[order[1:]].tolist(), strict=True
    ):
        log_law[state] = log_law[parent] + rise
    values = np.array(log_law)
    before, after = np.repeat(np.arange(order.size), np.diff(matrix.indptr)), matrix.indices
    return values if np.abs(values[before] + log_odds.data - values[after]).max() <= BALANCE_ERROR else None


def _factorised_law(matrix: sp.csr_array) -> np.ndarray:
    """Fix π_0 = 1 and solve for the rest, π_rest (I - P_rest) = P_0: an M-matrix, for which no pivoting is needed."""
    inner = sp.csc_array((sp.eye_array(num_states(matrix)) - matrix).T)[1:, 1:]
    factors = splu(
        sp.csc_matrix(inner), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    return np.r_[1.0, factors.solve(matrix[[0]].toarray()[0, 1:])]


def _iterated_law(matrix: sp.csr_array) -> np.ndarray:
    """Iterate the chain that stays put with probability 1/2, which has the same law and no period."""
    backward = sp.csr_array(matrix.T)
    law, earlier, rate = np.full(num_states(matrix), 1 / num_states(matrix)), np.inf, 1.0
    change = np.inf
    for step in range(MAX_STEPS):
        after = (law + backward @ law) / 2
        change = float(np.abs(after - law).sum())
        law = after
        if step % STEPS_PER_CHECK == STEPS_PER_CHECK - 1:
            if change > 10 * LAW_ERROR:  # below that the rate of decay drowns in rounding
                rate = (change / earlier) ** (1 / STEPS_PER_CHECK) if np.isfinite(earlier) else 1.0
            earlier = change
            if change == 0 or (rate < 1 and change * rate / (1 - rate) <= LAW_ERROR):
                return law
    raise RuntimeError(
        f"the stationary law of {num_states(matrix)} states did not settle in {MAX_STEPS} steps, the last of which "
        f"changed it by {change:.1e}: the chain forgets too slowly and has no narrow band to factorise"
    )


def _verify(matrix: sp.csr_array, law: np.ndarray) -> np.ndarray:
    law = law / law.sum()
    residual = float(np.abs(law @ matrix - law).sum())
    if not residual <= MAX_RESIDUAL or law.min() < 0:
        raise RuntimeError(f"the stationary law of {law.size} states is left with a residual of {residual:.1e}")
    return law


@checked
def total_variation_over_time(transition: Transition, rounds: CountOrZero, start: Start = None) -> np.ndarray:
    """d(t) = ½ Σ_y |P(state y after t rounds) - π_y| for t = 0 … rounds; it never increases.

    `start` is a state or a law; if none is given, d(t) is that of the worst start, max_x ‖P^t(x, ·) - π‖.
    """
    matrix = check_transition(transition)
    law, now = stationary_law(matrix), _start(matrix, start)
    distances = np.empty(rounds + 1)
    for t in range(distances.size):
        if t:
            now = now @ matrix
        distances[t] = _distance(now, law)
    return distances


@checked
def mixing_time(transition: Transition, error: OpenShare = 0.25, start: Start = None) -> int:
    """First round t with d(t) ≤ error, d as in `total_variation_over_time`; exact, by doubling for the worst start.

    From a given start the chain is followed for up to a million rounds, which suits large sparse chains.
    """
    matrix = check_transition(transition)
    require_ergodic(matrix)
    law, now = stationary_law(matrix), _start(matrix, start)
    if now.ndim == 2:
        return _by_doubling(now @ matrix, law, error) if _distance(now, law) > error else 0
    for t in range(MAX_ROUNDS + 1):
        if _distance(now, law) <= error:
            return t
        now = now @ matrix
    raise RuntimeError(
        f"after {MAX_ROUNDS} rounds the chain is still {_distance(now, law):.3g} from its law, more than {error:g}: "
        "too slow to follow; second_eigenvalue says how slow"
    )


@checked
def return_law(transition: Transition, inside: np.ndarray, longest: Count) -> np.ndarray:
    """P(the chain comes back to a set of states s rounds after a visit), s = 1 … longest, in the long run.

    With ν the stationary law given that the state is inside, Q the transitions that end outside and r(x) the
    probability to step inside from x: P(return after s) = ν Q^{s-1} r. 1 minus their sum is the probability of a longer
    absence. By Kac's formula the mean is one over the stationary probability of the set.
    """
    matrix = check_transition(transition)
    if inside.shape != (num_states(matrix),):
        raise ValueError(
            f"inside has shape {inside.shape}: must be one truth value for each of {num_states(matrix)} states"
        )
    in_set = inside.astype(bool)
    if not in_set.any():
        raise ValueError("inside names no state: at least one must be in the set")
    now = np.where(in_set, stationary_law(matrix), 0.0)
    now /= now.sum()
    law = np.empty(longest)
    for s in range(longest):
        after = now @ matrix
        law[s] = after[in_set].sum()
        now = np.where(in_set, 0.0, after)
    return law


def _by_doubling(matrix: np.ndarray, law: np.ndarray, error: float) -> int:
    """Square P until a power is near enough to its limit, then bisect between the last two powers."""
    powers = [matrix]
    while _distance(powers[-1], law) > error:
        if len(powers) > MAX_DOUBLINGS:
            raise RuntimeError(f"the chain is not within {error:g} of its law after 2^{MAX_DOUBLINGS} rounds")
        squared = powers[-1] @ powers[-1]
        powers.append(squared / squared.sum(axis=1, keepdims=True))
    reached, rounds = np.eye(len(law)), 0
    for k in range(len(powers) - 2, -1, -1):
        further = reached @ powers[k]
        if _distance(further, law) > error:
            reached, rounds = further, rounds + 2**k
    return rounds + 1


def _start(matrix: Checked, start: Start) -> np.ndarray:
    size = num_states(matrix)
    if start is None:
        if size > MAX_STARTS:
            raise ValueError(
                f"the worst start of {size} states cannot be searched (at most {MAX_STARTS} states): name a start"
            )
        return np.eye(size)
    if not isinstance(start, int):
        start = np.asarray(start, np.float64)
        if start.shape != (size,) or not (start >= 0).all() or abs(start.sum() - 1) > 1e-6:
            raise ValueError(f"start: must be a law over the {size} states, without negative entries and with sum 1")
        return start / start.sum()
    if not 0 <= start < size:
        raise ValueError(f"start = {start}: the states are 0 to {size - 1}")
    return np.eye(1, size, start)[0]


def _distance(rows: np.ndarray, law: np.ndarray) -> float:
    return float(np.abs(rows - law).sum(axis=-1).max() / 2)
