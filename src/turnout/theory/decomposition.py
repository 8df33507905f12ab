"""The error on the target objective, split into the optimisation error and the bias of wrong weights.

F = Σ_k α_k F_k is the target objective, F_B = Σ_k p_k F_k the one that is really trained; w* and w_B* are their
minimisers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.arguments import Values, check_nonnegative
from turnout.theory.distances import chi_square_to_effective, total_variation
from turnout.theory.terms import Terms


@dataclass(frozen=True)
class ErrorDecomposition(Terms):
    """F(w) − F* ≤ optimisation + bias."""

    optimisation: float  # 2κ² ε_opt: excess of F_B over its minimum
    bias: float  # 2κ² ε_bias: excess of F over its minimum, at the minimum of F_B


@dataclass(frozen=True)
class GradientDecomposition(Terms):
    """Mean of ‖∇F‖² ≤ surrogate + inconsistency + cross."""

    surrogate: float  # ε_opt, the mean of ‖∇F_B‖²
    inconsistency: float  # χ² (β² ε_opt + κ²), which tends to χ² κ²
    cross: float  # twice the root of the product of the other two


def error_decomposition(
    optimisation_error: float, bias_error: float, condition: float, sharp: bool = False
) -> ErrorDecomposition:
    """F(w) − F* ≤ 2κ² (ε_opt + ε_bias) for μ-strongly convex, L-smooth F_k and κ = L/μ (Rodio et al. 2023, theorem 1).

    ε_opt = F_B(w) − F_B* and ε_bias = F(w_B*) − F*. `sharp` writes κ for κ²: F(w) − F* ≤ ½L ‖w − w*‖² is stronger
    than the two inequalities of the paper that lead to (L²/2μ) ‖w − w*‖².
    """
    check_nonnegative(optimisation_error=optimisation_error, bias_error=bias_error)
    factor = 2 * _power(condition, sharp)
    return ErrorDecomposition(factor * optimisation_error, factor * bias_error)


def bias_bound_chi_square(
    target: Values, effective: Values, condition: float, heterogeneity: float, sharp: bool = False
) -> float:
    """F(w_B*) − F* ≤ κ² χ²_{α‖p} Γ with Γ = max_k F_k(w*) − F_k* (Rodio et al. 2023, theorem 1).

    Infinite as soon as one client is left out. `sharp` writes κ for κ²: ‖∇F_k(w)‖² ≤ 2L (F_k(w) − F_k*) needs no μ.
    """
    check_nonnegative(heterogeneity=heterogeneity)
    distance = chi_square_to_effective(target, effective)
    return _power(condition, sharp) * distance * heterogeneity if heterogeneity > 0 else 0.0


def bias_bound_total_variation(
    target: Values, effective: Values, condition: float, heterogeneity: float, sharp: bool = False
) -> float:
    """F(w_B*) − F* ≤ 4κ² d_TV(α, p)² Γ' with Γ' = max_k F_k(w_B*) − F_k* (Rodio et al. 2023, theorem 3).

    Finite even where clients are left out, but Γ' depends on the weights. `sharp` writes κ for κ², as above.
    """
    check_nonnegative(heterogeneity=heterogeneity)
    return 4 * _power(condition, sharp) * total_variation(target, effective) ** 2 * heterogeneity


def gradient_decomposition(
    target: Values, effective: Values, surrogate_error: float, dissimilarity: float, dissimilarity_slope: float = 1.0
) -> GradientDecomposition:
    """Mean ‖∇F‖² ≤ (√ε_opt + √(χ²_{ω‖Ω} (β² ε_opt + κ²)))² (Weng et al. 2025, theorem 2 before its limit).

    ε_opt is the mean of ‖∇F_B‖² along the run; Σ_k Ω_k ‖∇F_k‖² ≤ β² ‖∇F_B‖² + κ² with β = `dissimilarity_slope` and
    κ = `dissimilarity`. As ε_opt → 0 only χ² κ² is left, their (11).

    Deviation: their (12) adds σ², which belongs to the norm of a noisy gradient. The gradient itself obeys (11).
    """
    check_nonnegative(surrogate_error=surrogate_error, dissimilarity=dissimilarity)
    if dissimilarity_slope < 1:
        raise ValueError(f"dissimilarity_slope = {dissimilarity_slope:g}: β is at least 1 by Jensen's inequality")
    spread = dissimilarity_slope**2 * surrogate_error + dissimilarity**2
    inconsistency = chi_square_to_effective(target, effective) * spread if spread > 0 else 0.0
    cross = 2 * float(np.sqrt(surrogate_error * inconsistency)) if surrogate_error > 0 else 0.0
    return GradientDecomposition(surrogate_error, inconsistency, cross)


def _power(condition: float, sharp: bool) -> float:
    if not condition >= 1:
        raise ValueError(f"condition = {condition:g}: κ = L/μ is at least 1")
    return condition if sharp else condition**2
