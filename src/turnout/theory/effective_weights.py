"""For whom a strategy trains: the effective weights Ω that it gives the clients in the long run.

A strategy minimises Σ_k Ω_k F_k. Ω_k ∝ E[weight of the update of k in a round, 0 if it does not arrive] times the
reach ‖a_k‖₁ of that update. The strategy is consistent exactly when Ω is the target. All functions return Ω with
Σ_k Ω_k = 1, except `normalised_round_weights` and `normalised_round_weights_of_law`: they return the expectations.
"""

import numpy as np

from turnout.arguments import Values, law, nonnegative, shares

SPACING = 0.25  # of the quadrature: the error is near exp(-π²/SPACING), below rounding
FIRST_NODE = -4.25  # where exp(x - exp(-x)) is below the rounding of its integral
MIN_RELATIVE_WEIGHT = 1e-290  # of the largest weight: smaller ones count the same as this
NEGLIGIBLE_EXPONENT = 80.0  # nodes below exp(-80) of the integral are left out


def effective_raw(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Raw weights q_k on all available clients: Ω_k ∝ π_k q_k ‖a_k‖₁ (Rodio et al. 2023, eq. 4)."""
    pi = shares("rates", rates)
    return law("π q ‖a‖₁", pi * nonnegative("weights", weights, pi.size) * _reach(reach, pi.size))


def effective_importance_sampling(target: Values, failure: Values, reach: Values | None = None) -> np.ndarray:
    """K draws by the target ω, each received update counted 1/K: Ω_k ∝ ω_k (1 − q_k) ‖a_k‖₁ (Weng et al. 2025, eq. 6).

    `failure` is q_k, the probability that an upload of k is lost.
    """
    omega = law("target", target)
    return law("ω (1 − q) ‖a‖₁", omega * (1 - shares("failure", failure, omega.size)) * _reach(reach, omega.size))


def effective_normalised(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Weights normalised over available, independent clients: Ω_k ∝ E[q_k 1_k / Σ_j q_j 1_j] ‖a_k‖₁."""
    expected = normalised_round_weights(rates, weights)
    return law("E[q_k 1_k / Σ_j q_j 1_j] ‖a‖₁", expected * _reach(reach, expected.size))


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
