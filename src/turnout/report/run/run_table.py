"""The result of a run as a table for the terminal."""

from __future__ import annotations

import numpy as np
from rich.table import Table
from rich.text import Text

from turnout.experiment.run import Outcome, Run
from turnout.metrics import COSTS, Metric
from turnout.report.run.compared import Points, headline, shown_metrics

LABEL_WIDTH = 30  # longer labels may be broken


def results(run: Run) -> Table:
    """One row a strategy: final metrics as mean ± standard deviation over the seeds, and what they cost.

    The best of each metric is bold. The difference to the first row is paired: both meet the same absences, seed by
    seed, so its spread is that of the difference.
    """
    main = headline(run)
    columns: dict[str, list[Text]] = {}
    for metric in _tabled(run):
        best = best_labels(run, metric)
        columns[metric.axis_title] = [_cell(outcome, metric, outcome.label in best) for outcome in run.points]
    if len(run.points) > 1:
        against = f"{main.title} against {run.points[0].label}"
        columns[against] = [_against_first(run, outcome, main) for outcome in run.points]
    for record in COSTS:
        columns[record.title] = [Text(spent_text(outcome, record.name)) for outcome in run.points]
    table = Table(title=run.experiment.title or None, caption=_caption(run), title_justify="left")
    table.add_column("strategy", width=max(8, min(LABEL_WIDTH, max(len(outcome.label) for outcome in run.points))))
    for title, cells in columns.items():  # titles are broken into words, numbers never
        table.add_column(title, justify="right", width=max(map(len, [*title.split(), *cells])))
    for outcome, *cells in zip(run.points, *columns.values(), strict=True):
        table.add_row(Text(outcome.label), *cells)
    return table


def _tabled(run: Points) -> list[Metric]:
    """The metrics that fit a terminal of 80 columns: no loss where there is an accuracy, none that tells nothing."""
    metrics = shown_metrics(run)
    fitting = [metric for metric in metrics if metric.percent] or metrics
    return [metric for metric in fitting if metric is fitting[0] or not _alike(run, metric)]


def _alike(run: Points, metric: Metric) -> bool:
    """Whether every run of every strategy has ended at the same value, as a worst tenth that nobody serves at all."""
    return len(run.points) > 1 and len(np.unique([point.history.final(metric.name) for point in run.points])) == 1


def paired_difference(run: Points, outcome: Outcome, metric: Metric) -> np.ndarray:
    """Final metric of a point minus that of the first one, seed by seed."""
    return outcome.history.final(metric.name) - run.points[0].history.final(metric.name)


def _caption(run: Run) -> str:
    rounds, seeds = run.experiment.rounds, len(run.experiment.seeds)
    if seeds == 1:
        return f"after {rounds} rounds, one seed"
    return f"after {rounds} rounds, mean ± standard deviation over {seeds} seeds; differences are paired by seed"


def best_labels(run: Points, metric: Metric) -> set[str]:
    """Those with the best mean at the end; nobody where all are alike."""
    means = {outcome.label: float(outcome.history.final(metric.name).mean()) for outcome in run.points}
    finite = {label: mean for label, mean in means.items() if np.isfinite(mean)}
    if len(run.points) < 2 or not finite:
        return set()
    top = max(finite.values()) if metric.higher_is_better else min(finite.values())
    found = {label for label, mean in finite.items() if mean == top}
    return found if len(found) < len(run.points) else set()


def _cell(outcome: Outcome, metric: Metric, best: bool) -> Text:
    return Text(final_text(outcome, metric), style="bold" if best and not outcome.history.diverged.any() else "")


def final_text(outcome: Outcome, metric: Metric) -> str:
    """The metric at the end, or in how many seeds the model was lost."""
    lost = int(np.sum(outcome.history.diverged))
    if lost:
        return f"diverged in {lost} of {len(outcome.history.seeds)}"
    return metric.spread(outcome.history.final(metric.name))


def _against_first(run: Points, outcome: Outcome, metric: Metric) -> Text:
    difference = paired_difference(run, outcome, metric)
    if outcome is run.points[0] or not np.isfinite(difference).all():
        return Text("–")
    return Text(metric.spread(difference, signed=True))


def spent_text(outcome: Outcome, record: str) -> str:
    """Sum over the rounds, mean over the seeds; a dash where it was not recorded."""
    values = outcome.history.records.get(record)
    return "–" if values is None else f"{values.sum(axis=1).mean():,.0f}"
