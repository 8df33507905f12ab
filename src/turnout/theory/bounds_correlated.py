"""How FedAvg and raw weights converge under correlated availability, term by term.

Theorem 1 of Sun et al. 2025 with constants, and theorem 2 of Rodio et al. 2023 (CA-Fed).
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from turnout.declarations import MAX_WHOLE, Count, CountOrZero, NotNegative, Numbers, OpenShare, Positive, checked
from turnout.declarations.arrays import Values, check_step, law, nonnegative, shares, vector
from turnout.theory.terms import Terms


@dataclass(frozen=True)
class CorrelatedBound(Terms):
    """Mean of E‖∇F(x_t)‖² over t < T − τ ≤ start + warm_up + drift + mixing + bias."""

    start: float  # the gap F(x_0) − F*, worked off
    warm_up: float  # what the first τ rounds may add to it
    drift: float  # movement within a round and while the chain mixes
    mixing: float  # what the chain still remembers after τ rounds
    bias: float  # participation that is not uniform: never vanishes


# Long: the docstring states the theorem.
@checked
def correlated_fedavg_bound(
    participation: Values,
    *,
    learning_rate: Positive,
    local_steps: Count,
    rounds: Annotated[int, Numbers(2, MAX_WHOLE)],
    mixing_time: Count,
    smoothness: Positive,
    dissimilarity: NotNegative,
    gap: NotNegative,
) -> CorrelatedBound:
    """Bound on the mean of E‖∇F(x_t)‖², t < T − τ, of FedAvg with K full local gradient steps.

    Symbols of the paper: `participation` π_R (any positive multiple), `learning_rate` α, `local_steps` K, `rounds` T,
    `mixing_time` τ_mix, after which the law of the batch is within ¼ of its limit in total variation, `smoothness` L,
    `dissimilarity` G ≥ ‖∇f_i − ∇F‖, `gap` F(x_0) − F*. With τ = τ_mix ⌈½ log₂ T⌉, so that 2^{−τ/τ_mix} ≤ 1/√T,

        start    4 (F(x_0) − F*) / (α K (T − τ))
        warm_up  40/9 · τ G² / (T − τ)
        drift    32 α K L (17 τ + 9) G²
        mixing   16 · 4^{−τ/τ_mix} G²  ≤ 16 G² / T
        bias     4 ‖π_R − 1/N‖₁² G²

    Deviations: the paper hides its constants. Those of its appendix do not follow: in the bound of e_4, γ⁴ stands for
    γ²; a factor τ is lost where lemma 9 is applied; 36 stands for 32. They also mix units, since ⟨a, b⟩ ≤ ½‖a‖² + ½‖b‖²
    is used with a gradient and a step. The same proof with weights 1/(τL) and τL there gives the terms above, with τ
    instead of τ² in the drift. As Σ_i (p_i − 1/N) ∇F = 0, the bias needs neither a bound on ‖∇F‖ nor a division by
    min π_R².
    """
    k, horizon = local_steps, rounds
    doublings = max(1, int(np.ceil(np.log2(horizon) / 2)))
    tau = mixing_time * doublings
    if horizon <= tau:
        raise ValueError(f"rounds = {rounds}: the chain needs τ = {tau} rounds to mix, give more than that")
    check_step("learning_rate", learning_rate, 1 / (1696 * k * smoothness * tau), "1 / (1696 K L τ)")
    pi = law("participation", participation)
    unevenness = float(np.abs(pi - 1 / pi.size).sum())
    square = dissimilarity**2
    return CorrelatedBound(
        start=4 * gap / (learning_rate * k * (horizon - tau)),
        warm_up=40 / 9 * tau * square / (horizon - tau),
        drift=32 * learning_rate * k * smoothness * (17 * tau + 9) * square,
        mixing=16 * 4.0**-doublings * square,
        bias=4 * unevenness**2 * square,
    )


@dataclass(frozen=True)
class MarkovBound(Terms):
    """E[F_B(w̄_T) − F_B*] ≤ distance + noise + drift + heterogeneity + states + warm_up + correlation."""

    distance: float  # the diameter of the set of models
    noise: float  # of the gradients: ½ qᵀΣq
    drift: float  # of local models away from the server's
    heterogeneity: float  # Γ and H: the clients' objectives differ
    states: float  # M: the chain is only nearly stationary after J_t rounds
    warm_up: float  # rounds before the chain can have mixed
    correlation: float  # J_t: how far the model moves while the chain mixes


# Long: the docstring states the theorem.
@checked
def markov_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    rates: Values,
    weights: Values,
    steps: Values,
    *,
    local_steps: Count,
    smoothness: Positive,
    diameter: Positive,
    gradient_bound: NotNegative,
    noisy_gradient_bound: NotNegative,
    loss_range: Positive,
    heterogeneity: NotNegative,
    noise: Values,
    num_states: Count,
    mixing_rate: OpenShare,
    mixing_constant: Positive,
    mixing_start: CountOrZero = 0,
) -> MarkovBound:
    """Bound on E[F_B(w̄_T) − F_B*] after T = len(steps) rounds, w̄_T the mean of the models weighted by the steps.

    Symbols of the paper: `rates` π, `weights` q with Q = Σ q_k, `steps` η_1 ≥ η_2 ≥ …, `local_steps` E, `smoothness` L,
    `diameter` diam(W), `gradient_bound` D ≥ ‖∇F_k‖, `noisy_gradient_bound` G, `loss_range` H ≥ |F_k(w) − F_k(w_B*)|,
    `heterogeneity` Γ, `noise` σ_k, `num_states` M, and |Pᵗ − ρ| ≤ C_P λᵗ from t = T_P on, with `mixing_rate` λ,
    `mixing_constant` C_P, `mixing_start` T_P. Let S = Σ_t η_t, S₂ = Σ_t η_t² and J_t = max(⌈ln(2 C_P H t) / ln(1/λ)⌉,
    T_P, 0). Of the rounds t₀ from which on J_t ≤ t, take the one that makes the sum of the last two terms smallest. The
    terms, all divided by S, are

        distance       diam(W)² / (2E πᵀq)
        noise          (E+1)/4 · S₂ Σ π_k q_k² σ_k² / πᵀq
        drift          ½ E² G² S₂
        heterogeneity  2L (1+EQ) (Γ+H) S₂
        states         ¼ M Q Σ_t (η_t² + 1/t²) / πᵀq
        warm_up        H Σ_{t<t₀} η_t
        correlation    2 E D G Q Σ_{t≥t₀} J_t η_{t−J_t}²       (η_0 := η_1)

    Deviations: sums run to T, not to infinity. The last line of their lemma 8 needs Σ_k q_k (F_k(w) − F_k(w_B*)) ≥ 0
    in every round, which fails for some sets of clients. Keeping the factor 2η_t there and paying H for the rest gives
    the first four terms above. Theirs are 4 times the first three, and 4LΓ(1+EQ) S₂ for the fourth, where their own
    (122) gives 8LΓ(1+EQ) S₂. Rounds with J_t > t have not mixed and belong to the warm-up. They use ln(2 C_P H t) /
    ln(1/λ) for J_t, which is smaller and can be negative.
    """
    pi, eta = shares("rates", rates), _decreasing(steps)
    q, sigma = nonnegative("weights", weights, pi.size), nonnegative("noise", noise, pi.size)
    e, m = local_steps, num_states
    mean_weight, total_weight = float(pi @ q), float(q.sum())
    if mean_weight == 0:
        raise ValueError("rates, weights: no client that is ever available has a weight; πᵀq must be positive")
    check_step("steps[0]", float(eta[0]), 1 / (2 * smoothness * (1 + 2 * e * total_weight)), "1 / (2L (1 + 2EQ))")
    rounds = np.arange(1, eta.size + 1)
    lag = mixing_lags(rounds, loss_range, mixing_rate, mixing_constant, mixing_start)
    earlier_step = eta[np.maximum(rounds - lag, 1) - 1]
    moved = 2 * e * gradient_bound * noisy_gradient_bound * total_weight * lag * earlier_step**2
    late = rounds > _best_wait(loss_range * eta, moved, int(rounds[lag > rounds].max(initial=0)))
    squares, length = float(eta @ eta), float(eta.sum())
    terms = MarkovBound(
        distance=diameter**2 / (2 * e * mean_weight),
        noise=(e + 1) / 4 * squares * float(pi @ (q * sigma) ** 2) / mean_weight,
        drift=e**2 * noisy_gradient_bound**2 * squares / 2,
        heterogeneity=2 * smoothness * (1 + e * total_weight) * (heterogeneity + loss_range) * squares,
        states=m * total_weight / 4 * (squares + float((1.0 / rounds**2).sum())) / mean_weight,
        warm_up=loss_range * float(eta[~late].sum()),
        correlation=float(moved[late].sum()),
    )
    return MarkovBound(**{name: term / length for name, term in terms.named().items()})


def mixing_lags(
    rounds: np.ndarray, loss_range: float, mixing_rate: float, mixing_constant: float, mixing_start: int = 0
) -> np.ndarray:
    """J_t: rounds after which |P^J − ρ| ≤ 1/(2Ht), that is ⌈ln(2 C_P H t) / ln(1/λ)⌉ and at least T_P."""
    needed = np.ceil(np.log(2 * mixing_constant * loss_range * rounds) / -np.log(mixing_rate))
    return np.maximum(needed, mixing_start).astype(np.int64)


def _best_wait(waiting: np.ndarray, moved: np.ndarray, least: int) -> int:
    """How many rounds at the start to count as warm-up, at least `least`, so that the sum of both terms is smallest."""
    waits = np.concatenate([[0.0], np.cumsum(waiting)])
    moves = np.concatenate([np.cumsum(moved[::-1])[::-1], [0.0]])
    return least + int(np.argmin((waits + moves)[least:]))


def _decreasing(steps: Values) -> np.ndarray:
    eta = vector("steps", steps)
    if (eta <= 0).any() or (np.diff(eta) > 0).any():
        raise ValueError("steps: must be positive and must not grow from round to round")
    return eta
