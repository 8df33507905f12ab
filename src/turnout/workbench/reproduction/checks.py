"""The checks of a claim: each compares the curves with a statement of the paper.

Strategies meet the same absences seed by seed, so differences are paired. A check is decided where the 95 % interval of
the mean difference (Student's t) leaves no doubt, and never by a single seed, unless the numbers of a claim are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from turnout.metrics import metric_named
from turnout.statistics import mean, minus, rank_correlation
from turnout.workbench.experiment.errors import ExperimentError, mistakes_at
from turnout.workbench.experiment.signatures import function_and_arguments
from turnout.workbench.reproduction.curve_table import Curve, Measured
from turnout.workbench.reproduction.measures import measure_values, measure_words
from turnout.workbench.reproduction.verdicts import (
    Finding,
    Unit,
    from_unit,
    lead_in_words,
    spread_in_words,
    verdict_of_equality,
    verdict_of_lead,
    verdict_of_order,
    verdict_without_any_seed,
    with_unit,
)

Table = dict[str, Any]


def ahead(
    measured: Measured,
    measure: Table,
    label: str,
    of: list[str] | None = None,
    panel: str = "",
    paper: float | None = None,
    unit: Unit = "",
    smaller_is_better: bool = False,
    by: float = 0.0,
) -> Iterator[Finding]:
    """One strategy is ahead of all others: the smallest of the paired differences counts.

    It must exceed `by`: above zero, the strategy is ahead by that much; below, it is not behind by more.
    """
    values = measure_values(measured, measure, panel, label)
    rivals = measured.rivals(panel, label, of)
    sign = -1.0 if smaller_is_better else 1.0
    leads = {rival: sign * minus(values, measure_values(measured, measure, panel, rival)) for rival in rivals}
    second = min(rivals, key=lambda rival: mean(leads[rival]))
    yield Finding(
        says=_in_panel(f"{label} {_ahead_of(by, unit)} {_and(rivals)} in {measure_words(measure)}", panel),
        paper="" if paper is None else with_unit(from_unit(paper, unit), unit, signed=True),
        ours=f"{lead_in_words(leads[second], unit)} over {second}",
        verdict=verdict_of_lead(leads[second] - from_unit(by, unit)),
    )


def _ahead_of(by: float, unit: Unit) -> str:
    """How a strategy stands to others that it leads by so much."""
    if by == 0:
        return "ahead of"
    margin = with_unit(from_unit(abs(by), unit), unit)
    return f"more than {margin} ahead of" if by > 0 else f"less than {margin} behind"


def equals(
    measured: Measured,
    measure: Table,
    label: str | list[str],
    within: float,
    to: str | None = None,
    value: float | None = None,
    panel: str = "",
    unit: Unit = "",
) -> Iterator[Finding]:
    """A measure equals that of another strategy, or a number, within a margin: so does the whole interval."""
    if (to is None) == (value is None):
        raise ExperimentError("equals: give either to, a label, or value, a number")
    margin = from_unit(within, unit)
    for strategy in [label] if isinstance(label, str) else label:
        values = measure_values(measured, measure, panel, strategy)
        if value is None:
            goal, others = str(to), measure_values(measured, measure, panel, str(to))
        else:
            goal, others = with_unit(from_unit(value, unit), unit), np.full_like(values, from_unit(value, unit))
        difference = minus(values, others)
        yield Finding(
            says=_in_panel(f"{strategy} equals {goal}", panel),
            paper=f"± {with_unit(margin, unit)}",
            ours=lead_in_words(difference, unit),
            verdict=verdict_of_equality(difference, margin),
        )


def ordered(
    measured: Measured,
    measure: Table,
    labels: list[str] | None = None,
    rising: bool = True,
    slack: float = 0.0,
    panel: str = "",
    unit: Unit = "",
) -> Iterator[Finding]:
    """A measure rises, or falls, along a list of strategies; steps back within the slack are allowed."""
    row = measured.row(panel, labels)
    values = [measure_values(measured, measure, panel, label) for label in row]
    yield Finding(
        says=_in_panel(f"{'rises' if rising else 'falls'} along {_and(row)}", panel),
        paper="",
        ours=", ".join(with_unit(float(of_label.mean()), unit) for of_label in values),
        verdict=verdict_of_order(values, rising, from_unit(slack, unit)),
    )


def ordered_measures(
    measured: Measured,
    label: str,
    measures: list[Table],
    rising: bool = True,
    slack: float = 0.0,
    panel: str = "",
    unit: Unit = "",
) -> Iterator[Finding]:
    """As `ordered`, along several measures of one strategy, such as one for each class of clients.

    Only seeds that have all of them count: a class may never be available.
    """
    all_seeds = np.stack([measure_values(measured, measure, panel, label) for measure in measures])
    values = list(all_seeds[:, ~np.isnan(all_seeds).any(axis=0)])
    lacking = all_seeds.shape[1] - values[0].size
    enough = values[0].size >= min(2, all_seeds.shape[1])
    yield Finding(
        says=_in_panel(f"{label}: {'rises' if rising else 'falls'} along {len(measures)} measures", panel),
        paper="",
        ours=", ".join(with_unit(mean(row), unit) for row in values if row.size)
        + (f" ({lacking} runs lack one)" if lacking else ""),
        verdict=verdict_of_order(values, rising, from_unit(slack, unit)) if enough else "undecided",
    )


def best_moves(
    measured: Measured, metric: str, labels: list[str], xs: list[int], rising: bool = True, panel: str = ""
) -> Iterator[Finding]:
    """As x grows, the strategy that is best on average moves along the list in one direction, at least once.

    That must be so whichever seed is left out.
    """
    sign = 1.0 if metric_named(metric).higher_is_better else -1.0
    curves = [measured.curve(panel, label, metric) for label in labels]
    taken = np.unique([int(np.argmin(np.abs(curves[0].x - x))) for x in xs])
    values = sign * np.stack([curve.values[:, taken] for curve in curves])

    def places(seeds: np.ndarray) -> np.ndarray:
        return np.argmax(values[:, seeds].mean(axis=1), axis=0)

    def moves(seeds: np.ndarray) -> bool:
        steps = np.diff(places(seeds)) if rising else -np.diff(places(seeds))
        return bool((steps >= 0).all() and (steps > 0).any())

    bests = zip(curves[0].x[taken], places(np.arange(values.shape[1])), strict=True)
    yield Finding(
        says=_in_panel(f"the best {metric} moves {'up' if rising else 'down'} the row with time", panel),
        paper="",
        ours="; ".join(f"{x:g}: {labels[best]}" for x, best in bests),
        verdict=verdict_without_any_seed(moves, values.shape[1]),
    )


def within_bound(
    measured: Measured, measure: Table, label: str, most: float, panel: str = "", unit: Unit = ""
) -> Iterator[Finding]:
    """A measure stays at or below a bound in every run."""
    bound = from_unit(most, unit)
    values = measure_values(measured, measure, panel, label)
    yield Finding(
        says=_in_panel(f"{label}: {measure_words(measure)} at most {with_unit(bound, unit)} in every run", panel),
        paper=with_unit(bound, unit),
        ours=f"at most {with_unit(float(values.max()), unit)} in {values.size}",
        verdict="holds" if bool((values <= bound).all()) else "does not hold",
    )


def best_is(
    measured: Measured,
    measure: Table,
    label: str,
    numbers: dict[str, Any] | None = None,
    panel: str = "",
    unit: Unit = "",
    smaller_is_better: bool = False,
) -> Iterator[Finding]:
    """One strategy has the best number of a table; the paper's numbers are shown beside ours."""
    values = {each: measure_values(measured, measure, panel, each) for each in measured.labels(panel)}
    sign = 1.0 if smaller_is_better else -1.0
    means = {each: sign * mean(of_seeds) for each, of_seeds in values.items()}
    second = min(measured.rivals(panel, label), key=means.__getitem__)
    lead = minus(values[label], values[second]) * -sign
    yield Finding(
        says=_in_panel(f"{label} is best in {measure_words(measure)}", panel),
        paper="; ".join(
            f"{each} {with_unit(from_unit(number, unit), unit)}" for each, number in (numbers or {}).items()
        ),
        ours="; ".join(f"{each} {spread_in_words(of_seeds, unit)}" for each, of_seeds in values.items()),
        verdict=verdict_of_lead(lead),
    )


def table(
    measured: Measured,
    measure: Table,
    numbers: dict[str, Any],
    panel: str = "",
    unit: Unit = "",
    agreement: float = 0.8,
) -> Iterator[Finding]:
    """The paper's numbers beside ours; the check holds if both order the strategies about the same.

    About the same: Kendall's rank correlation is at least `agreement`, whichever seed is left out. "never" counts as
    infinite. Strategies that a changed experiment left out are listed as not run.
    """
    theirs = {label: from_unit(number, unit) for label, number in numbers.items()}
    run = [label for label in theirs if label in measured.labels(panel)]
    if len(run) < 2:
        yield Finding(_in_panel("the order of the strategies", panel), "", "fewer than two of them ran", "not run")
        return
    num_seeds = measured.num_seeds(panel)
    ours = {label: np.broadcast_to(measure_values(measured, measure, panel, label), num_seeds) for label in run}

    def order(seeds: np.ndarray) -> float:
        return rank_correlation([theirs[label] for label in run], [mean(ours[label][seeds]) for label in run])

    words = {label: spread_in_words(ours[label], unit) if label in ours else "not run" for label in theirs}
    yield Finding(
        says=_in_panel("the order of the strategies", panel),
        paper="; ".join(f"{label} {with_unit(number, unit)}" for label, number in theirs.items()),
        ours="; ".join(f"{label} {text}" for label, text in words.items())
        + f" (τ = {order(np.arange(num_seeds)):.2f})",
        verdict=verdict_without_any_seed(lambda seeds: order(seeds) >= agreement, num_seeds),
    )


CHECKS: dict[str, Callable[..., Iterator[Finding]]] = {
    check.__name__: check
    for check in (ahead, equals, ordered, ordered_measures, best_moves, within_bound, best_is, table)
}


def check_and_arguments(table: Any, number: int) -> tuple[Callable[..., Iterator[Finding]], Table]:
    """The function of a claim's check and its arguments; `says` stands for the words that the check would choose."""
    rest = {key: value for key, value in table.items() if key != "says"} if isinstance(table, dict) else table
    return function_and_arguments(CHECKS, rest, f"checks[{number}]", ("measured",))


def all_findings(
    checks: list[Table],
    curves: Sequence[Curve],
    skipped: dict[str, str],
    steps: dict[str, str] | None = None,
    exact: bool = False,
) -> tuple[Finding, ...]:
    """The findings of all checks of a claim on these curves; checks of a skipped panel are "not run".

    `steps` are those of the panels. With `exact` numbers one seed decides.
    """
    measured = Measured(curves)
    findings: list[Finding] = []
    for number, table in enumerate(checks):
        function, arguments = check_and_arguments(table, number)
        if (panel := arguments.get("panel")) in skipped:
            findings.append(Finding(f"{panel}: {table['name']}", "", skipped[panel], "not run", panel))
            continue
        for name in measured.panels if panel is None else [panel]:
            seeds = measured.num_seeds(name)
            with mistakes_at(f"checks[{number}], {table['name']}"):
                found = list(function(measured, **arguments | {"panel": name}))
            for finding in found:
                undecided = seeds < 2 and not exact and finding.verdict != "not run"
                verdict = "undecided" if undecided else finding.verdict
                says = _in_panel(table["says"], "" if panel else name) if "says" in table else finding.says
                step = (steps or {}).get(name, "")
                findings.append(replace(finding, says=says, verdict=verdict, panel=name, step=step))
    return tuple(findings)


def _in_panel(text: str, panel: str) -> str:
    return f"{panel}: {text}" if panel else text


def _and(names: list[str]) -> str:
    return (
        names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if len(names) < 6 else "all others"
    )
