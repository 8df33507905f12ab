"""How strategies that remember updates converge, term by term: FedLaAvg and LastWord.

Theorems 2 to 4 of Yan et al. 2020 with the learning rates they suggest, and where FedAvg ends in their example of two
clients that take turns. LastWord in any world with bounded ages; the proof is in docs/theory/last_word.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from turnout.arguments import at_least, check_step
from turnout.declarations import Count, CountOrZero, LongCount, NotNegative, Numbers, Positive, checked
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


@dataclass(frozen=True)
class LastWordBound(Terms):
    """Mean of E‖∇F‖², weighted by the steps, ≤ start + noise + stale_noise + staleness + drift + fading."""

    start: float  # the gap F(x) − F* when everybody has been heard, worked off
    noise: float  # of the gradients, averaged over the clients
    stale_noise: float  # of old gradients, which the model has followed before
    staleness: float  # the model has moved since the words were said
    drift: float  # the model moves during local work
    fading: float  # weights of old words are below the target


# Long: the docstring states the theorem.
@checked
def last_word_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    *,
    learning_rate: float | Sequence[float] | Float[np.ndarray, " rounds"],
    rounds: LongCount,
    first_round: CountOrZero,
    longest_age: CountOrZero,
    steps: tuple[int, int],
    target: Sequence[float] | Float[np.ndarray, " clients"],
    smoothness: Positive,
    gradient_bound: NotNegative,
    dissimilarity: NotNegative,
    noise: NotNegative,
    gap: NotNegative,
    fading: NotNegative = 0.5,
    server_rate: Positive = 1.0,
) -> LastWordBound:
    """Bound on Σ_t γ_t E‖∇F(x_t)‖² / Σ_t γ_t over T rounds from round t_0 on, in which everybody has been heard.

    Symbols: `learning_rate` η_t of the clients, a number or one per round from round 0 on, `rounds` T, `first_round`
    t_0, `longest_age` A of a word in these rounds (see `longest_age`), `steps` (τ_min, τ_max) of plain SGD, `target`
    α, `smoothness` L, `gradient_bound` G with E‖g‖² ≤ G², `dissimilarity` ζ ≥ ‖∇F_k − ∇F‖, `noise` σ, `gap`
    F(x_{t_0}) − F*, `server_rate` η_s. With γ_t = η_s η_t τ̄_t ≤ 1/(2L), Γ_t = Σ_{t−A ≤ j < t} γ_j,
    r_t = ((t + 1 − A) / (t + 1))^fading, ρ_t = Σ_k α_k² / (τ_min r_t²) and ⟨v⟩ = Σ γ_t v_t / Σ γ_t:

        start        2 (F(x_{t_0}) − F*) / Σ γ_t
        noise        2 L σ² ⟨γ_t ρ_t⟩
        stale_noise  2 L G σ ⟨Γ_t √ρ_t⟩
        staleness    3 L² G² ⟨Γ_t²⟩
        drift        3 L² G² ⟨(η (τ_max − 1) / 2)²⟩,  η the largest of η_{t−A} … η_t
        fading       3 ζ² ⟨δ_t²⟩,      δ_t = 2 (1 − √r_t) / (1 + √r_t)

    γ_t lies between η_s η_t τ_min and η_s η_t τ_max; the smaller one stands below fraction bars, the larger one above.
    """
    horizon, age = rounds, longest_age
    first, (least, most) = at_least("first_round", first_round, age), _steps(steps)
    eta = np.broadcast_to(np.asarray(learning_rate, np.float64), (first + horizon,))
    check_step("learning_rate", float(eta.max()), 1 / (2 * smoothness * server_rate * most), "γ ≤ 1/(2L)")

    t = np.arange(first, first + horizon)
    large, small = server_rate * eta * most, server_rate * eta[t] * least
    before = np.concatenate([[0.0], np.cumsum(large)])
    moved = before[t] - before[t - age]  # Γ_t
    recent = np.lib.stride_tricks.sliding_window_view(eta, age + 1)[t - age].max(axis=1)  # η of any word in use
    kept = ((t + 1 - age) / (t + 1)) ** fading  # r_t
    spread = np.sum(np.square(np.asarray(target, np.float64))) / (least * kept**2)  # ρ_t

    def mean(values: Float[np.ndarray, " rounds"]) -> float:
        return float(np.sum(large[t] * values) / np.sum(small))

    return LastWordBound(
        start=float(2 * gap / np.sum(small)),
        noise=2 * smoothness * noise**2 * mean(large[t] * spread),
        stale_noise=2 * smoothness * gradient_bound * noise * mean(moved * np.sqrt(spread)),
        staleness=3 * (smoothness * gradient_bound) ** 2 * mean(moved**2),
        drift=3 * (smoothness * gradient_bound) ** 2 * mean((recent * (most - 1) / 2) ** 2),
        fading=3 * dissimilarity**2 * mean(faded_distance(t, age, fading) ** 2),
    )


@checked
def faded_distance(
    t: int | Sequence[int] | np.ndarray, longest_age: CountOrZero, fading: NotNegative = 0.5
) -> Float[np.ndarray, " *rounds"]:
    """δ_t ≥ Σ_k |w_k / Σ_j w_j − α_k| in round t, if no word is older than `longest_age`: how far weights are off.

    δ_t = 2 (1 − √r) / (1 + √r) with r = ((t + 1 − A) / (t + 1))^fading, about fading · A / (2t): it is reached if a
    share √r / (1 + √r) of the target is heard now and the rest is as old as can be.
    """
    rounds = np.asarray(t, np.float64)
    age = longest_age
    if (rounds < age).any():
        raise ValueError(f"longest_age = {age}: in round {rounds.min():g} no word can be that old")
    root = ((rounds + 1 - age) / (rounds + 1)) ** (fading / 2)
    return np.asarray(2 * (1 - root) / (1 + root))


@checked
def longest_age(
    *,
    within: Count,
    success: Annotated[float, Numbers(0, 1, above=True)],
    num_clients: Count,
    rounds: LongCount,
    miss: Annotated[float, Numbers(0, 1, above=True)] = 0.01,
) -> int:
    """Age that no word exceeds in all rounds, but for a chance of `miss`: E ⌈ln(N T / miss) / −ln(1 − ε)⌉ − 1.

    Each of the `num_clients` N is available at least once in any `within` E rounds, and an upload arrives with a
    probability of at least `success` ε, whatever has happened before. Counted over T `rounds`, after each client has
    been heard once.
    """
    window, count, horizon = within, num_clients, rounds
    if success == 1:
        return window - 1
    return window * int(np.ceil(np.log(count * horizon / miss) / -np.log1p(-success))) - 1


def _steps(steps: tuple[int, int]) -> tuple[int, int]:
    least, most = (at_least("steps", number, 1) for number in steps)
    if least > most:
        raise ValueError(f"steps = ({least}, {most}): the first number must not exceed the second")
    return least, most
