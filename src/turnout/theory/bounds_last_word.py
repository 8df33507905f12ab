"""How LastWord converges, term by term, and what is left of a client that vanishes.

For any memory that moves by a convex combination of all clients' words, in any world and with steps of any length that
depend on who came. The proof is in docs/theory/last_word.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from turnout.arguments import check_step, refuse
from turnout.declarations import Count, CountOrZero, LongCount, NotNegative, Numbers, OpenShare, Positive, checked
from turnout.theory.terms import Terms

MAX_AGE = 2**500  # of a client, in rounds; above it there is no answer
PerRound = float | Sequence[float] | Float[np.ndarray, " rounds"]


@dataclass(frozen=True)
class LastWordBound(Terms):
    """Mean of E‖∇F‖², weighted by the steps, ≤ start + noise + stale_noise + drift + fading."""

    start: float  # the gap F(x) − F* when everybody has been heard, worked off
    noise: float  # of the gradients, averaged over the clients
    stale_noise: float  # of old gradients, which the model has followed before
    drift: float  # the model moves during local work
    fading: float  # weights of old words are below the target


# Long: the docstring states the theorem.
@checked
def last_word_bound(  # noqa: PLR0913 (the constants of a theorem, by name)
    *,
    steps: PerRound,
    rounds: LongCount,
    lag: PerRound,
    largest_share: Annotated[float, Numbers(0, 1, above=True)],
    smoothness: Positive,
    dissimilarity: NotNegative,
    noise: NotNegative,
    gap: NotNegative,
    learning_rate: PerRound = 0.0,
    local_steps: Count = 1,
    path: NotNegative = 0.0,
    off_target: PerRound = 0.0,
) -> LastWordBound:
    """Bound on Σ_t γ_t E‖∇F(x_t)‖² / Σ_t γ_t over T rounds from a round t_0 on, in which everybody has been heard.

    Each of the first four may be a number or have one entry per round. `steps` γ_t, zero where nothing moves; `lag` Γ_t
    = Σ_{i<t} γ_i √P_{t,i} with P_{t,i} the share of step t that was computed before step i; `learning_rate` η of the
    clients, the largest behind the words in use; `off_target` δ_t ≥ Σ_k |ω_k − α_k|, see `faded_distance`. `rounds` T,
    `largest_share` ν of a single gradient in a step, `local_steps` τ at most, `smoothness` L, `dissimilarity` ζ ≥
    ‖∇F_k − ∇F‖, `noise` σ, `gap` F(x_{t_0}) − F*, `path` Σ_{i<t_0} γ_i E‖m_i‖² of the steps before t_0. Needs γ_t + Γ ≤
    1/(4L) and, for τ > 1, η τ ≤ 1/(8L). With ⟨v⟩ = Σ γ_t v_t / Σ γ_t:

        start        (4 gap + 2 path) / Σ γ_t
        noise        4 L σ² ν ⟨γ_t⟩
        stale_noise  10.5 L σ² ν ⟨Γ_t⟩
        drift        16 L² (τ − 1) (4 τ ζ² + σ²) ⟨η²⟩
        fading       4 ζ² ⟨δ_t²⟩
    """
    named = {"steps": steps, "lag": lag, "learning_rate": learning_rate, "off_target": off_target}
    gamma, behind, eta, delta = (_by_round(name, value, rounds) for name, value in named.items())
    check_step("steps + lag", float(gamma.max() + behind.max()), 1 / (4 * smoothness), "γ + Γ ≤ 1/(4L)")
    most, level = local_steps, smoothness * noise**2 * largest_share
    if most > 1:
        check_step("learning_rate", float(eta.max()), 1 / (8 * smoothness * most), "η τ ≤ 1/(8L)")

    def mean(values: Float[np.ndarray, " rounds"]) -> float:
        return float(np.sum(gamma * values) / np.sum(gamma))

    return LastWordBound(
        start=float((4 * gap + 2 * path) / np.sum(gamma)),
        noise=4 * level * mean(gamma),
        stale_noise=10.5 * level * mean(behind),
        drift=16 * smoothness**2 * (most - 1) * (4 * most * dissimilarity**2 + noise**2) * mean(eta**2),
        fading=4 * dissimilarity**2 * mean(delta**2),
    )


@checked
def faded_distance(
    t: int | Sequence[int] | np.ndarray, longest_age: CountOrZero, fading: NotNegative = 0.5
) -> Float[np.ndarray, " *rounds"]:
    """δ_t ≥ Σ_k |w_k / Σ_j w_j − α_k| in round t, if no word is older than `longest_age`: how far weights are off.

    δ_t = 2 (1 − √r) / (1 + √r) with r = ((t + 1 − A) / (t + 1))^fading, about fading · A / (2t): it is reached if a
    share √r / (1 + √r) of the target is heard now and the rest is as old as can be.
    """
    rounds = np.asarray(t, np.float64)
    age = longest_age
    if (rounds < age).any():
        raise ValueError(f"longest_age = {age}: in round {rounds.min():g} no word can be that old")
    root = ((rounds + 1 - age) / (rounds + 1)) ** (fading / 2)
    return np.asarray(2 * (1 - root) / (1 + root))


@checked
def longest_age(
    *,
    within: Count,
    success: Annotated[float, Numbers(0, 1, above=True)],
    num_clients: Count,
    rounds: LongCount,
    miss: Annotated[float, Numbers(0, 1, above=True)] = 0.01,
) -> int:
    """Age that no word exceeds in all rounds, but for a chance of `miss`: E ⌈ln(N T / miss) / −ln(1 − ε)⌉ − 1.

    Each of the `num_clients` N is available at least once in any `within` E rounds, and an upload arrives with a
    probability of at least `success` ε, whatever has happened before. Counted over T `rounds`, after each client has
    been heard once.
    """
    window, count, horizon = within, num_clients, rounds
    if success == 1:
        return window - 1
    return window * int(np.ceil(np.log(count * horizon / miss) / -np.log1p(-success))) - 1


@checked
def word_left(
    away: float | Sequence[float] | np.ndarray, heard: CountOrZero, fading: NotNegative = 0.5
) -> Float[np.ndarray, " *rounds"]:
    """What is left of the weight of a client that was heard last in round l, after T = `away` rounds without it.

    ((l + 1) / (l + 1 + T))^fading of its share. If it has vanished, this is also how much of the way from the optimum
    of the others to that of all the model is still drawn, where all curvatures are equal.
    """
    gone = np.asarray(away, np.float64)
    if (gone < 0).any():
        raise ValueError(f"away must be 0 rounds or more, not {gone.min():g}")
    return np.asarray(((heard + 1) / (heard + 1 + gone)) ** fading)


@checked
def retirement_age(
    *, mean_absence: Annotated[float, Numbers(1)], vanishing: OpenShare, heard: CountOrZero, fading: NotNegative = 0.5
) -> int:
    """Rounds of absence after which a client that was heard last in round l is better taken for gone.

    An absence is for ever with a probability of `vanishing` v; all others are geometric with mean 1/u. After T rounds
    away the client has vanished with the probability q = v / (v + (1 − v) (1 − u)^T). With ρ = `word_left`, and in
    units of what the client counts, to forget it costs 1 − q and to keep its word q ρ² + (1 − q) (1 − ρ)², both mean
    squares. This is the first T with q > 1 − ρ/2; without fading that is near ln((1 − v) / v) / u.
    """
    hazard = -math.log1p(-1 / mean_absence) if mean_absence > 1 else math.inf

    def gone(away: int) -> bool:  # in logarithms, since both sides may be very small
        stays = math.log1p(-vanishing) - (hazard * away if away else 0.0)
        left = -fading * math.log1p(away / (heard + 1))
        return bool(stays < np.logaddexp(stays, math.log(vanishing)) + left - math.log(2))

    low, high = -1, 0  # not yet taken for gone, and taken
    while not gone(high):
        low, high = high, 2 * high + 1
        if high > MAX_AGE:
            raise ValueError(f"fading = {fading:g} is faster than chance rules out a return: no age is right")
    while high - low > 1:
        low, high = (low, middle) if gone(middle := (low + high) // 2) else (middle, high)
    return high


def _by_round(name: str, value: PerRound, rounds: int) -> Float[np.ndarray, " rounds"]:
    values = np.atleast_1d(np.asarray(value, np.float64))
    if values.shape not in ((1,), (rounds,)):
        raise ValueError(f"{name} has shape {values.shape} for {rounds} rounds: give one number, or one per round")
    refuse(~(values >= 0), lambda t: f"round {t} has {name} = {values[t]:g}", "must not be negative")
    return np.broadcast_to(values, (rounds,))
