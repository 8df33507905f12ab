"""How far effective weights are from the target: both are divided by their sums first."""

from __future__ import annotations

import numpy as np
from scipy.special import rel_entr

from turnout.arguments import Values, law


def total_variation(target: Values, effective: Values) -> float:
    """½ Σ_k |α_k − p_k|: the weight that would have to move to other clients; between 0 and 1."""
    alpha, p = _pair(target, effective)
    return float(np.abs(alpha - p).sum() / 2)


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


def kl_to_effective(target: Values, effective: Values) -> float:
    """KL(α‖p) = Σ_k α_k ln(α_k / p_k), in nats; infinite where a client with a target has no effective weight."""
    alpha, p = _pair(target, effective)
    return max(0.0, float(rel_entr(alpha, p).sum()))  # rounding may leave -1e-17 for equal laws


def _pair(target: Values, effective: Values) -> tuple[np.ndarray, np.ndarray]:
    alpha = law("target", target)
    return alpha, law("effective", effective, alpha.size)
