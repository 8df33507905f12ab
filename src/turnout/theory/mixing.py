"""How far a finite chain is from its law, round after round; when it forgets its start, and when it comes back."""

from __future__ import annotations

import numpy as np

from turnout.arguments import at_least
from turnout.theory.chains import Checked, Transition, check_transition, num_states, require_ergodic, stationary_law

MAX_STARTS = 3000  # all starts together are one dense matrix
MAX_ROUNDS = 1_000_000  # followed one by one from a given start
MAX_DOUBLINGS = 50

Start = int | np.ndarray | None


def total_variation_over_time(transition: Transition, rounds: int, start: Start = None) -> np.ndarray:
    """d(t) = ½ Σ_y |P(state y after t rounds) - π_y| for t = 0 … rounds; it never increases.

    `start` is a state or a law; if none is given, d(t) is that of the worst start, max_x ‖P^t(x, ·) - π‖.
    """
    matrix = check_transition(transition)
    law, now = stationary_law(matrix), _start(matrix, start)
    distances = np.empty(at_least("rounds", rounds, 0) + 1)
    for t in range(distances.size):
        if t:
            now = now @ matrix
        distances[t] = _distance(now, law)
    return distances


def mixing_time(transition: Transition, error: float = 0.25, start: Start = None) -> int:
    """First round t with d(t) ≤ error, d as in `total_variation_over_time`; exact, by doubling for the worst start.

    From a given start the chain is followed for up to a million rounds, which suits large sparse chains.
    """
    if not 0 < error < 1:
        raise ValueError(f"error = {error:g}: must lie in (0, 1)")
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


def return_law(transition: Transition, inside: np.ndarray, longest: int) -> np.ndarray:
    """P(the chain comes back to a set of states s rounds after a visit), s = 1 … longest, in the long run.

    With ν the stationary law given that the state is inside, Q the transitions that end outside and r(x) the
    probability to step inside from x: P(return after s) = ν Q^{s-1} r. 1 minus their sum is the probability of a longer
    absence. By Kac's formula the mean is one over the stationary probability of the set.
    """
    matrix = check_transition(transition)
    longest = at_least("longest", longest, 1)
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
    if isinstance(start, np.ndarray):
        if start.shape != (size,) or not (start >= 0).all() or abs(start.sum() - 1) > 1e-6:
            raise ValueError(f"start: must be a law over the {size} states, without negative entries and with sum 1")
        return start / start.sum()
    if not 0 <= start < size:
        raise ValueError(f"start = {start}: the states are 0 to {size - 1}")
    return np.eye(1, size, start)[0]


def _distance(rows: np.ndarray, law: np.ndarray) -> float:
    return float(np.abs(rows - law).sum(axis=-1).max() / 2)
