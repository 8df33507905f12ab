"""The model that biased weights lead to and its exact cost, to compare with the bounds of `decomposition`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from turnout.arguments import Values, check_positive, law

PerClientLosses = Callable[[np.ndarray], np.ndarray]  # w -> F_k(w), one per client
PerClientGradients = Callable[[np.ndarray], np.ndarray]  # w -> ∇F_k(w), one row per client
MAX_RESTARTS = 20  # of a minimisation whose line search gave up too early


@dataclass(frozen=True)
class BiasedOptimum:
    """Where training with effective weights p ends, and where it should."""

    minimiser: np.ndarray  # w_B*, of Σ p_k F_k
    target_minimiser: np.ndarray  # w*, of Σ α_k F_k
    bias_error: float  # ε_bias = F(w_B*) − F*
    heterogeneity: float  # Γ = max_k F_k(w*) − F_k*
    biased_heterogeneity: float  # Γ' = max_k F_k(w_B*) − F_k*


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


def biased_optimum(
    losses: PerClientLosses,
    gradients: PerClientGradients,
    target: Values,
    effective: Values,
    start: Values,
    tolerance: float = 1e-8,
) -> BiasedOptimum:
    """The biased optimum of any convex differentiable F_k, found to ‖gradient‖ ≤ `tolerance`.

    `losses(w)` returns F_k(w) of every client, `gradients(w)` one row ∇F_k(w) per client. The cost is N + 2
    minimisations: the two objectives, and each client's own.
    """
    check_positive(tolerance=tolerance)
    origin = np.asarray(start, dtype=np.float64)
    alpha = law("target", target)
    p = law("effective", effective, alpha.size)
    _check_shapes(losses, gradients, origin, alpha.size)

    def minimiser(weights: np.ndarray, begin: np.ndarray, name: str) -> np.ndarray:
        return _minimiser(losses, gradients, weights, begin, tolerance, name)

    best = minimiser(alpha, origin, "the target objective")
    biased = minimiser(p, best, "the biased objective")
    own_minima = np.array(
        [losses(minimiser(unit, best, f"the objective of client {k}"))[k] for k, unit in enumerate(np.eye(alpha.size))]
    )
    return BiasedOptimum(
        minimiser=biased,
        target_minimiser=best,
        bias_error=max(0.0, float(alpha @ (losses(biased) - losses(best)))),
        heterogeneity=float((losses(best) - own_minima).max()),
        biased_heterogeneity=float((losses(biased) - own_minima).max()),
    )


def _minimiser(
    losses: PerClientLosses,
    gradients: PerClientGradients,
    weights: np.ndarray,
    begin: np.ndarray,
    tolerance: float,
    name: str,
) -> np.ndarray:
    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        return float(weights @ losses(w)), weights @ gradients(w)

    w, norm = begin, np.inf
    for _ in range(MAX_RESTARTS):
        w = minimize(objective, w, jac=True, method="BFGS", options={"gtol": tolerance / 10, "maxiter": 10_000}).x
        norm = float(np.linalg.norm(weights @ gradients(w)))
        if norm <= tolerance:
            return w
    raise ValueError(
        f"{name}: the gradient still has norm {norm:.3g}, above tolerance = {tolerance:g}; there may be no minimum "
        "(add a regulariser) or losses and gradients may not belong together"
    )


def _check_shapes(losses: PerClientLosses, gradients: PerClientGradients, w: np.ndarray, count: int) -> None:
    for name, shape, expected in (
        ("losses", np.shape(losses(w)), (count,)),
        ("gradients", np.shape(gradients(w)), (count, *w.shape)),
    ):
        if w.ndim != 1 or shape != expected:
            raise ValueError(f"{name} has shape {shape} at start: for {count} clients it must have shape {expected}")


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
