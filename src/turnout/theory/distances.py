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

    Infinite where a client with a target has no effective weight; a client with neither adds nothing.
    """
    return _chi_square(*_pair(target, effective))


def chi_square_to_target(target: Values, effective: Values) -> float:
    """χ²_{p‖α} = Σ_k (p_k − α_k)² / α_k: finite unless weight goes to a client whose target is 0."""
    alpha, p = _pair(target, effective)
    return _chi_square(p, alpha)


def kl_to_effective(target: Values, effective: Values) -> float:
    """KL(α‖p) = Σ_k α_k ln(α_k / p_k), in nats; infinite where a client with a target has no effective weight."""
    return _kl(*_pair(target, effective))


def kl_to_target(target: Values, effective: Values) -> float:
    """KL(p‖α) = Σ_k p_k ln(p_k / α_k), in nats; infinite where weight goes to a client whose target is 0."""
    alpha, p = _pair(target, effective)
    return _kl(p, alpha)


def _pair(target: Values, effective: Values) -> tuple[np.ndarray, np.ndarray]:
    alpha = law("target", target)
    return alpha, law("effective", effective, alpha.size)


def _chi_square(first: np.ndarray, second: np.ndarray) -> float:
    if (first[second == 0] > 0).any():
        return float("inf")
    weighted = second > 0
    with np.errstate(over="ignore"):  # a vanishing weight is as good as none: infinite
        return float(((first[weighted] - second[weighted]) ** 2 / second[weighted]).sum())


def _kl(first: np.ndarray, second: np.ndarray) -> float:
    return max(0.0, float(rel_entr(first, second).sum()))  # rounding may leave -1e-17 for equal laws
