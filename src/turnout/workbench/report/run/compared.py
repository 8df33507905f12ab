"""The outcomes that are shown together: of one run, of several, or of a single history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnout.errors import nearest
from turnout.metrics import (
    METRICS,
    TEST_ACCURACY,
    TEST_LOSS,
    VALIDATION_ACCURACY,
    VALIDATION_LOSS,
    Metric,
    metric_named,
)
from turnout.simulator.history import History
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.sweep import point_label
from turnout.workbench.report.page.colours import Style, line_styles
from turnout.workbench.report.page.labels import relabel

WHERE = ("task", "availability", "links", "compute")  # tables of the data and the world


@dataclass(frozen=True)
class Compared:
    """Outcomes with labels that differ."""

    title: str
    points: tuple[Outcome, ...]


Points = Run | Compared


def title_of(points: Points) -> str:
    return points.experiment.title if isinstance(points, Run) else points.title


def styles_of(points: Points) -> dict[str, Style]:
    """How each label is drawn, in all charts and tables."""
    return line_styles([point.label for point in points.points], [point.strategy for point in points.points])


def relabel_points(points: Points) -> Compared:
    """The same outcomes with strategies as papers call them."""
    return Compared(title_of(points), relabel(points.points, [outcome.strategy for outcome in points.points]))


def arrange(points: Compared, labels: Mapping[str, str], order: Sequence[str]) -> Compared:
    """The outcomes with other labels, those of `order` first; it may name old and new labels."""
    present = [outcome.label for outcome in points.points]
    for label in labels:
        if label not in present:
            raise ExperimentError(f"there is no {label!r} to rename: {nearest(label, present)}")
    renamed = [replace(outcome, label=labels.get(outcome.label, outcome.label)) for outcome in points.points]
    names = [labels.get(label, label) for label in order]
    for name in names:
        if name not in (now := [outcome.label for outcome in renamed]):
            raise ExperimentError(f"there is no {name!r} to put in order: {nearest(name, now)}")
    if len({outcome.label for outcome in renamed}) < len(renamed):
        raise ExperimentError("two strategies would have the same label: give others")
    first = sorted((outcome for outcome in renamed if outcome.label in names), key=lambda one: names.index(one.label))
    return Compared(points.title, (*first, *(outcome for outcome in renamed if outcome.label not in names)))


def join_runs(runs: Sequence[tuple[str, Run]]) -> Compared:
    """The outcomes of all runs; if two labels are the same, the name of the run is put before every label."""
    outcomes = [(name, outcome) for name, run in runs for outcome in relabel_points(run).points]
    alike = len({outcome.label for _, outcome in outcomes}) < len(outcomes)
    points = [replace(outcome, label=f"{name}: {outcome.label}") if alike else outcome for name, outcome in outcomes]
    titles = dict.fromkeys(run.experiment.title for _, run in runs)
    return Compared(" / ".join(title for title in titles if title), tuple(points))


def of_history(history: History, label: str) -> Compared:
    """A history alone."""
    return Compared("", (Outcome(label, label, {}, history),))


def common_metrics(points: Points) -> set[str]:
    """Names of the metrics that all outcomes have."""
    return set.intersection(*(set(point.history.metrics) for point in points.points))


def shown_metrics(points: Points) -> list[Metric]:
    """The metrics that are shown, the most important first; all outcomes have them."""
    names = common_metrics(points)
    if TEST_ACCURACY in names:
        names -= {TEST_LOSS}
    listed = [metric for metric in METRICS if metric.in_report and metric.name in names]
    return listed or [metric_named(name) for name in sorted(names)]


def for_choosing(points: Points) -> Metric | None:
    """The metric of validation data by which a point of a sweep is chosen; None if there is none."""
    names = common_metrics(points)
    return next((metric_named(name) for name in (VALIDATION_ACCURACY, VALIDATION_LOSS) if name in names), None)


def contenders(points: Points, metric: Metric) -> list[Outcome]:
    """The outcomes of which one may be called the best by this metric: one for each strategy in each world.

    What is chosen by test data cannot be judged by them, so the point that stands for a sweep is the best of it by
    validation data. Without such data, no point of a sweep stands for it.
    """
    if not metric.on_test_data:
        return list(points.points)
    sweeps: dict[str, list[Outcome]] = {}
    for outcome in points.points:
        sweeps.setdefault(_without_tuning(outcome), []).append(outcome)
    chooser = for_choosing(points)
    return [
        best
        for sweep in sweeps.values()
        if (best := sweep[0] if len(sweep) == 1 else best_by(sweep, chooser)) is not None
    ]


def best_by(outcomes: Sequence[Outcome], metric: Metric | None) -> Outcome | None:
    """The one that ends best on average among those that never diverged; None if there is none, or no metric."""
    steady = [outcome for outcome in outcomes if not outcome.history.diverged.any()]
    if metric is None or not steady:
        return None
    sign = -1.0 if metric.higher_is_better else 1.0
    return min(steady, key=lambda outcome: sign * float(outcome.history.final(metric.name).mean()))


def _without_tuning(outcome: Outcome) -> str:
    """The label with only those settings that say where a strategy runs, not how it is tuned."""
    where = {key: value for key, value in outcome.settings.items() if key.split(".")[0] in WHERE}
    return point_label(outcome.label.removesuffix(point_label("", outcome.settings)), where)
