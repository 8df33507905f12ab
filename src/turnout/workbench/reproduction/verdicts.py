"""Findings of checks, the rules that decide them, the overall verdict on a claim, and numbers as text in their unit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from turnout.statistics import LEVEL, Interval, minus

Verdict = Literal["holds", "undecided", "does not hold", "not run"]
Reproduction = Literal["reproduced", "reproduced in part", "undecided", "not reproduced", "not run"]

# In which setting a panel runs, from the nearest to the authors to the fairest, and how a sentence goes on:
STEPS = {"public code": "with the settings of the public code", "printed": "as printed", "tuned": "under equal tuning"}
ASIDE = "aside"  # the step of a panel that does not enter the verdict, for example as its rates were found on test data
Unit = Literal["", "pp", "%", "rounds"]


@dataclass(frozen=True)
class Finding:
    """One check: its statement, the paper's number, ours, and the verdict; and where it was taken."""

    says: str
    paper: str
    ours: str
    verdict: Verdict
    panel: str = ""
    step: str = ""  # of `STEPS`, or `ASIDE`, where the panel has one


def conclusion(findings: Sequence[Finding]) -> dict[str, Any]:
    """The verdict on a claim and its checks, for JSON."""
    return {
        "verdict": overall(findings),
        "verdict_in_words": in_words(findings),
        "checks": [asdict(finding) for finding in findings],
    }


def overall(findings: Sequence[Finding]) -> Reproduction:
    """The verdict on a claim; a claim with steps is reproduced if it is so as printed."""
    steps = by_step(findings)
    if not steps:
        return "undecided" if _all_aside(findings) else _of_checks(findings)
    if steps.get("printed") == "reproduced":
        return "reproduced"
    if any(kind in ("reproduced", "reproduced in part") for kind in steps.values()):
        return "reproduced in part"
    if "not reproduced" in steps.values():
        return "not reproduced"
    return "undecided" if "undecided" in steps.values() else "not run"


def in_words(findings: Sequence[Finding]) -> str:
    """The verdict with the steps in which it is so, and that of the other steps."""
    kind, steps = overall(findings), by_step(findings)
    if _all_aside(findings):
        return "no verdict, since panels aside do not enter it"
    if not steps or kind in ("undecided", "not run"):
        return kind
    if kind == "not reproduced":
        return "not reproduced by any public setting" if set(steps.values()) == {kind} else kind
    best = kind if "reproduced" not in steps.values() else "reproduced"
    so = " and ".join(STEPS[step] for step, of_step in steps.items() if of_step == best)
    only = "only " if kind != best else ""
    others = [f"{of_step} {STEPS[step]}" for step, of_step in steps.items() if of_step not in (best, "not run")]
    return "; ".join([f"{best} {only}{so}", *others])


def by_step(findings: Sequence[Finding]) -> dict[str, Reproduction]:
    """The verdict in each step that some finding has."""
    return {
        step: _of_checks(own) for step in STEPS if (own := [finding for finding in findings if finding.step == step])
    }


def _all_aside(findings: Sequence[Finding]) -> bool:
    return bool(findings) and all(finding.step == ASIDE for finding in findings)


def _of_checks(findings: Sequence[Finding]) -> Reproduction:
    decided = [finding.verdict for finding in findings if finding.verdict != "not run"]
    if not decided:
        return "not run"
    if all(verdict == "holds" for verdict in decided):
        return "reproduced"
    if "holds" in decided:
        return "reproduced in part"
    return "not reproduced" if "does not hold" in decided else "undecided"


def verdict_of_lead(lead: np.ndarray) -> Verdict:
    """By the interval of the mean lead; by a sign test over the seeds if a lead is infinite."""
    if not np.isfinite(lead).all():
        ahead, behind = int((lead > 0).sum()), int((lead < 0).sum())
        if ahead == behind:
            return "undecided"
        chance = float(stats.binom.cdf(min(ahead, behind), ahead + behind, 0.5))
        return "undecided" if chance > (1 - LEVEL) / 2 else "holds" if ahead > behind else "does not hold"
    interval = Interval.of(lead)
    return "holds" if interval.low > 0 else "does not hold" if interval.high < 0 else "undecided"


def verdict_of_equality(difference: np.ndarray, margin: float) -> Verdict:
    """Equal if the whole interval of the mean difference lies within the margin, unequal if all of it lies outside."""
    if not np.isfinite(difference).all():
        return "does not hold"
    interval = Interval.of(difference)
    if -margin <= interval.low and interval.high <= margin:
        return "holds"
    return "does not hold" if interval.low > margin or interval.high < -margin else "undecided"


def verdict_of_order(values: Sequence[np.ndarray], rising: bool, slack: float) -> Verdict:
    """In order if the last is surely beyond the first and no mean goes back by more than the slack.

    Not in order if a step surely goes back by more than that, or the last is surely behind the first.
    """
    if not values[0].size:
        return "undecided"
    sign = 1 if rising else -1
    steps = [Interval.of(sign * minus(b, a)) for a, b in itertools.pairwise(values)]
    forth = Interval.of(sign * minus(values[-1], values[0]))
    if forth.high <= 0 or any(step.high < -slack for step in steps):
        return "does not hold"
    return "holds" if forth.low > 0 and all(step.mean >= -slack for step in steps) else "undecided"


def verdict_without_any_seed(holds: Callable[[np.ndarray], bool], num_seeds: int) -> Verdict:
    """For statements about means: decided if they stay the same whichever seed is left out.

    `holds` says so for the chosen seeds.
    """
    everyone = np.arange(num_seeds)
    answers = {holds(everyone), *(holds(np.delete(everyone, seed)) for seed in everyone if num_seeds > 1)}
    return "undecided" if len(answers) > 1 else "holds" if answers.pop() else "does not hold"


def lead_in_words(values: np.ndarray, unit: Unit) -> str:
    if not np.isfinite(values).all():
        return f"in {int((values > 0).sum())} of {values.size} runs"
    interval = Interval.of(values)
    mean = with_unit(interval.mean, unit, signed=True)
    if interval.count < 2:
        return f"{mean} (one run)"
    low, high = (number_in_words(end, unit, signed=True) for end in (interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def spread_in_words(values: np.ndarray, unit: Unit) -> str:
    reached = values[np.isfinite(values)]
    if reached.size == 0:
        return "never"
    mean = with_unit(float(reached.mean()), unit)
    mean += f" ± {number_in_words(float(reached.std(ddof=1)), unit)}" if reached.size > 1 else ""
    return mean if reached.size == values.size else f"{mean} in {reached.size} of {values.size}"


def from_unit(number: float | int | str, unit: Unit) -> float:
    """A claim's number, given in its unit, as measures have it: shares, and infinity for never."""
    if number == "never":
        return float("inf")
    return float(number) / 100 if unit in ("pp", "%") else float(number)


def with_unit(value: float, unit: Unit, signed: bool = False) -> str:
    number = number_in_words(value, unit, signed)
    return f"{number} {unit}" if unit in ("pp", "%") else number


def number_in_words(value: float, unit: Unit, signed: bool = False) -> str:
    if not np.isfinite(value):
        return "never"
    sign = "+" if signed else ""
    if unit in ("pp", "%"):
        return f"{value * 100:{sign}.2f}"
    whole = unit == "rounds" or abs(value) >= 1000
    return f"{value:{sign},.0f}" if whole else f"{value:{sign}.3g}"
