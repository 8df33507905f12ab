"""The result of a run as a table for the terminal."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from turnout.experiment.run import Outcome, Run
from turnout.report.metrics import Metric, headline, shown_metrics


def results(run: Run) -> Table:
    """One row a strategy: final metrics as mean ± standard deviation over the seeds, and what they cost.

    The best of each metric is bold. The difference to the first row is paired: both meet the same absences, seed by
    seed, so its spread is that of the difference.
    """
    metrics, main = shown_metrics(run), headline(run)
    table = Table(title=run.experiment.title or None, caption=_caption(run), title_justify="left")
    table.add_column("strategy", no_wrap=True)
    for metric in metrics:
        table.add_column(metric.axis_title, justify="right")
    if len(run.points) > 1:
        table.add_column(f"{main.title} against {run.points[0].label}", justify="right")
    table.add_column("Uploads", justify="right")
    table.add_column("Local steps", justify="right")
    best = {metric.name: _best(run, metric) for metric in metrics}
    for outcome in run.points:
        cells = [_cell(outcome, metric, outcome.label in best[metric.name]) for metric in metrics]
        if len(run.points) > 1:
            cells.append(_against_first(run, outcome, main))
        table.add_row(outcome.label, *cells, _spent(outcome, "uploads"), _spent(outcome, "local_steps"))
    return table


def paired_difference(run: Run, outcome: Outcome, metric: Metric) -> np.ndarray:
    """Final metric of a point minus that of the first one, seed by seed."""
    return outcome.history.final(metric.name) - run.points[0].history.final(metric.name)


def _caption(run: Run) -> str:
    rounds, seeds = run.experiment.rounds, len(run.experiment.seeds)
    if seeds == 1:
        return f"after {rounds} rounds, one seed"
    return f"after {rounds} rounds, mean ± standard deviation over {seeds} seeds; differences are paired by seed"


def _best(run: Run, metric: Metric) -> set[str]:
    means = {outcome.label: float(outcome.history.final(metric.name).mean()) for outcome in run.points}
    finite = {label: mean for label, mean in means.items() if np.isfinite(mean)}
    if len(run.points) < 2 or not finite:
        return set()
    top = max(finite.values()) if metric.higher_is_better else min(finite.values())
    return {label for label, mean in finite.items() if mean == top}


def _cell(outcome: Outcome, metric: Metric, best: bool) -> str:
    lost = int(np.sum(outcome.history.diverged))
    if lost:
        return f"diverged in {lost} of {len(outcome.history.seeds)}"
    text = metric.spread(outcome.history.final(metric.name))
    return f"[bold]{text}[/bold]" if best else text


def _against_first(run: Run, outcome: Outcome, metric: Metric) -> str:
    difference = paired_difference(run, outcome, metric)
    if outcome is run.points[0] or not np.isfinite(difference).all():
        return "–"
    return metric.spread(difference, signed=True)


def _spent(outcome: Outcome, record: str) -> str:
    """Sum over the rounds, mean over the seeds."""
    return f"{outcome.history.records[record].sum(axis=1).mean():,.0f}"
