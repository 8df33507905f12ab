"""One on/off client, whose algebra follows from its stationary rate π and correlation λ, and many independent ones.

Functions of one client take numbers or arrays, which are paired entry by entry, and return arrays.

Independent clients are one chain, whose states are the 2^N sets of available clients. Its second eigenvalue is the
largest of its clients' (Rodio et al. 2023, proposition 6): an eigenvalue of a Kronecker product is a product of
eigenvalues, one per factor, and each factor has the eigenvalue 1.
"""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from turnout.availability.markov import switching_rates
from turnout.declarations import MAX_WHOLE, Count, OpenShare, checked
from turnout.declarations.arrays import refuse
from turnout.theory.chains import check_transition

OneOrSeveral = float | int | Sequence[float | int] | np.ndarray
MAX_STATES = 2**13


@checked
def wake_and_sleep(pi: OneOrSeveral, lam: OneOrSeveral) -> tuple[np.ndarray, np.ndarray]:
    """P(off → on) = (1 - λ) π and P(on → off) = (1 - λ)(1 - π); a ValueError for a pair (π, λ) that no chain has."""
    rate, correlation = _pair(pi, lam)
    wake, sleep = switching_rates(rate.ravel(), correlation.ravel())
    return wake.reshape(rate.shape), sleep.reshape(rate.shape)


@checked
def mean_on_run(pi: OneOrSeveral, lam: OneOrSeveral) -> np.ndarray:
    """Expected number of rounds that an available client stays, 1 / ((1 - λ)(1 - π)); infinite for π = 1."""
    _, sleep = wake_and_sleep(pi, lam)
    return np.where(sleep > 0, 1 / np.where(sleep > 0, sleep, 1), np.inf)


@checked
def mean_off_run(pi: OneOrSeveral, lam: OneOrSeveral) -> np.ndarray:
    """Expected number of rounds that an absent client stays away, 1 / ((1 - λ) π)."""
    wake, _ = wake_and_sleep(pi, lam)
    return np.asarray(1 / wake)


@checked
def effective_rounds(lam: OneOrSeveral, rounds: Count) -> np.ndarray:
    """Number of independent rounds whose mean availability has the same variance as T rounds of the chain, exact.

    T² / Σ_{s,t < T} λ^|s-t|, which is T for λ = 0 and tends to T (1 - λ)/(1 + λ); infinite where the variance is 0.
    """
    total = _summed_correlations(lam, rounds)
    return np.where(total > 0, rounds**2 / np.where(total > 0, total, 1), np.inf)


@checked
def variance_of_mean(pi: OneOrSeveral, lam: OneOrSeveral, rounds: Count) -> np.ndarray:
    """Variance of the share of T rounds in which a stationary client is available, exact for every T.

    π(1 - π)/T² · Σ_{s,t < T} λ^|s-t| = π(1 - π)/T² · [ T (1 + λ)/(1 - λ) - 2λ (1 - λ^T)/(1 - λ)² ].
    """
    rate, correlation = _pair(pi, lam)
    wake_and_sleep(rate, correlation)
    return np.asarray(rate * (1 - rate) * _summed_correlations(correlation, rounds) / rounds**2)


def _summed_correlations(lam: OneOrSeveral, rounds: int) -> np.ndarray:
    """Σ_{s,t < T} λ^|s-t|, by doubling T: positive terms only for λ > 0, where the closed form cancels near λ = 1.

    With g_T = Σ_{k < T} λ^k: S_{2T} = 2 S_T + 2λ g_T², and S_{T+1} = S_T + 1 + 2λ g_T.
    """
    correlation = np.asarray(lam, dtype=np.float64)
    _check_correlation(correlation)
    total, geometric, power = np.ones_like(correlation), np.ones_like(correlation), correlation  # T = 1
    for bit in bin(rounds)[3:]:
        total, geometric, power = 2 * total + 2 * correlation * geometric**2, geometric * (1 + power), power**2
        if bit == "1":
            total, geometric, power = total + 1 + 2 * correlation * geometric, geometric + power, power * correlation
    return np.asarray(np.maximum(total, 0.0))


def _check_correlation(lam: np.ndarray) -> None:
    flat = lam.ravel()
    refuse(~((flat >= -1) & (flat < 1)), lambda k: f"client {k} has lam = {flat[k]:g}", "must lie in [-1, 1)")


def _pair(first: OneOrSeveral, second: OneOrSeveral) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    try:
        left, right = np.broadcast_arrays(left, right)
    except ValueError:
        raise ValueError(f"pi has shape {left.shape}, but lam {right.shape}: give one pair for each client") from None
    return np.array(left), np.array(right)


@checked
def client_chains(pi: OneOrSeveral, lam: OneOrSeveral) -> list[np.ndarray]:
    """The transition matrix of each on/off client, [[1 - wake, wake], [sleep, 1 - sleep]]: state 0 is off, 1 is on."""
    wake, sleep = (rate.ravel() for rate in wake_and_sleep(pi, lam))
    return [np.array([[1 - up, up], [down, 1 - down]]) for up, down in zip(wake, sleep, strict=True)]


@checked
def product_chain(transitions: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Transition matrix of independent chains side by side, their Kronecker product; the last chain moves fastest."""
    _check(transitions)
    checked = [np.asarray(check_transition(matrix)) for matrix in transitions]
    return functools.reduce(lambda slow, fast: np.kron(slow, fast), checked)


@checked
def product_masks(num_clients: Count) -> np.ndarray:
    """Who is available in each of the 2^N states of the product of N on/off clients, as `finite_chain` takes it."""
    count = num_clients
    _check_states(2.0 ** min(count, 1000), f"{count} on/off clients")
    return np.array(list(itertools.product((False, True), repeat=count)))


@checked
def product_mixing_bounds(pi: OneOrSeveral, lam: OneOrSeveral, error: OpenShare = 0.25) -> tuple[int, int]:
    """Between which rounds the chain of all clients comes within `error` of its law, from the worst start.

    With d_k(t) = |λ_k|^t max(π_k, 1 - π_k), the distance of client k, and b_k(t) the affinity Σ sqrt(P^t π) of its law
    at t with its stationary law, the distance d(t) of all clients together obeys

        max( max_k d_k, 1 - Π b_k ) ≤ d ≤ min( 1 - Π (1 - d_k), sqrt(1 - Π b_k²) ).

    O(N) per round looked at, for fleets of any size.
    """
    rate, memory = (value.ravel() for value in _pair(pi, lam))
    wake_and_sleep(rate, memory)
    refuse(memory <= -1, lambda k: f"client {k} has lam = {memory[k]:g}", "must be above -1 to forget its start")
    rate, memory = rate[rate < 1], memory[rate < 1]  # a client that never leaves is always at its law
    rare = np.minimum(rate, 1 - rate)

    def distances(t: int) -> np.ndarray:
        # From the rarer of its two states a client is farthest from its law.
        return np.abs(memory) ** t * (1 - rare)

    def affinities(t: int, pick: Callable[..., np.ndarray]) -> float:
        # A client with λ < 0 jumps from one side of its law to the other. The pick of both sides is monotone in t.
        left = np.abs(memory) ** t
        ahead = _affinity(rare, left)
        either = pick(ahead, np.where((memory < 0) & (t > 0), _affinity(rare, -left), ahead))
        return float(np.log(np.minimum(either, 1)).sum())

    def lower(t: int) -> float:
        return max(float(distances(t).max(initial=0.0)), -np.expm1(affinities(t, np.maximum)))

    def upper(t: int) -> float:
        return min(-np.expm1(np.log1p(-distances(t)).sum()), np.sqrt(-np.expm1(2 * affinities(t, np.minimum))))

    return _first(lambda t: lower(t) <= error), _first(lambda t: upper(t) <= error)


def _affinity(rare: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Σ sqrt(P^t π) from the worse of a client's states, with `rare` the π of the rarer one and `left` = λ^t."""
    starts = [np.clip(now, 0, 1) for now in (rare + left * (1 - rare), rare - left * rare)]
    return np.minimum(*(np.sqrt(rare * now) + np.sqrt((1 - rare) * (1 - now)) for now in starts))


def _first(holds: Callable[[int], bool]) -> int:
    """The first t ≥ 0 at which a condition holds that never fails again once it holds."""
    high = 1
    while not holds(high):
        if high > MAX_WHOLE:
            raise RuntimeError(f"not reached within {MAX_WHOLE} rounds")
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check(transitions: Sequence[np.ndarray] | np.ndarray) -> None:
    if isinstance(shape := getattr(transitions, "shape", None), tuple) and len(shape) != 3:
        raise ValueError(f"transitions is one array of shape {shape}: give one square matrix per chain")
    if len(transitions) == 0:
        raise ValueError("transitions is empty: give the matrix of at least one chain")
    if any(np.ndim(matrix) != 2 for matrix in transitions):
        raise ValueError("transitions must be one square matrix per chain")
    _check_states(float(np.prod([float(len(matrix)) for matrix in transitions])), f"{len(transitions)} chains")


def _check_states(count: float, of: str) -> None:
    if count > MAX_STATES:
        raise ValueError(f"{of} together have {count:.6g} states: at most {MAX_STATES} can be listed")
