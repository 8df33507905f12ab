"""Independent clients as one chain: its states are the sets of available clients, 2^N of them.

The second eigenvalue of such a chain is the largest of its clients' (Rodio et al. 2023, proposition 6): an eigenvalue
of a Kronecker product is a product of eigenvalues, one per factor, and each factor has the eigenvalue 1.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from turnout.arguments import at_least, refuse
from turnout.theory.chains import check_transition
from turnout.theory.two_state import Numbers, wake_and_sleep

MAX_STATES = 2**13
MAX_ROUNDS = 2**53  # from here on not every whole number is a float


def client_chains(pi: Numbers, lam: Numbers) -> list[np.ndarray]:
    """The transition matrix of each on/off client, [[1 - wake, wake], [sleep, 1 - sleep]]: state 0 is off, 1 is on."""
    wake, sleep = (np.atleast_1d(rate) for rate in wake_and_sleep(pi, lam))
    return [np.array([[1 - up, up], [down, 1 - down]]) for up, down in zip(wake, sleep, strict=True)]


def product_chain(transitions: Sequence[np.ndarray]) -> np.ndarray:
    """Transition matrix of independent chains side by side, their Kronecker product; the last chain moves fastest."""
    _check(transitions)
    checked = [np.asarray(check_transition(matrix)) for matrix in transitions]
    return functools.reduce(lambda slow, fast: np.kron(slow, fast), checked)


def product_masks(num_clients: int) -> np.ndarray:
    """Who is available in each of the 2^N states of the product of N on/off clients, as `finite_chain` takes it."""
    count = at_least("num_clients", num_clients, 1)
    _check_states(2.0**count, f"{count} on/off clients")
    return np.array(list(itertools.product((False, True), repeat=count)))


def product_mixing_bounds(pi: Numbers, lam: Numbers, error: float = 0.25) -> tuple[int, int]:
    """Between which rounds the chain of all clients comes within `error` of its law, from the worst start.

    With d_k(t) = |λ_k|^t max(π_k, 1 - π_k), the distance of client k, and b_k(t) the affinity Σ sqrt(P^t π) of its law
    at t with its stationary law, the distance d(t) of all clients together obeys

        max( max_k d_k, 1 - Π b_k ) ≤ d ≤ min( 1 - Π (1 - d_k), sqrt(1 - Π b_k²) ).

    O(N) per round looked at, for fleets of any size.
    """
    if not 0 < error < 1:
        raise ValueError(f"error = {error:g}: must lie in (0, 1)")
    rate, memory = (np.atleast_1d(value) for value in np.broadcast_arrays(pi, lam))
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
        if high > MAX_ROUNDS:
            raise RuntimeError(f"not reached within {MAX_ROUNDS} rounds")
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check(transitions: Sequence[np.ndarray]) -> None:
    if not transitions:
        raise ValueError("transitions is empty: give the matrix of at least one chain")
    _check_states(float(np.prod([float(len(matrix)) for matrix in transitions])), f"{len(transitions)} chains")


def _check_states(count: float, of: str) -> None:
    if count > MAX_STATES:
        raise ValueError(f"{of} together have {count:.6g} states: at most {MAX_STATES} can be listed")
