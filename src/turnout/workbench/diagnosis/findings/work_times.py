"""How long work takes: for whom, how much of that is the client, and whether the steps decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr
from scipy.stats import spearmanr

from turnout.workbench.diagnosis.findings.lengths import LengthParts, length_parts
from turnout.workbench.diagnosis.findings.rates import Rates
from turnout.workbench.diagnosis.findings.run_sums import PerClient
from turnout.workbench.diagnosis.reading.log import Log, LoggedWork

SLOW = 2.0  # times the median client
SURE = 0.01  # p-value from which on clients differ, or slowness and absence go together
STEADY = 0.1  # σ of the logarithm below which a client takes the same time every time
BY_STEPS = 10.0  # gain of the log-likelihood, twice, from which on time goes with the steps
OFFSETS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0, 5.0)  # time on the way, in that of the median number of steps
QUANTILES = (0.1, 0.5, 0.9, 0.99)
MIN_CLIENTS = 8  # for a rank correlation
Law = Literal["same", "own", "redrawn", "own and redrawn", "steps"]


@dataclass(frozen=True)
class WorkLengths:
    """How long work takes, in seconds."""

    pieces: int  # whose end is known
    running: int  # still running when the log ended
    given_up: int  # without an end, though their client began something else later
    counted: Int[np.ndarray, " clients"]  # pieces of each client, those without an end too
    median: PerClient  # of each client at its usual steps; that of the fleet for a client without work
    typical: float  # median of the clients' medians
    between: float  # standard deviation of the logarithm between clients
    within: float  # and from one piece of a client's work to the next
    p_value: float  # of all clients having the same law
    slow: Bool[np.ndarray, " clients"]  # take more than SLOW times as long as the median client
    law: Law
    offset: float | None  # where the steps decide: time on the way, in that of a step; None: they do not
    rank_correlation: float  # of the medians and the shares of time there; NaN if not known
    rank_p_value: float
    if_forgotten: float  # the typical length if work without an end had been left out
    points: tuple[str, ...]  # which quantiles of the lengths were compared
    recorded: Float[np.ndarray, " points"]
    expected: Float[np.ndarray, " points"]  # by the law
    because: str  # why times are taken for those of work
    surely: bool

    @property
    def own_share(self) -> float:
        """Share of the variance of the logarithm that is the client's own."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total > 0 else 0.0

    @property
    def differ(self) -> bool:
        """Whether clients surely have laws of their own."""
        return self.p_value < SURE and self.between > 0

    @property
    def slow_are_rare(self) -> bool:
        """Whether slow clients surely come less often."""
        return self.rank_p_value < SURE and self.rank_correlation < 0


# Long: half of it is what it returns.
def work_times(log: Log, rates: Rates) -> WorkLengths | None:
    """How long work takes; None if the log does not say."""
    work = log.work
    if work is None:
        return None
    parts, offset = _parts(work, log.num_clients)
    differ = parts.p_value < SURE and parts.between > 0
    counted = np.bincount(work.client, minlength=log.num_clients)
    middle = float(np.median(parts.client[counted > 0]))
    own = parts.client if differ else np.full(log.num_clients, middle)
    own = np.where(counted > 0, own, float(np.median(own[counted > 0])))
    median = np.exp(own) * _usual_steps(work, offset, log.num_clients)
    typical = float(np.median(median[counted > 0]))
    correlation, p_value = _with_absence(median, counted, rates) if differ else (np.nan, 1.0)
    within = parts.within if differ else float(np.hypot(parts.within, parts.between))
    without = _parts(_ended_only(work), log.num_clients)[0].client
    per_piece = (
        own[work.client] if offset is None or work.steps is None else own[work.client] + np.log(offset + work.steps)
    )
    return WorkLengths(
        pieces=int(work.ended.sum()),
        running=work.running,
        given_up=work.given_up,
        counted=counted,
        median=median,
        typical=typical,
        between=parts.between if differ else 0.0,
        within=within,
        p_value=parts.p_value,
        slow=(median > SLOW * typical) & (counted > 0),
        law=_law(differ, parts.within, offset),
        offset=offset,
        rank_correlation=correlation,
        rank_p_value=p_value,
        if_forgotten=typical * float(np.exp(np.median(without[counted > 0]) - middle)),
        points=tuple(f"{share:.0%}" for share in QUANTILES),
        recorded=np.quantile(work.seconds[work.ended], QUANTILES),
        expected=_by_law(per_piece, max(within, 1e-3)),
        because=work.because,
        surely=work.surely,
    )


def _law(differ: bool, within: float, offset: float | None) -> Law:
    if offset is not None:
        return "steps"
    if within < STEADY:
        return "own" if differ else "same"
    return "own and redrawn" if differ else "redrawn"


def _parts(work: LoggedWork, num_clients: int) -> tuple[LengthParts, float | None]:
    """The parts of the logarithm of the lengths, or of lengths per step where these decide, with the way in steps."""
    logs = np.log(work.seconds)
    plain = length_parts(work.client, logs, work.ended, num_clients)
    steps = work.steps
    if steps is None or not (np.isfinite(steps) & (steps > 0)).all() or np.ptp(steps) == 0:
        return plain, None
    offsets = np.array(OFFSETS) * float(np.median(steps))
    tried = [length_parts(work.client, logs - np.log(a + steps), work.ended, num_clients) for a in offsets]
    scores = np.array([_unlikeliness(parts, work, num_clients) for parts in tried])
    best = int(np.argmin(scores))
    if _unlikeliness(plain, work, num_clients) - scores[best] < BY_STEPS:
        return plain, None
    return tried[best], float(offsets[best])


def _unlikeliness(parts: LengthParts, work: LoggedWork, num_clients: int) -> float:
    """Minus twice the log-likelihood of the two variances, but for a constant."""
    count = np.bincount(work.client, minlength=num_clients)
    seen = count[count > 0]
    within = max(parts.within, 1e-6) ** 2
    return float((len(work.client) - len(seen)) * np.log(within) + np.log(parts.between**2 + within / seen).sum())


def _usual_steps(work: LoggedWork, offset: float | None, num_clients: int) -> np.ndarray | float:
    """What a client's length per step is multiplied with: its mean steps and the way; 1 where steps do not decide."""
    if offset is None or work.steps is None:
        return 1.0
    count = np.bincount(work.client, minlength=num_clients)
    mean = np.bincount(work.client, work.steps, minlength=num_clients) / np.maximum(count, 1)
    return offset + np.where(count > 0, mean, float(work.steps.mean()))


def _with_absence(median: PerClient, counted: np.ndarray, rates: Rates) -> tuple[float, float]:
    """Rank correlation of the medians with the shares of time there, and its p-value."""
    known = (counted > 0) & np.isfinite(rates.pi)
    if known.sum() < MIN_CLIENTS or np.ptp(rates.pi[known]) == 0:
        return float("nan"), 1.0
    correlation, p_value = spearmanr(median[known], rates.pi[known])
    return float(correlation), float(p_value)  # pyright: ignore[reportArgumentType]


def _ended_only(work: LoggedWork) -> LoggedWork:
    kept = work.ended
    arrays = {name: getattr(work, name)[kept] for name in ("client", "slot", "seconds", "ended")}
    return replace(work, **arrays, steps=None if work.steps is None else work.steps[kept])


def _by_law(centre: np.ndarray, spread: float) -> np.ndarray:
    """Quantiles of the mixture of log-normal laws with these means of the logarithm."""
    low, high = (np.full(len(QUANTILES), end) for end in (centre.min() - 8 * spread, centre.max() + 8 * spread))
    for _ in range(50):
        middle = (low + high) / 2
        below = np.array([ndtr((point - centre) / spread).mean() for point in middle]) < np.array(QUANTILES)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp(low)
