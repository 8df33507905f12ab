"""Whether clients must rest between two participations, and the odds with which they are then drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logit

from turnout.availability.mathematics.conditional_poisson import inclusion_probabilities
from turnout.workbench.diagnosis.findings.run_sums import PerClient, holders, per_slot, watched_runs
from turnout.workbench.diagnosis.reading.log import Log

MAX_LOG_P_VALUE = np.log(1e-6)  # below it, the lack of short gaps is not chance
MAX_INVERSION_STEPS = 200


@dataclass(frozen=True)
class Gaps:
    """Rounds between two participations of a client, over the fleet."""

    shortest: int | None  # fewest slots from one participation of a client to its next; None: nobody came twice
    separation: int  # R, rounds of rest that the log shows, 0 without evidence
    log_p_value: float  # natural logarithm of the probability of no shorter gap if all orders are equally likely
    batch: int | None  # B, if the number of participants is the same in every slot
    most: int  # largest number of participants in a slot

    @property
    def separated(self) -> bool:
        """Whether the lack of short gaps is beyond chance."""
        return self.separation > 0


def gaps(log: Log) -> Gaps:
    """Look for a minimum separation.

    If all orders are equally likely, a client that took part n times in T slots has no gap of R or less with
    probability C(T - (n - 1) R, n) / C(T, n). The product over clients says whether the shortest gap of the log is a
    rule. Gaps are counted within watched stretches.
    """
    observed, present = watched_runs(log), log.present
    shortest = _shortest(log)
    totals = per_slot(present, log.num_slots)
    same = len(totals) > 0 and totals.min() == totals.max() and totals.max() > 0
    batch = int(totals.max()) if same else None
    most = int(totals.max(initial=0))
    if shortest is None or shortest == 1:
        return Gaps(shortest, 0, 0.0, batch, most)
    outer = holders(present, observed, log.num_slots)
    times = np.bincount(outer, present.length, minlength=len(observed.client))
    log_p = float(_log_chance(times, observed.length.astype(np.float64), shortest - 1).sum())
    return Gaps(shortest, shortest - 1 if log_p < MAX_LOG_P_VALUE else 0, min(log_p, 0.0), batch, most)


def _shortest(log: Log) -> int | None:
    present = log.present
    if len(present.client) == 0:
        return None
    if present.length.max() > 1:
        return 1
    outer = holders(present, watched_runs(log), log.num_slots)
    gap = np.diff(present.first)[np.diff(outer) == 0]
    return int(gap.min()) if len(gap) else None


def _log_chance(times: PerClient, slots: PerClient, separation: int) -> PerClient:
    """Logarithm of C(T - (n - 1) R, n) / C(T, n)."""
    repeated = times > 1
    n, total = times[repeated], slots[repeated]
    places = total - (n - 1) * separation
    log_chance = np.zeros(len(times))
    log_chance[repeated] = gammaln(places + 1) - gammaln(places - n + 1) - gammaln(total + 1) + gammaln(total - n + 1)
    return log_chance


def odds(rates: PerClient, batch: int, separation: int) -> PerClient:
    """The weights p, with sum 1, for which a minimum separation has these participation rates.

    Inverts π(R + 1) = p e_{n-1}(p without i) / e_n(p), n = B(R + 1), the law of a conditional Poisson sample. Each step
    tries two corrections of log p and takes the better one: the error of the log odds of inclusion, which is exact for
    independent draws, and the error of the log of inclusion, which is exact for a sample of one.
    """
    size = batch * (separation + 1)
    if size >= len(rates):
        return np.full(len(rates), 1 / len(rates))
    # The bounds keep clients that were never or always drawn within reach; inclusion probabilities sum to the size.
    wanted = np.clip(rates * (separation + 1), 1e-9, 1 - 1e-6)
    for _ in range(20):
        wanted = np.clip(wanted * size / wanted.sum(), 1e-9, 1 - 1e-6)
    weight = logit(wanted)
    reached = inclusion_probabilities(np.exp(weight - weight.max()), size)
    for _ in range(MAX_INVERSION_STEPS):
        inner = np.clip(reached, 1e-12, 1 - 1e-12)
        steps = (logit(wanted) - logit(inner), np.log(wanted / inner))
        candidates = [weight + step for step in steps]
        inclusions = [inclusion_probabilities(np.exp(each - each.max()), size) for each in candidates]
        best = int(np.argmin([np.abs(each - wanted).max() for each in inclusions]))
        weight, reached = candidates[best], inclusions[best]
        if np.abs(reached - wanted).max() < 1e-10:
            break
    p = np.exp(weight - weight.max())
    return p / p.sum()
