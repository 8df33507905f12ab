"""How FedLaAvg converges: theorems 2 to 4 of Yan et al. 2020 with the learning rates they suggest, term by term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.arguments import at_least, check_nonnegative, check_positive, check_step
from turnout.theory.terms import Terms


@dataclass(frozen=True)
class StaleBound(Terms):
    """Mean of E‖∇f‖² ≤ start + noise + stale_noise + staleness."""

    start: float  # the gap f(x⁰) − f*, worked off
    noise: float  # of the gradients, averaged over N clients
    stale_noise: float  # of old gradients that are used again
    staleness: float  # the model has moved since the gradients were computed


@dataclass(frozen=True)
class AlternatingBound(Terms):
    """Least (x − x*)² ≤ start + staleness."""

    start: float
    staleness: float


def longest_staleness(num_clients: int, cohort: int, longest_absence: int) -> int:
    """I = ⌈N/K⌉ E − 1: no gradient is older, if all are available once in any E rounds (Yan et al. 2020, lemma 1)."""
    n, k = at_least("num_clients", num_clients, 1), at_least("cohort", cohort, 1)
    return -(-n // k) * at_least("longest_absence", longest_absence, 1) - 1


def fedlaavg_bound(
    *,
    learning_rate: float,
    rounds: int,
    num_clients: int,
    staleness: int,
    smoothness: float,
    gradient_bound: float,
    noise: float,
    gap: float,
) -> StaleBound:
    """Bound on the mean of E‖∇f(x^{t−1})‖² over T rounds of one gradient step each (theorem 2).

    Symbols of the paper: `learning_rate` γ < 1/(2L), `rounds` T, `num_clients` N, `staleness` I (see
    `longest_staleness`), `smoothness` L, `gradient_bound` G, `noise` σ, `gap` f(x⁰) − f*:

        start        4 (f(x⁰) − f*) / (γ T)
        noise        4 γ L σ² / N
        stale_noise  2 γ I L (G² + σ²) / √N
        staleness    (2 I² / (1 − 2γL) + 4 I²) γ² L² G²

    Rounds are counted from when every client has taken part once. Before that the memory holds zeros, for which lemmas
    2 and 4 of the paper do not hold.
    """
    n, age = _check(rounds, num_clients, staleness, smoothness, gradient_bound, noise, gap)
    room = _room(learning_rate, smoothness)
    move = (learning_rate * smoothness * gradient_bound) ** 2
    return StaleBound(
        start=4 * gap / (learning_rate * rounds),
        noise=4 * learning_rate * smoothness * noise**2 / n,
        stale_noise=2 * learning_rate * age * smoothness * (gradient_bound**2 + noise**2) / np.sqrt(n),
        staleness=(2 * age**2 / room + 4 * age**2) * move,
    )


def fedlaavg_local_steps_bound(
    *,
    learning_rate: float,
    rounds: int,
    local_steps: int,
    num_clients: int,
    staleness: int,
    smoothness: float,
    gradient_bound: float,
    noise: float,
    gap: float,
) -> StaleBound:
    """Bound on the mean of E‖∇f(x^{rC−1})‖² over R rounds of C local steps each (theorem 3).

    As `fedlaavg_bound`, with `local_steps` C and J = max(I C, 2 (C − 1)):

        start        4 (f(x⁰) − f*) / (γ R C)
        noise        4 γ L σ² / N
        stale_noise  2 γ I C L (G² + σ²) / √N
        staleness    (2 (I C)² / (1 − 2γL) + 2 J² + 2 (I + 1)² C²) γ² L² G²

    Deviation: the paper has I C for J in its (36). A local model differs from the server's by up to 2 (C − 1) steps
    even when everyone takes part in every round, I = 0. So I C is too small for I < 2.
    """
    n, age = _check(rounds, num_clients, staleness, smoothness, gradient_bound, noise, gap)
    c = at_least("local_steps", local_steps, 1)
    room = _room(learning_rate, smoothness)
    move = (learning_rate * smoothness * gradient_bound) ** 2
    longest_drift = max(age * c, 2 * (c - 1))
    return StaleBound(
        start=4 * gap / (learning_rate * rounds * c),
        noise=4 * learning_rate * smoothness * noise**2 / n,
        stale_noise=2 * learning_rate * age * c * smoothness * (gradient_bound**2 + noise**2) / np.sqrt(n),
        staleness=(2 * (age * c) ** 2 / room + 2 * longest_drift**2 + 2 * ((age + 1) * c) ** 2) * move,
    )


def fedlaavg_alternating_bound(
    *, learning_rate: float, rounds: int, first_stay: int, second_stay: int, centres: tuple[float, float], start: float
) -> AlternatingBound:
    """Bound on min_t (x^t − x*)² for two clients (x − e_i)² that take turns of t_1 and t_2 rounds (theorem 4).

        start      (x⁰ − x*)² / (2 γ T)
        staleness  γ² I² G²,      I = max(t_1, t_2),  G = max(2 |x⁰ − x*|, |e_1 − e_2|)

    With γ = 1/(2√T) this is (x⁰ − x*)² / √T + I² G² / (4T). Exact gradients; γ ≤ ½.
    """
    check_step("learning_rate", learning_rate, 0.5, "the two-client example")
    horizon = at_least("rounds", rounds, 1)
    longest = max(at_least("first_stay", first_stay, 1), at_least("second_stay", second_stay, 1))
    distance = abs(start - (centres[0] + centres[1]) / 2)
    slope = max(2 * distance, abs(centres[0] - centres[1]))
    return AlternatingBound(
        start=distance**2 / (2 * learning_rate * horizon), staleness=(learning_rate * longest * slope) ** 2
    )


def fedlaavg_learning_rate(
    *, rounds: int, num_clients: int, cohort: int, longest_absence: int, smoothness: float, local_steps: int = 1
) -> float:
    """γ = √β N^¼ / (2 L C √(E R)) with β = K/N: the rate at which both theorems give O(E^½ N^{−¼} R^{−½}).

    `cohort` is K, `longest_absence` E, `local_steps` C, `rounds` R (T in theorem 2). For the alternating pair, 1/(2√T).
    """
    n, k = at_least("num_clients", num_clients, 1), at_least("cohort", cohort, 1)
    horizon, c = at_least("rounds", rounds, 1), at_least("local_steps", local_steps, 1)
    check_positive(smoothness=smoothness)
    absence = at_least("longest_absence", longest_absence, 1)
    return float(np.sqrt(k / n) * n**0.25 / (2 * smoothness * c * np.sqrt(absence * horizon)))


def _room(learning_rate: float, smoothness: float) -> float:
    """1 − 2γL, positive or refused."""
    largest = np.nextafter(1 / (2 * smoothness), 0.0)
    check_step("learning_rate", learning_rate, float(largest), "γ < 1/(2L)")
    return 1 - 2 * learning_rate * smoothness


def _check(
    rounds: int, num_clients: int, staleness: int, smoothness: float, gradient_bound: float, noise: float, gap: float
) -> tuple[int, int]:
    at_least("rounds", rounds, 1)
    check_positive(smoothness=smoothness)
    check_nonnegative(gradient_bound=gradient_bound, noise=noise, gap=gap)
    return at_least("num_clients", num_clients, 1), at_least("staleness", staleness, 0)
