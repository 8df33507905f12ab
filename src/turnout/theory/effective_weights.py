"""For whom a strategy trains: the effective weights Ω that it gives the clients in the long run.

A strategy minimises Σ_k Ω_k F_k with Ω_k ∝ E[what the update of k counts for in a round, 0 if it does not arrive] times
the reach ‖a_k‖₁ of that update. It is consistent exactly when Ω is the target. All functions return Ω with Σ_k Ω_k = 1,
but `normalised_round_weights` and `normalised_round_weights_of_law`, which return the expectations themselves.
"""

from __future__ import annotations

import numpy as np

from turnout.arguments import Values, law, nonnegative, shares

STEP = 0.25  # of the quadrature: the error is near exp(-π²/STEP), below rounding
FIRST = -4.25  # where exp(x - exp(-x)) is beyond rounding of its integral
LEAST = 1e-290  # of the largest weight: what is smaller cannot be told from this
NEGLIGIBLE = 80.0  # nodes below exp(-80) beside the whole are left out


def effective_raw(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Raw weights q_k on all who are available: Ω_k ∝ π_k q_k ‖a_k‖₁ (Rodio et al. 2023, eq. 4)."""
    pi = shares("rates", rates)
    return law("π q ‖a‖₁", pi * nonnegative("weights", weights, pi.size) * _reach(reach, pi.size))


def effective_importance_sampling(target: Values, failure: Values, reach: Values | None = None) -> np.ndarray:
    """K draws by the target ω, each received update counted 1/K: Ω_k ∝ ω_k (1 − q_k) ‖a_k‖₁ (Weng et al. 2025, eq. 6).

    `failure` is q_k, the probability that an upload of k is lost.
    """
    omega = law("target", target)
    return law("ω (1 − q) ‖a‖₁", omega * (1 - shares("failure", failure, omega.size)) * _reach(reach, omega.size))


def effective_c_a_fedavg(target: Values, reach: Values | None = None) -> np.ndarray:
    """c-a-FedAvg divides by the success of the link, not by the reach: Ω_k ∝ ω_k ‖a_k‖₁."""
    omega = law("target", target)
    return law("ω ‖a‖₁", omega * _reach(reach, omega.size))


def effective_fednova(target: Values, failure: Values) -> np.ndarray:
    """FedNova with a fixed divisor divides by the reach, not by the success of the link: Ω_k ∝ ω_k (1 − q_k)."""
    omega = law("target", target)
    return law("ω (1 − q)", omega * (1 - shares("failure", failure, omega.size)))


def effective_fedacs(target: Values) -> np.ndarray:
    """FedACS draws by ω_k / ((1 − q_k) ‖a_k‖₁), which makes up for both: Ω = ω."""
    return law("target", target)


def effective_debiased(target: Values) -> np.ndarray:
    """Debiased FedAvg divides by the share of participations, which settles: Ω = α, 1/N in Sun et al. 2025."""
    return law("target", target)


def effective_normalised(rates: Values, weights: Values, reach: Values | None = None) -> np.ndarray:
    """Weights divided by their sum over who is there: Ω_k ∝ E[q_k 1_k / Σ_j q_j 1_j] ‖a_k‖₁, clients independent."""
    expected = normalised_round_weights(rates, weights)
    return law("E[q_k 1_k / Σ_j q_j 1_j] ‖a‖₁", expected * _reach(reach, expected.size))


def normalised_round_weights(rates: Values, weights: Values) -> np.ndarray:
    """E[q_k 1_k / Σ_j q_j 1_j] for independent clients that are there with probability π_k; 0/0 counts as 0.

    These are the mean weights of AdaFed, of FedAvg over what was received and of FedNova renormalised over arrivals.
    They add up to the probability that anyone with a weight is there. Since 1/S = ∫_0^∞ exp(−sS) ds,

        E_k = ∫_0^∞ π_k q_k e^{−s q_k} ∏_{j≠k} (1 − π_j + π_j e^{−s q_j}) ds,

    one integral, whose integrand is entire in s and bounded on the right half plane: the trapezoidal rule in x, with
    s = exp(x − exp(−x)) / Σ_j q_j, has a relative error near 1e-14. Costs O(N) a node, of which there are some 40,
    and 4 for each factor of e between the largest and the smallest weight where hardly anyone is there.
    """
    pi = shares("rates", rates)
    q = nonnegative("weights", weights, pi.size)
    expected = np.zeros(pi.size)
    heard = (pi > 0) & (q > 0)
    if heard.any():
        # A common factor changes nothing; beside 1, weights below the least are all alike.
        scaled = np.maximum(q[heard] / q[heard].max(), LEAST)
        expected[heard] = _laplace_integral(pi[heard], scaled / scaled.sum())
    return expected


def normalised_round_weights_of_law(masks: np.ndarray, probabilities: Values, weights: Values) -> np.ndarray:
    """E[q_k 1_k / Σ_j q_j 1_j] where row i of `masks` is the set that is there with the i-th probability; 0/0 is 0."""
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

    Multiplied by the k-th factor and divided by it again, so that one product serves all k. Where π_k = 1 that factor
    is e^{−s q_k}, which may underflow, but the quotient is q_k.
    """
    certain = pi == 1.0
    mass, sure = pi[~certain], float(q[certain].sum())
    shaky = q[~certain]
    total = np.zeros(q.size)
    last = np.log(NEGLIGIBLE) - np.log(q.min())
    for x in np.arange(FIRST, last, STEP):
        s = np.exp(x - np.exp(-x))
        decay = np.exp(-s * shaky)
        factors = (1 - mass) + mass * decay
        # log1p keeps what a rare client takes away, log what is left of a common one; the floor keeps it defined there.
        logs = np.where(factors > 0.5, np.log1p(np.maximum(mass * np.expm1(-s * shaky), -0.75)), np.log(factors))
        log_product = float(logs.sum()) - s * sure
        node = STEP * s * (1 + np.exp(-x)) * np.exp(log_product)
        total[~certain] += node * mass * shaky * decay / factors
        total[certain] += node * q[certain]
        if log_product + x < -NEGLIGIBLE:
            break
    return total


def _reach(reach: Values | None, count: int) -> np.ndarray | float:
    return 1.0 if reach is None else nonnegative("reach", reach, count)
