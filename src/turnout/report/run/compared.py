"""The outcomes that are shown together: of one run, of several, or of a single history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnout.experiment.run import Outcome, Run
from turnout.metrics import METRICS, TEST_ACCURACY, TEST_LOSS, Metric, metric_named
from turnout.report.page.colours import Style, line_styles
from turnout.simulator.history import History


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


def compared(runs: Sequence[tuple[str, Run]]) -> Compared:
    """The outcomes of all runs; if two labels are the same, the name of the run is put before every label."""
    labels = [outcome.label for _, run in runs for outcome in run.points]
    alike = len(set(labels)) < len(labels)
    points = [
        replace(outcome, label=f"{name}: {outcome.label}") if alike else outcome
        for name, run in runs
        for outcome in run.points
    ]
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


def headline(points: Points) -> Metric:
    """The one metric by which strategies are compared."""
    return shown_metrics(points)[0]
