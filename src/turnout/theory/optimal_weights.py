"""Aggregation weights that minimise the error bounds of Rodio et al. 2023: their problems (212) and (14).

With Q = Σ_k q_k given, the optimisation error is bounded by (½ Σ_k A_k q_k² + B) / Σ_k π_k q_k + C (their eq. 208):
A_k is the noise of client k, B what does not depend on how Q is shared out.
"""

from __future__ import annotations

import numpy as np

from turnout.theory.inputs import Values, check_nonnegative, check_positive, positive, vector

SHRINK = 0.4  # of the weight of the bias from one problem to the next: then a Newton step does not overshoot
MOST_STEPS = 200  # of Newton's method at the end; some 5 are usual
ON_THE_WAY, CLOSE = 0.5, 1e-5  # largest relative move of any p_k at which a problem counts as solved
SHORTEST = 1e-6  # part of a step, below which rounding hides whether the objective falls
TO_BOUNDARY = 0.9  # a step goes at most this far towards the nearest zero


def fastest_weights(rates: Values, noise: Values, offset: float, total: float) -> np.ndarray:
    """The q ≥ 0 with Σ_k q_k = Q that minimises (½ Σ_k A_k q_k² + B) / Σ_k π_k q_k: problem (212).

    `rates` are π, `noise` A, `offset` B and `total` Q. The solution is q_k = max(0, (ι π_k − θ) / A_k), and ι is the
    minimum itself. Who counts is hence a head of the clients in order of availability; for the head of n the two
    multipliers follow from sums over it, with S_i = Σ π^i / A and V = S_0 S_2 − S_1²:

        V ι² + 2 Q S_1 ι − (Q² + 2 B S_0) = 0,      θ = (ι S_1 − Q) / S_0.

    The best head whose weights are not negative is the answer: O(N log N), no iteration.
    """
    pi, a = _checked(rates, noise, offset, total)
    order = np.argsort(-pi, kind="stable")
    head_pi, head_a = pi[order], a[order]
    iota, theta = _multipliers(head_pi, head_a, offset, total)
    allowed = iota * head_pi >= theta - 1e-12 * np.abs(theta)
    best = int(np.argmin(np.where(allowed, iota, np.inf))) + 1
    weights = np.zeros(pi.size)
    raw = np.maximum((iota[best - 1] * head_pi[:best] - theta[best - 1]) / head_a[:best], 0.0)
    weights[order[:best]] = total * raw / raw.sum()
    return weights


def fastest_value(rates: Values, noise: Values, offset: float, weights: Values) -> float:
    """(½ Σ_k A_k q_k² + B) / Σ_k π_k q_k at given weights: what `fastest_weights` minimises."""
    q = vector("weights", weights)
    pi, a = _checked(rates, noise, offset, float(q.sum()))
    return float((a @ q**2 / 2 + offset) / (pi @ q))


def trade_off_weights(
    rates: Values, noise: Values, offset: float, total: float, target: Values, bias: float
) -> np.ndarray:
    """The q with Σ_k q_k = Q that minimises (½ Σ A_k q_k² + B) / Σ π_k q_k + c χ²_{α‖p}, p_k ∝ π_k q_k: problem (14).

    `bias` is c, what a unit of χ² costs in the unit of the first part: κ² Γ Σ_t η_t (Rodio et al. 2023, 11 and 13;
    their (14) leaves κ² out). c → 0 gives `fastest_weights`, c → ∞ the unbiased q_k ∝ α_k / π_k.

    In terms of p the problem is convex on the simplex, with the Hessian of a diagonal and two products: Newton's
    method in O(N) a step, from p = α at a large c down to the c that is asked for.
    """
    pi, a = _checked(rates, noise, offset, total)
    alpha = positive("target", target, pi.size)
    alpha = alpha / alpha.sum()
    check_positive(bias=bias)
    problem = _TradeOff(pi, a, offset, total, alpha)
    p = alpha
    for weight in _path(problem.weight_of_unbiased(), bias):
        p = problem.solve(p, weight, ON_THE_WAY)
    p = problem.solve(p, bias, CLOSE)
    q = p / pi
    return total * q / q.sum()


def trade_off_value(rates: Values, noise: Values, offset: float, target: Values, bias: float, weights: Values) -> float:
    """(½ Σ_k A_k q_k² + B) / Σ_k π_k q_k + c χ²_{α‖p} at given positive weights: what `trade_off_weights` minimises."""
    alpha, q = positive("target", target), positive("weights", weights)
    pushed = np.asarray(rates) * q
    p = pushed / pushed.sum()
    alpha = alpha / alpha.sum()
    return fastest_value(rates, noise, offset, weights) + bias * float(((alpha - p) ** 2 / p).sum())


def _checked(rates: Values, noise: Values, offset: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    pi = positive("rates", rates)
    if (pi > 1).any():
        raise ValueError(f"rates has {pi.max():g}: an availability is at most 1")
    check_positive(total=total)
    check_nonnegative(offset=offset)
    return pi, positive("noise", noise, pi.size)


def _multipliers(pi: np.ndarray, a: np.ndarray, offset: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    """ι and θ for every head of the clients, who come in order of availability."""
    zero, one = np.cumsum(1 / a), np.cumsum(pi / a)
    # The variance does not care where π is measured from; from its largest value less is lost to cancellation.
    below = pi[0] - pi
    variance = np.maximum(zero * np.cumsum(below**2 / a) - np.cumsum(below / a) ** 2, 0.0)
    square = total**2 + 2 * offset * zero
    iota = square / (total * one + np.sqrt(total**2 * one**2 + variance * square))
    return iota, (iota * one - total) / zero


def _path(first: float, last: float) -> list[float]:
    """Weights of the bias from one that makes p = α nearly right down to just above the one asked for."""
    steps = max(0, int(np.ceil(np.log(last / first) / np.log(SHRINK)))) if last < first else 0
    return [first * SHRINK**k for k in range(steps)]


class _TradeOff:
    """φ(p) = Q Σ a_k p_k² / (2σ) + B σ / Q + c Σ α_k² / p_k with a = A / π² and σ = Σ p_k / π_k: (14) in terms of p."""

    def __init__(self, pi: np.ndarray, noise: np.ndarray, offset: float, total: float, alpha: np.ndarray) -> None:
        self.inverse, self.bend = 1 / pi, noise / pi**2
        self.offset, self.total, self.alpha = offset, total, alpha

    def weight_of_unbiased(self) -> float:
        """A weight of the bias beside which the rest of the gradient at p = α is small."""
        slope = self.slope(self.alpha, 0.0)
        return 10 * float(np.ptp(slope)) + np.finfo(float).tiny

    def value(self, p: np.ndarray, weight: float) -> float:
        sigma = self.inverse @ p
        fast = self.total * (self.bend @ p**2) / (2 * sigma) + self.offset * sigma / self.total
        return float(fast + weight * ((self.alpha - p) ** 2 / p).sum())

    def slope(self, p: np.ndarray, weight: float) -> np.ndarray:
        sigma, push = self.inverse @ p, self.bend * p
        fast = self.total * (push / sigma - (push @ p) / (2 * sigma**2) * self.inverse)
        return fast + self.offset / self.total * self.inverse - weight * (self.alpha / p) ** 2

    def solve(self, p: np.ndarray, weight: float, close: float) -> np.ndarray:
        """Damped Newton from p until a step moves no p_k by more than a share `close`; that step is taken, too."""
        for _ in range(MOST_STEPS):
            step = self.step(p, weight)
            move = float(np.abs(step / p).max())
            length = 1.0 if move <= close else self.length(p, step, weight)
            p = p + length * step
            p = p / p.sum()
            if move <= close:
                return p
        raise ValueError(f"no convergence in {MOST_STEPS} steps: rates, noise or target span too many orders")

    def length(self, p: np.ndarray, step: np.ndarray, weight: float) -> float:
        """How much of a step to take: not over the boundary, and so that φ falls as promised."""
        falling = step < 0
        length = min(1.0, TO_BOUNDARY * float((-p[falling] / step[falling]).min(initial=np.inf)))
        value, slope = self.value(p, weight), float(self.slope(p, weight) @ step)
        while length > SHORTEST and self.value(p + length * step, weight) > value + 0.1 * length * slope:
            length /= 2
        return length

    def step(self, p: np.ndarray, weight: float) -> np.ndarray:
        """The Newton step among those that keep Σ p = 1: a diagonal and two products, by Woodbury's identity."""
        sigma, push = self.inverse @ p, self.bend * p
        diagonal = self.total * self.bend / sigma + 2 * weight * self.alpha**2 / p**3
        sides = np.stack([push, self.inverse], axis=1)
        core = self.total / sigma**2 * np.array([[0.0, -1.0], [-1.0, (push @ p) / sigma]])
        scaled = sides / diagonal[:, None]
        small = np.linalg.inv(core) + sides.T @ scaled

        def solve(right: np.ndarray) -> np.ndarray:
            plain = right / diagonal
            return plain - scaled @ np.linalg.solve(small, sides.T @ plain)

        down, ones = solve(-self.slope(p, weight)), solve(np.ones_like(p))
        return down - ones * (down.sum() / ones.sum())
