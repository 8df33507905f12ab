# Long: weights, distances, costs and limits of one question stand together.
"""Which clients a strategy trains for, how far that is from the target, what it costs, and where training ends.

A strategy minimises F_B = Σ_k Ω_k F_k. Ω_k ∝ E[weight of the update of k in a round, 0 if it does not arrive] times the
reach ‖a_k‖₁ of that update. The strategy is consistent exactly when these effective weights are the target. All
functions return Ω with Σ_k Ω_k = 1, except `normalised_round_weights` and `normalised_round_weights_of_law`: they
return the expectations. F = Σ_k α_k F_k is the target objective; w* and w_B* are the minimisers of F and F_B, and p is
written for Ω where the paper has it so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import rel_entr

from turnout.declarations import NotNegative, Numbers, checked
from turnout.declarations.arrays import Values, law, nonnegative, shares
from turnout.theory.terms import Terms

SPACING = 0.25  # of the quadrature: the error is near exp(-π²/SPACING), below rounding
FIRST_NODE = -4.25  # where exp(x - exp(-x)) is below the rounding of its integral
MIN_RELATIVE_WEIGHT = 1e-290  # of the largest weight: smaller ones count the same as this
NEGLIGIBLE_EXPONENT = 80.0  # nodes below exp(-80) of the integral are left out
PerClientLosses = Callable[[np.ndarray], np.ndarray]  # w -> F_k(w), one per client
PerClientGradients = Callable[[np.ndarray], np.ndarray]  # w -> ∇F_k(w), one row per client
MAX_RESTARTS = 20  # of a minimisation whose line search gave up too early


@checked
def effective_raw(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Raw weights q_k on all available clients: Ω_k ∝ π_k q_k ‖a_k‖₁ (Rodio et al. 2023, eq. 4)."""
    pi = shares("rates", rates)
    return law("π q ‖a‖₁", pi * nonnegative("weights", weights, pi.size) * _reach(reach, pi.size))


@checked
def effective_importance_sampling(target: Values, failure: Values, reach: Values | None = None) -> np.ndarray:
    """K draws by the target ω, each received update counted 1/K: Ω_k ∝ ω_k (1 − q_k) ‖a_k‖₁ (Weng et al. 2025, eq. 6).

    `failure` is q_k, the probability that an upload of k is lost.
    """
    omega = law("target", target)
    return law("ω (1 − q) ‖a‖₁", omega * (1 - shares("failure", failure, omega.size)) * _reach(reach, omega.size))


@checked
def effective_normalised(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Weights normalised over available, independent clients: Ω_k ∝ E[q_k 1_k / Σ_j q_j 1_j] ‖a_k‖₁."""
    expected = normalised_round_weights(rates, weights)
    return law("E[q_k 1_k / Σ_j q_j 1_j] ‖a‖₁", expected * _reach(reach, expected.size))


@checked
def normalised_round_weights(rates: Values, weights: Values) -> np.ndarray:
    """E[q_k 1_k / Σ_j q_j 1_j] for independent clients, each available with probability π_k; 0/0 counts as 0.

    These are the mean weights of AdaFed, of FedAvg over what was received and of FedNova renormalised over arrivals.
    They sum to the probability that a client with a weight is available. Since 1/S = ∫_0^∞ exp(−sS) ds,

        E_k = ∫_0^∞ π_k q_k e^{−s q_k} ∏_{j≠k} (1 − π_j + π_j e^{−s q_j}) ds,

    The integrand is entire in s and bounded on the right half plane. So the trapezoidal rule in x, with
    s = exp(x − exp(−x)) / Σ_j q_j, has a relative error near 1e-14. The cost is O(N) per node. There are some 40 nodes,
    and 4 more for each factor of e between the largest and the smallest weight where few clients are available.
    """
    pi = shares("rates", rates)
    q = nonnegative("weights", weights, pi.size)
    expected = np.zeros(pi.size)
    weighted = (pi > 0) & (q > 0)
    if weighted.any():
        # A common factor changes nothing; beside 1, weights below the floor are all alike.
        scaled = np.maximum(q[weighted] / q[weighted].max(), MIN_RELATIVE_WEIGHT)
        expected[weighted] = _laplace_integral(pi[weighted], scaled / scaled.sum())
    return expected


@checked
def normalised_round_weights_of_law(masks: np.ndarray, probabilities: Values, weights: Values) -> np.ndarray:
    """E[q_k 1_k / Σ_j q_j 1_j] where row i of `masks` is the set available with the i-th probability; 0/0 is 0."""
    present = np.asarray(masks, dtype=bool)
    if present.ndim != 2 or present.shape[0] != np.size(probabilities):
        raise ValueError(
            f"masks has shape {present.shape} for {np.size(probabilities)} probabilities: give one row for each of them"
        )
    chance = nonnegative("probabilities", probabilities)
    if abs(chance.sum() - 1) > 1e-9:
        raise ValueError(f"probabilities add up to {chance.sum():.12g}: they must add up to 1")
    given = present * nonnegative("weights", weights, present.shape[1])
    sums = given.sum(axis=1, keepdims=True)
    return chance @ np.divide(given, sums, out=np.zeros_like(given), where=sums > 0)


def _laplace_integral(pi: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The integral of `normalised_round_weights` for positive π and q, with Σ q = 1.

    The integrand is multiplied by the k-th factor and divided by it again, so that one product serves all k. Where
    π_k = 1 that factor is e^{−s q_k}, which may underflow, but the quotient is q_k.
    """
    always_on = pi == 1.0
    rate, always_on_weight = pi[~always_on], float(q[always_on].sum())
    weight = q[~always_on]
    total = np.zeros(q.size)
    last = np.log(NEGLIGIBLE_EXPONENT) - np.log(q.min())
    for x in np.arange(FIRST_NODE, last, SPACING):
        s = np.exp(x - np.exp(-x))
        decay = np.exp(-s * weight)
        factors = (1 - rate) + rate * decay
        # log1p is accurate where a factor is near 1, log elsewhere; the floor keeps log1p defined there.
        logs = np.where(factors > 0.5, np.log1p(np.maximum(rate * np.expm1(-s * weight), -0.75)), np.log(factors))
        log_product = float(logs.sum()) - s * always_on_weight
        node = SPACING * s * (1 + np.exp(-x)) * np.exp(log_product)
        total[~always_on] += node * rate * weight * decay / factors
        total[always_on] += node * q[always_on]
        if log_product + x < -NEGLIGIBLE_EXPONENT:
            break
    return total


def _reach(reach: Values | None, count: int) -> np.ndarray | float:
    return 1.0 if reach is None else nonnegative("reach", reach, count)


@checked
def total_variation(target: Values, effective: Values) -> float:
    """½ Σ_k |α_k − p_k|: the weight that would have to move to other clients; between 0 and 1."""
    alpha, p = _pair(target, effective)
    return float(np.abs(alpha - p).sum() / 2)


@checked
def chi_square_to_effective(target: Values, effective: Values) -> float:
    """χ²_{α‖p} = Σ_k (α_k − p_k)² / p_k, the order of Rodio et al. 2023 and Weng et al. 2025.

    Infinite where a client with a target has no effective weight; a client with neither adds nothing. With the
    arguments exchanged it is χ²_{p‖α}.
    """
    alpha, p = _pair(target, effective)
    if (alpha[p == 0] > 0).any():
        return float("inf")
    weighted = p > 0
    with np.errstate(over="ignore"):  # a vanishing weight is as good as none: infinite
        return float(((alpha[weighted] - p[weighted]) ** 2 / p[weighted]).sum())


@checked
def kl_to_effective(target: Values, effective: Values) -> float:
    """KL(α‖p) = Σ_k α_k ln(α_k / p_k), in nats; infinite where a client with a target has no effective weight."""
    alpha, p = _pair(target, effective)
    return max(0.0, float(rel_entr(alpha, p).sum()))  # rounding may leave -1e-17 for equal laws


def _pair(target: Values, effective: Values) -> tuple[np.ndarray, np.ndarray]:
    alpha = law("target", target)
    return alpha, law("effective", effective, alpha.size)


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


@checked
def error_decomposition(
    optimisation_error: NotNegative,
    bias_error: NotNegative,
    condition: Annotated[float, Numbers(1)],
    sharp: bool = False,
) -> ErrorDecomposition:
    """F(w) − F* ≤ 2κ² (ε_opt + ε_bias) for μ-strongly convex, L-smooth F_k and κ = L/μ (Rodio et al. 2023, theorem 1).

    ε_opt = F_B(w) − F_B* and ε_bias = F(w_B*) − F*. `sharp` writes κ for κ²: F(w) − F* ≤ ½L ‖w − w*‖² is stronger
    than the two inequalities of the paper that lead to (L²/2μ) ‖w − w*‖².
    """
    factor = 2 * _power(condition, sharp)
    return ErrorDecomposition(factor * optimisation_error, factor * bias_error)


@checked
def bias_bound_chi_square(
    target: Values,
    effective: Values,
    condition: Annotated[float, Numbers(1)],
    heterogeneity: NotNegative,
    sharp: bool = False,
) -> float:
    """F(w_B*) − F* ≤ κ² χ²_{α‖p} Γ with Γ = max_k F_k(w*) − F_k* (Rodio et al. 2023, theorem 1).

    Infinite as soon as one client is left out. `sharp` writes κ for κ²: ‖∇F_k(w)‖² ≤ 2L (F_k(w) − F_k*) needs no μ.
    """
    distance = chi_square_to_effective(target, effective)
    return _power(condition, sharp) * distance * heterogeneity if heterogeneity > 0 else 0.0


@checked
def bias_bound_total_variation(
    target: Values,
    effective: Values,
    condition: Annotated[float, Numbers(1)],
    heterogeneity: NotNegative,
    sharp: bool = False,
) -> float:
    """F(w_B*) − F* ≤ 4κ² d_TV(α, p)² Γ' with Γ' = max_k F_k(w_B*) − F_k* (Rodio et al. 2023, theorem 3).

    Finite even where clients are left out, but Γ' depends on the weights. `sharp` writes κ for κ², as above.
    """
    return 4 * _power(condition, sharp) * total_variation(target, effective) ** 2 * heterogeneity


@checked
def gradient_decomposition(
    target: Values,
    effective: Values,
    surrogate_error: NotNegative,
    dissimilarity: NotNegative,
    dissimilarity_slope: NotNegative = 1.0,
) -> GradientDecomposition:
    """Mean ‖∇F‖² ≤ (√ε_opt + √(χ²_{ω‖Ω} (β² ε_opt + κ²)))² (Weng et al. 2025, theorem 2 before its limit).

    ε_opt is the mean of ‖∇F_B‖² along the run; Σ_k Ω_k ‖∇F_k‖² ≤ β² ‖∇F_B‖² + κ² with β = `dissimilarity_slope` and
    κ = `dissimilarity`. As ε_opt → 0 only χ² κ² is left, their (11).

    Deviation: their (12) adds σ², which belongs to the norm of a noisy gradient. The gradient itself obeys (11).
    """
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


@dataclass(frozen=True)
class BiasedOptimum:
    """Where training with effective weights p ends, and where it should."""

    minimiser: np.ndarray  # w_B*, of Σ p_k F_k
    target_minimiser: np.ndarray  # w*, of Σ α_k F_k
    bias_error: float  # ε_bias = F(w_B*) − F*
    heterogeneity: float  # Γ = max_k F_k(w*) − F_k*
    biased_heterogeneity: float  # Γ' = max_k F_k(w_B*) − F_k*


@checked
def biased_optimum_of_quadratics(
    centres: np.ndarray, curvature: np.ndarray | float, target: Values, effective: Values
) -> BiasedOptimum:
    """The biased optimum of F_k(w) = ½ (w − E_k)ᵀ H_k (w − E_k), in closed form: w_B* = (Σ p_k H_k)⁻¹ Σ p_k H_k E_k.

    The curvature H is one number for all, or one number, one diagonal or one matrix per client, as in the quadratic
    task.
    """
    points = np.asarray(centres, dtype=np.float64)
    if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
        raise ValueError(f"centres has shape {points.shape}: give finite numbers, one row per client")
    matrices = _matrices(np.asarray(curvature, dtype=np.float64), *points.shape)
    alpha, p = law("target", target, len(points)), law("effective", effective, len(points))
    best, biased = (_quadratic_minimiser(points, matrices, share) for share in (alpha, p))
    shift = biased - best
    hessian = np.einsum("k,kij->ij", alpha, matrices)
    return BiasedOptimum(
        minimiser=biased,
        target_minimiser=best,
        bias_error=float(shift @ hessian @ shift) / 2,  # exact for a quadratic, and free of cancellation
        heterogeneity=float(_quadratic_losses(points, matrices, best).max()),
        biased_heterogeneity=float(_quadratic_losses(points, matrices, biased).max()),
    )


def _matrices(curvature: np.ndarray, count: int, dimension: int) -> np.ndarray:
    identity = np.eye(dimension)
    if curvature.shape in ((), (count,)):
        matrices = np.broadcast_to(curvature, (count,))[:, None, None] * identity
    elif curvature.shape == (count, dimension):
        matrices = curvature[:, :, None] * identity
    elif curvature.shape == (count, dimension, dimension):
        matrices = curvature
    else:
        shapes = [(count,), (count, dimension), (count, dimension, dimension)]
        raise ValueError(f"curvature has shape {curvature.shape}: it must be a number or one of {shapes}")
    if not np.isfinite(matrices).all() or not np.allclose(matrices, matrices.swapaxes(1, 2)):
        raise ValueError("curvature must be finite and symmetric: give (H + Hᵀ) / 2")
    smallest = float(np.linalg.eigvalsh(matrices).min())
    if smallest <= 0:
        raise ValueError(f"curvature has the eigenvalue {smallest:g}: all must be positive")
    return matrices


def _quadratic_minimiser(points: np.ndarray, matrices: np.ndarray, share: np.ndarray) -> np.ndarray:
    hessian = np.einsum("k,kij->ij", share, matrices)
    pull = np.einsum("k,kij,kj->i", share, matrices, points)
    return np.linalg.solve(hessian, pull)


def _quadratic_losses(points: np.ndarray, matrices: np.ndarray, w: np.ndarray) -> np.ndarray:
    gaps = w - points
    return np.einsum("ki,kij,kj->k", gaps, matrices, gaps) / 2
