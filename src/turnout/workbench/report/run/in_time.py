"""Results of runs in which work takes time: after the same time, time to a level, clients at work, ages of updates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnout.metrics import Metric
from turnout.simulator.ages import STARTS, quantile
from turnout.simulator.history import History
from turnout.statistics import Interval, evenly
from turnout.workbench.experiment.run import Outcome
from turnout.workbench.report.diagnosis.readable import duration
from turnout.workbench.report.page.chart import Axis, Chart, Series, with_coincidences
from turnout.workbench.report.page.table import Cell, Column
from turnout.workbench.report.run.compared import Points, styles_of

MOST_POINTS = 200  # of a curve over the ticks: more would be noise, so means over stretches are drawn


def any_timed(points: Points) -> bool:
    """Whether work takes time in one of them, so that rounds are ticks."""
    return any(point.history.timed for point in points.points)


def unit(points: Points) -> str:
    """What a run is counted in."""
    return "tick" if any_timed(points) else "round"


def length_of(points: Points) -> str:
    """How long the runs are: "200 rounds", "600 ticks" or "600 ticks (10 hours)"."""
    lengths = sorted({point.history.rounds for point in points.points})
    told = f"{' or '.join(f'{length:,}' for length in lengths)} {unit(points)}s"
    hours = {hours_of(point.history) for point in points.points}
    seconds = hours.pop() if len(hours) == 1 else None
    return told if seconds is None else f"{told} ({duration(3600 * seconds)})"


def hours_of(history: History) -> float | None:
    """How long a run is; None where that is not known."""
    return None if history.tick_seconds is None else float(history.hours(history.rounds))


def after_the_same_time(points: Points) -> str:
    """That everyone had the same time, where work takes time and all had it."""
    spans = {(point.history.rounds, point.history.tick_seconds) for point in points.points}
    if not any_timed(points) or len(spans) > 1:
        return ""
    hours = hours_of(points.points[0].history)
    return f" after the same {length_of(points) if hours is None else duration(3600 * hours)}"


def clock_of(points: Points) -> tuple[str, float]:
    """The unit in which all of them can be timed, and how many of it a tick is."""
    seconds = {point.history.tick_seconds for point in points.points}
    length = seconds.pop() if len(seconds) == 1 else None
    return ("ticks", 1.0) if length is None else ("hours", length / 3600)


def _first(points: Points, metric: Metric | None) -> Outcome | None:
    """The first one, with whose end the others are compared; None where nothing can be compared."""
    first = points.points[0]
    comparable = len(points.points) > 1 and len({each.history.seeds for each in points.points}) == 1
    if metric is None or not any_timed(points) or not comparable or first.history.diverged.any():
        return None
    return first


def time_columns(points: Points, metric: Metric | None) -> list[Column]:
    """Columns of the table of results; none where no work takes time."""
    if not any_timed(points):
        return []
    at_work = [_mean_at_work(point) for point in points.points]
    columns = [
        Column.of("Clients at work", [_digits(value) for value in at_work], at_work, key="mean_at_work", if_room=True),
        Column("Age: median, 90 %", tuple(map(_age, points.points)), "age", page_only=True),
    ]
    reference = _first(points, metric)
    if metric is not None and reference is not None:
        clock, _ = clock_of(points)
        title = f"{clock.capitalize()} to the end of {reference.label}"
        cells = tuple(_time(points, point, metric, reference) for point in points.points)
        kind = "95 % interval" if any(cell.interval for cell in cells) else ""
        columns.append(Column(title, cells, f"{clock}_to_end_of_first", intervals=kind, page_only=True))
    return columns


def _time(points: Points, outcome: Outcome, metric: Metric, reference: Outcome) -> Cell:
    """Time until as good as the reference is at its end, seed by seed, with the interval of the mean."""
    _, length = clock_of(points)
    times = length * outcome.history.rounds_to(metric.name, reference.history.final(metric.name))
    never = int(np.isinf(times).sum())
    if never:
        return Cell(f"never in {never} of {times.size}")
    interval = Interval.of(times)
    value = {"mean": interval.mean, "low": interval.low, "high": interval.high, "seeds": times}
    ends = f"{_digits(max(interval.low, 0.0))} to {_digits(interval.high)}" if interval.count > 1 else ""
    return Cell(_digits(interval.mean), value, interval=ends)


def _age(outcome: Outcome) -> Cell:
    history = outcome.history
    if history.ages is None or not history.ages.sum():
        return Cell("–")
    bins = history.ages.sum(axis=0)
    median, high = float(quantile(bins, 0.5)), float(quantile(bins, 0.9))
    return Cell(f"{median:,.0f}, {high:,.0f}", {"median": median, "high": high})


def _mean_at_work(outcome: Outcome) -> float | None:
    values = outcome.history.records.get("at_work")
    return None if values is None else float(np.nanmean(values))


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g}"


def time_words(points: Points, metric: Metric | None, best: Outcome | None) -> str:
    """How much sooner the best one is where the first one ends."""
    reference = _first(points, metric)
    if metric is None or best is None or reference is None or reference.label == best.label:
        return ""
    clock, length = clock_of(points)
    times = length * best.history.rounds_to(metric.name, reference.history.final(metric.name))
    if not np.isfinite(times).all():
        return ""
    interval = Interval.of(times)
    ends = f" ({_digits(max(interval.low, 0.0))} to {_digits(interval.high)})" if interval.count > 1 else ""
    return (
        f"{best.label} is after {_digits(interval.mean)} {clock}{ends} as good as {reference.label} is after "
        f"{_digits(length * reference.history.rounds)}."
    )


def at_work(points: Points) -> Chart | None:
    """How many clients are at work, tick by tick."""
    clock, length = clock_of(points)
    styles, series = styles_of(points), []
    for point in points.points:
        if "at_work" in point.history.records:
            ticks, means = _stretches(np.nanmean(point.history.records["at_work"], axis=0))
            series.append(Series(point.label, styles[point.label], means, length * ticks))
    if not series:
        return None
    note = "Mean over the seeds, and over stretches of the run."
    y = Axis("Clients at work", zero=True)
    return with_coincidences(Chart("lines", "How many are at work", Axis(clock.capitalize()), y, tuple(series), note))


def ages(points: Points) -> Chart | None:
    """How old the updates are that the server uses."""
    styles, series = styles_of(points), []
    for point in points.points:
        if point.history.ages is not None and point.history.ages.sum():
            shares = np.cumsum(point.history.ages.sum(axis=0)) / point.history.ages.sum()
            last = int(np.argmax(shares >= 1 - 1e-9)) + 1
            kept = evenly(last, MOST_POINTS)
            series.append(Series(point.label, styles[point.label], 100 * shares[kept], STARTS[kept]))
    if not series:
        return None
    note = "Age: steps of the server since the client was sent the model."
    x, y = Axis("Age in server steps", zero=True, whole=True), Axis("Updates not older", "%", domain=(0.0, 100.0))
    return with_coincidences(Chart("lines", "How old updates are when they count", x, y, tuple(series), note))


def _stretches(values: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of stretches of equal length, and the means over them."""
    ends = evenly(len(values), MOST_POINTS) + 1
    sums = np.concatenate([[0.0], np.nancumsum(values)])
    starts = np.concatenate([[0], ends[:-1]])
    return ends.astype(float), (sums[ends] - sums[starts]) / (ends - starts)
