"""How FedAvg converges under correlated participation: theorem 1 of Sun et al. 2025 with constants, term by term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.arguments import Values, at_least, check_nonnegative, check_positive, check_step, law
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
def correlated_fedavg_bound(
    participation: Values,
    *,
    learning_rate: float,
    local_steps: int,
    rounds: int,
    mixing_time: int,
    smoothness: float,
    dissimilarity: float,
    gap: float,
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
    k, horizon = at_least("local_steps", local_steps, 1), at_least("rounds", rounds, 2)
    check_positive(smoothness=smoothness)
    check_nonnegative(dissimilarity=dissimilarity, gap=gap)
    doublings = max(1, int(np.ceil(np.log2(horizon) / 2)))
    tau = at_least("mixing_time", mixing_time, 1) * doublings
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
