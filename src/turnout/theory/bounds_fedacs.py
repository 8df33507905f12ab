"""How sampling over lossy links with unequal work converges: theorems 1 to 3 of Weng et al. 2025, term by term."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar

from turnout.declarations import LongCount, NotNegative, Positive, checked
from turnout.declarations.arrays import Values, check_step, law, positive, shares
from turnout.theory.terms import Terms


@dataclass(frozen=True)
class SamplingBound(Terms):
    """Mean of E‖∇F̃(X_r)‖² ≤ start + dissimilarity + noise + drift_noise."""

    start: float  # the gap F̃(X_0) − F̃*, worked off
    dissimilarity: float  # κ²: clients differ, and only K of them are drawn
    noise: float  # σ² in the updates that are summed
    drift_noise: float  # σ² in the path of the local models


@checked
def sampling_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    odds: Values,
    failure: Values,
    reach: Values,
    *,
    learning_rate: Positive,
    rounds: LongCount,
    smoothness: Positive,
    dissimilarity: NotNegative,
    noise: NotNegative,
    gap: NotNegative,
    dissimilarity_slope: NotNegative = 1.0,
) -> SamplingBound:
    """Bound on the mean of E‖∇F̃(X_r)‖² over R rounds of K draws by p, each received update counted 1/K (theorem 1).

    F̃ = Σ Ω_m F_m is really trained, with Ω_m ∝ p_m (1 − q_m) ‖a_m‖₁. Symbols of the paper: `odds` p, `failure` q,
    `reach` ‖a_m‖₁, `learning_rate` η, `rounds` R, `smoothness` L, Σ Ω_m ‖∇F_m‖² ≤ β² ‖∇F̃‖² + κ² with `dissimilarity`
    κ and `dissimilarity_slope` β, `noise` σ, `gap` F̃(X_0) − F̃*. With A = max ‖a_m‖₁, ℓ = Σ p_m (1 − q_m) ‖a_m‖₁
    (their η_eff τ_eff / η), τ = ℓ / Σ p_m (1 − q_m), u = η L A and s = u + (u² + 2u³) / (1 − 2u²),

        start          4 (F̃(X_0) − F̃*) / (η ℓ R)
        dissimilarity  4 s κ²
        noise          4 η L A² σ² / τ
        drift_noise    (2u² + 4u³) / (1 − 2u²) · σ²

    for β² s ≤ ¼. Deviations: the paper has η_eff τ_eff κ²/β² for 4 s κ², which lacks L and fails for large L. It asks
    for s ≤ ¼, having pulled β² ≥ 1 out of a negative term (73e). Its lemma 4 leaves the noise out of the local path,
    which is `drift_noise`. Its (66b) drops a cross term, which doubles `noise`.
    """
    p = law("odds", odds)
    step, square = _step_of(p, failure, reach)
    s, u = _conditions(learning_rate, float(np.max(reach)), smoothness, dissimilarity_slope)
    horizon = rounds
    return SamplingBound(
        start=4 * gap / (learning_rate * step * horizon),
        dissimilarity=4 * s * dissimilarity**2,
        noise=4 * learning_rate * smoothness * square * noise**2,
        drift_noise=_drift(u) * noise**2,
    )


# Long: the docstring states the theorem.
@checked
def fedacs_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    target: Values,
    failures: np.ndarray,
    reaches: np.ndarray,
    *,
    learning_rate: Positive,
    smoothness: Positive,
    dissimilarity: NotNegative,
    noise: NotNegative,
    gap: NotNegative,
    dissimilarity_slope: NotNegative = 1.0,
) -> SamplingBound:
    """Bound on the mean of E‖∇F(X_r)‖² for FedACS, where links and local work change from round to round (theorem 3).

    Row r of `failures` and `reaches` is round r. Clients are drawn by ω_m / ((1 − q_m) ‖a_m‖₁), so the step of every
    round along ∇F is ℓ_r = 1 / Σ_m ω_m / ((1 − q_m) ‖a_m‖₁). With the terms of `sampling_bound` in each round and
    B = max_r 1/ℓ_r,

        start   4 B (F(X_0) − F*) / (η R),      the others   B · mean_r of ℓ_r times the term of round r.

    Deviations: the paper sums (F(X_{r−1}) − F(X_r)) / ℓ_r as if every difference were positive. Weighing rounds by ℓ_r
    instead gives the factors B ℓ_r, which are 1 where nothing changes. Its C_r lacks the τ_eff that its (108) has.
    """
    omega = law("target", target)
    lost, work = np.atleast_2d(np.asarray(failures, float)), np.atleast_2d(np.asarray(reaches, float))
    if lost.shape != work.shape or lost.shape[1] != omega.size:
        raise ValueError(
            f"failures has shape {lost.shape}, reaches {work.shape}: give one row per round and one "
            f"column for each of {omega.size} clients"
        )
    lengths, rows = np.zeros(len(lost)), np.zeros((len(lost), 3))
    for r, (failure, reach) in enumerate(zip(lost, work, strict=True)):
        passed = 1 - shares("failures", failure)
        if (passed == 0).any():
            raise ValueError(f"failures: in round {r} a client never gets through; FedACS needs a failure below 1")
        lengths[r], square = _step_of(law("odds", omega / (passed * positive("reaches", reach))), failure, reach)
        s, u = _conditions(learning_rate, float(reach.max()), smoothness, dissimilarity_slope)
        rows[r] = 4 * s, 4 * learning_rate * smoothness * square, _drift(u)
    slowest = 1 / lengths.min()
    means = slowest * (lengths @ rows) / len(lost)
    return SamplingBound(
        start=4 * slowest * gap / (learning_rate * len(lost)),
        dissimilarity=float(means[0]) * dissimilarity**2,
        noise=float(means[1]) * noise**2,
        drift_noise=float(means[2]) * noise**2,
    )


@checked
def largest_sampling_step(reach: Values, smoothness: Positive, dissimilarity_slope: NotNegative = 1.0) -> float:
    """The largest η with β² s(η L A) ≤ ¼, up to which the bounds of this file hold."""
    if dissimilarity_slope < 1:
        raise ValueError(f"dissimilarity_slope = {dissimilarity_slope:g}: β is at least 1 by Jensen's inequality")
    limit = 0.25 / dissimilarity_slope**2
    u = root_scalar(lambda v: _growth(v) - limit, bracket=(0.0, 0.5), method="brentq", xtol=1e-15).root
    return float(u) / (smoothness * float(positive("reach", reach).max()))


def _step_of(p: np.ndarray, failure: Values, reach: Values) -> tuple[float, float]:
    """ℓ = Σ p (1 − q) ‖a‖₁, and A² / τ with τ = ℓ / Σ p (1 − q)."""
    passed = p * (1 - shares("failure", failure, p.size))
    work = positive("reach", reach, p.size)
    length = float(passed @ work)
    if length == 0:
        raise ValueError("failure: no update ever gets through; at least one client must have a failure below 1")
    return length, float(work.max() ** 2 * passed.sum() / length)


def _conditions(learning_rate: float, reach: float, smoothness: float, slope: float) -> tuple[float, float]:
    largest = largest_sampling_step([reach], smoothness, slope)
    check_step("learning_rate", learning_rate, largest * (1 + 1e-12), "β² s ≤ 1/4 with s from u = η L max ‖a‖₁")
    u = learning_rate * smoothness * reach
    return _growth(u), u


def _growth(u: float) -> float:
    return u + (u**2 + 2 * u**3) / (1 - 2 * u**2)


def _drift(u: float) -> float:
    return (2 * u**2 + 4 * u**3) / (1 - 2 * u**2)
