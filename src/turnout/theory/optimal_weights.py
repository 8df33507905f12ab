"""Aggregation weights that minimise the error bounds of Rodio et al. 2023: their problems (212) and (14).

With Q = Σ_k q_k given, the optimisation error is bounded by (½ Σ_k A_k q_k² + B) / Σ_k π_k q_k + C (their eq. 208):
A_k is the noise of client k, B collects what does not depend on how Q is shared out.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import root_scalar

from turnout.arguments import Values, check_nonnegative, check_positive, positive

MAX_STEPS = 200  # of one Newton search; some 10 are usual
TOLERANCE = 1e-11  # error of Σ p and of the scaled Σ p/π at which a search ends: rounding is not far below


def fastest_weights(rates: Values, noise: Values, offset: float, total: float) -> np.ndarray:
    """The q ≥ 0 with Σ_k q_k = Q that minimises (½ Σ_k A_k q_k² + B) / Σ_k π_k q_k: problem (212).

    `rates` are π, `noise` A, `offset` B and `total` Q. The solution is q_k = max(0, (ι π_k − θ) / A_k), and ι is the
    minimum itself. So the clients with a weight are the n most available ones, for some n. Given n, the two multipliers
    follow from sums over these clients, with S_i = Σ π^i / A and V = S_0 S_2 − S_1²:

        V ι² + 2 Q S_1 ι − (Q² + 2 B S_0) = 0,      θ = (ι S_1 − Q) / S_0.

    The best n whose weights are not negative is the answer: O(N log N), no iteration.
    """
    pi, a = _check(rates, noise, offset, total)
    order = np.argsort(-pi, kind="stable")
    sorted_pi, sorted_a = pi[order], a[order]
    iota, theta = _multipliers(sorted_pi, sorted_a, offset, total)
    allowed = iota * sorted_pi >= theta - 1e-12 * np.abs(theta)
    best = int(np.argmin(np.where(allowed, iota, np.inf))) + 1
    weights = np.zeros(pi.size)
    raw = np.maximum((iota[best - 1] * sorted_pi[:best] - theta[best - 1]) / sorted_a[:best], 0.0)
    weights[order[:best]] = total * raw / raw.sum()
    return weights


def trade_off_weights(
    rates: Values, noise: Values, offset: float, total: float, target: Values, bias: float
) -> np.ndarray:
    """The q with Σ_k q_k = Q that minimises (½ Σ A_k q_k² + B) / Σ π_k q_k + c χ²_{α‖p}, p_k ∝ π_k q_k: problem (14).

    `bias` is c, the cost of a unit of χ² in the unit of the first part: κ² Γ Σ_t η_t (Rodio et al. 2023, 11 and 13;
    their (14) leaves κ² out). c → 0 gives `fastest_weights`, c → ∞ the unbiased q_k ∝ α_k / π_k.

    In terms of p the problem is convex on the simplex (not in q on Σ q_k = Q, where Σ π_k q_k is not constant). For a
    fixed σ = Σ p_k / π_k it separates: p_k is the positive root of a cubic in two multipliers, which Newton's method
    finds from the concave dual. σ is then the root of an increasing function. Each step is O(N).
    """
    pi, a = _check(rates, noise, offset, total)
    alpha = positive("target", target, pi.size)
    check_positive(bias=bias)
    problem = _FixedSum(total * a / pi**2, bias * (alpha / alpha.sum()) ** 2, 1 / pi)
    if np.ptp(pi) == 0:
        p = problem.solve(1 / pi[0])
    else:
        p = problem.solve(_best_sum(problem, offset / total, float((1 / pi) @ (alpha / alpha.sum()))))
    q = p / pi
    return total * q / q.sum()


def _check(rates: Values, noise: Values, offset: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    pi = positive("rates", rates)
    if (pi > 1).any():
        raise ValueError(f"rates has {pi.max():g}: an availability is at most 1")
    check_positive(total=total)
    check_nonnegative(offset=offset)
    return pi, positive("noise", noise, pi.size)


def _multipliers(pi: np.ndarray, a: np.ndarray, offset: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    """ι and θ for the first n clients, for every n; clients are sorted by falling availability."""
    s0, s1 = np.cumsum(1 / a), np.cumsum(pi / a)  # S_0 and S_1
    # The variance is the same wherever π is measured from; from its largest value, less is lost to cancellation.
    below = pi[0] - pi
    variance = np.maximum(s0 * np.cumsum(below**2 / a) - np.cumsum(below / a) ** 2, 0.0)
    square = total**2 + 2 * offset * s0
    iota = square / (total * s1 + np.sqrt(total**2 * s1**2 + variance * square))
    return iota, (iota * s1 - total) / s0


def _best_sum(problem: _FixedSum, slope: float, unbiased: float) -> float:
    """The σ at which the whole objective stops falling, searched from that of p = α towards either end."""

    @cache  # near the root, rounding makes a second answer differ even in its sign
    def rise(sigma: float) -> float:
        p = problem.solve(sigma)
        return slope - float(problem.bend @ p**2) / (2 * sigma**2) + problem.multipliers[1] / problem.spread

    near, end = unbiased, float(problem.inverse.min() if rise(unbiased) > 0 else problem.inverse.max())
    far = near
    while (rise(far) > 0) == (end < unbiased):
        near, far = far, far + (end - far) / 2
        if far in (near, end):
            return near
    return float(root_scalar(rise, bracket=sorted((near, far)), method="brentq", xtol=1e-14 * unbiased).root)


class _FixedSum:
    """Minimise Σ a_k p_k² / (2σ) + Σ f_k / p_k over Σ p_k = 1 and Σ v_k p_k = σ; a = Q A/π², f = c α², v = 1/π.

    v is centred and scaled to v', so that the two multipliers μ and κ are well conditioned. They are kept from one σ to
    the next, where they are nearly right.
    """

    def __init__(self, bend: np.ndarray, barrier: np.ndarray, inverse: np.ndarray) -> None:
        self.bend, self.barrier, self.inverse = bend, barrier, inverse
        alpha = np.sqrt(barrier) / np.sqrt(barrier).sum()
        self.centre, self.spread = float(inverse @ alpha), float(np.ptp(inverse)) or 1.0
        self.sides = np.stack([np.ones_like(inverse), (inverse - self.centre) / self.spread], axis=1)
        push = bend * alpha / self.centre - barrier / alpha**2  # what the multipliers would have to be at p = α
        self.multipliers = np.linalg.lstsq(self.sides, push, rcond=None)[0]

    def solve(self, sigma: float) -> np.ndarray:
        expected = np.array([1.0, (sigma - self.centre) / self.spread])
        for _ in range(MAX_STEPS):
            p = self.roots(self.multipliers, sigma)
            miss = expected - self.sides.T @ p
            if (np.abs(miss) <= TOLERANCE).all():
                return p
            slope = 1 / (self.bend / sigma + 2 * self.barrier / (p * p * p))  # dp/d(right side of the cubic)
            step = np.linalg.lstsq((self.sides.T * slope) @ self.sides, miss, rcond=None)[0]
            length, value, gain = 1.0, self.dual(self.multipliers, p, expected, sigma), float(miss @ step)
            if gain <= TOLERANCE**2 * abs(value):
                return p
            while length > TOLERANCE:
                tried = self.multipliers + length * step
                goal = value + 0.1 * length * gain - TOLERANCE * abs(value)
                if self.dual(tried, self.roots(tried, sigma), expected, sigma) >= goal:
                    break
                length /= 2
            self.multipliers = self.multipliers + length * step
        raise ValueError(f"no convergence in {MAX_STEPS} steps: rates, noise or target span too many orders")

    def dual(self, multipliers: np.ndarray, p: np.ndarray, expected: np.ndarray, sigma: float) -> float:
        right = self.sides @ multipliers
        return float((self.bend @ p**2) / (2 * sigma) + (self.barrier / p).sum() - right @ p + multipliers @ expected)

    def roots(self, multipliers: np.ndarray, sigma: float) -> np.ndarray:
        """The positive roots of (a/σ) p³ − r p² − f = 0, r = μ + κ v', by Newton's method from above."""
        lead, right = self.bend / sigma, self.sides @ multipliers
        cube = np.cbrt(self.barrier / lead)
        falling = np.sqrt(self.barrier / np.where(right < 0, -right, 1.0))
        p = np.where(right < 0, np.minimum(cube, falling), cube + right / lead)
        for _ in range(MAX_STEPS):
            pull = lead * p - right
            change = (p * p * pull - self.barrier) / (p * (2 * pull + lead * p))
            p = p - change
            if (np.abs(change) <= 1e-8 * p).all():  # the next error is the square of this one
                break
        return p
