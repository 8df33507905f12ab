"""How FedLaAvg converges, term by term.

Theorems 2 to 4 of Yan et al. 2020 with the learning rates they suggest, and where FedAvg ends in their example of two
clients that take turns.
"""

from dataclasses import dataclass

import numpy as np

from turnout.declarations import Count, CountOrZero, LongCount, NotNegative, Positive, checked
from turnout.declarations.arrays import check_step
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


@checked
def longest_staleness(num_clients: Count, cohort: Count, longest_absence: Count) -> int:
    """I = ⌈N/K⌉ E − 1: no gradient is older, if all are available once in any E rounds (Yan et al. 2020, lemma 1)."""
    n, k = num_clients, cohort
    return -(-n // k) * longest_absence - 1


# Long: the docstring states two theorems.
@checked
def fedlaavg_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    *,
    learning_rate: Positive,
    rounds: LongCount,
    num_clients: Count,
    staleness: CountOrZero,
    smoothness: Positive,
    gradient_bound: NotNegative,
    noise: NotNegative,
    gap: NotNegative,
    local_steps: Count = 1,
) -> StaleBound:
    """Bound on the mean of E‖∇f‖² over R rounds, of one gradient step each (theorem 2) or of C (theorem 3).

    Symbols of the paper: `learning_rate` γ < 1/(2L), `rounds` R (T in theorem 2), `num_clients` N, `staleness` I (see
    `longest_staleness`), `smoothness` L, `gradient_bound` G, `noise` σ, `gap` f(x⁰) − f*, `local_steps` C; with
    J = max(I C, 2 (C − 1)):

        start        4 (f(x⁰) − f*) / (γ R C)
        noise        4 γ L σ² / N
        stale_noise  2 γ I C L (G² + σ²) / √N
        staleness    (2 (I C)² / (1 − 2γL) + 2 J² + 2 (I + 1)² C²) γ² L² G²

    For C = 1 the last bracket is 2 I² / (1 − 2γL) + 4 I². The gradients are those at x^{rC−1}. Rounds are counted from
    when every client has taken part once. Before that the memory holds zeros, for which lemmas 2 and 4 of the paper do
    not hold.

    Deviation: the paper has I C for J in its (36). A local model differs from the server's by up to 2 (C − 1) steps
    even when everyone takes part in every round, I = 0. So I C is too small for I < 2.
    """
    n, age = num_clients, staleness
    c, horizon = local_steps, rounds
    check_step("learning_rate", learning_rate, float(np.nextafter(1 / (2 * smoothness), 0.0)), "γ < 1/(2L)")
    moved = 4 * age**2 if c == 1 else 2 * max(age * c, 2 * (c - 1)) ** 2 + 2 * ((age + 1) * c) ** 2
    stale = 2 * (age * c) ** 2 / (1 - 2 * learning_rate * smoothness)
    return StaleBound(
        start=4 * gap / (learning_rate * horizon * c),
        noise=4 * learning_rate * smoothness * noise**2 / n,
        stale_noise=2 * learning_rate * age * c * smoothness * (gradient_bound**2 + noise**2) / np.sqrt(n),
        staleness=(stale + moved) * (learning_rate * smoothness * gradient_bound) ** 2,
    )


@checked
def alternating_limit(
    *, learning_rate: Positive, first_stay: Count, second_stay: Count, centres: tuple[float, float]
) -> float:
    """Model of FedAvg after the second client's turn, in the long run; exact gradients of f_i(x) = (x − e_i)².

    Client 1 is available for t_1 rounds, then client 2 for t_2, and so on; a round is one step of rate γ < ½. A turn of
    t rounds shrinks the distance to e_i by s^t, s = 1 − 2γ. So the fixed point of a period is

        x = e_2 + (e_1 − e_2) s^{t_2} (1 − s^{t_1}) / (1 − s^{t_1 + t_2}).

    As γ → 0 it tends to (t_1 e_1 + t_2 e_2) / (t_1 + t_2), equation 16 of the paper. The optimum is (e_1 + e_2) / 2.
    """
    check_step("learning_rate", learning_rate, float(np.nextafter(0.5, 0.0)), "the two-client example")
    first, second = first_stay, second_stay
    shrink = np.log1p(-2 * learning_rate)  # log s, without cancellation where the step is small
    share = np.exp(second * shrink) * np.expm1(first * shrink) / np.expm1((first + second) * shrink)
    return float(centres[1] + (centres[0] - centres[1]) * share)


@checked
def fedlaavg_alternating_bound(
    *,
    learning_rate: Positive,
    rounds: LongCount,
    first_stay: Count,
    second_stay: Count,
    centres: tuple[float, float],
    start: float,
) -> AlternatingBound:
    """Bound on min_t (x^t − x*)² for two clients (x − e_i)² that take turns of t_1 and t_2 rounds (theorem 4).

        start      (x⁰ − x*)² / (2 γ T)
        staleness  γ² I² G²,      I = max(t_1, t_2),  G = max(2 |x⁰ − x*|, |e_1 − e_2|)

    With γ = 1/(2√T) this is (x⁰ − x*)² / √T + I² G² / (4T). Exact gradients; γ ≤ ½.
    """
    check_step("learning_rate", learning_rate, 0.5, "the two-client example")
    horizon = rounds
    longest = max(first_stay, second_stay)
    distance = abs(start - (centres[0] + centres[1]) / 2)
    slope = max(2 * distance, abs(centres[0] - centres[1]))
    return AlternatingBound(
        start=distance**2 / (2 * learning_rate * horizon), staleness=(learning_rate * longest * slope) ** 2
    )


@checked
def fedlaavg_learning_rate(
    *,
    rounds: LongCount,
    num_clients: Count,
    cohort: Count,
    longest_absence: Count,
    smoothness: Positive,
    local_steps: Count = 1,
) -> float:
    """γ = √β N^¼ / (2 L C √(E R)) with β = K/N: the rate at which both theorems give O(E^½ N^{−¼} R^{−½}).

    `cohort` is K, `longest_absence` E, `local_steps` C, `rounds` R (T in theorem 2). For the alternating pair, 1/(2√T).
    """
    n, k = num_clients, cohort
    horizon, c = rounds, local_steps
    absence = longest_absence
    return float(np.sqrt(k / n) * n**0.25 / (2 * smoothness * c * np.sqrt(absence * horizon)))
