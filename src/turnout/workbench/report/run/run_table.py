"""The results of a run, or of several side by side, as one table, in plain words, and as numbers for a program."""
# Long: one table, and the words and numbers that belong to it, column by column.

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from turnout.declarations import checked
from turnout.metrics import COSTS, Metric, Record
from turnout.statistics import Interval
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.report.page.labels import join_labels
from turnout.workbench.report.page.table import Cell, Column, Table
from turnout.workbench.report.run.compared import (
    Points,
    attention,
    best_by,
    contenders,
    for_choosing,
    share_in_words,
    shown_metrics,
    styles_of,
    title_of,
)
from turnout.workbench.report.run.curves import told_by_weights
from turnout.workbench.report.run.in_time import after_the_same_time, any_timed, length_of, time_columns, time_words

MOST_NAMED = 4  # strategies in a sentence

MEANING_OF_TIME = "Age: server steps since the client was sent the model, of the updates that counted."


@checked
def run_table(points: Points) -> Table:
    """One row per strategy: final metrics as mean ± standard deviation over the seeds, and what they cost.

    The best of each metric is bold. The difference to the first row is paired: both meet the same absences, seed by
    seed, so its spread is that of the difference.
    """
    outcomes, styles = points.points, styles_of(points)
    metrics = shown_metrics(points)
    # A terminal of 80 columns has no loss where there is an accuracy, and nothing in which all are alike.
    fitting = [metric for metric in metrics if metric.percent] or metrics
    fitting = [metric for metric in fitting if metric is fitting[0] or not _alike(points, metric)]
    others = {name for outcome in outcomes for name in outcome.history.metrics} - {metric.name for metric in metrics}
    columns = [
        Column("Strategy", tuple(Cell(each.label, each.label, style=styles[each.label]) for each in outcomes), "label"),
        Column.hidden("strategy", [each.strategy for each in outcomes]),
        Column.hidden("settings", [each.settings for each in outcomes]),
        Column.hidden("diverged", [int(each.history.diverged.sum()) for each in outcomes]),
        *(_finals(points, metric, metric not in fitting) for metric in metrics),
        *(Column.hidden(name, [_final(each, name) for each in outcomes], "final") for name in sorted(others)),
        *(_against_first(points, metric, metric is metrics[0]) for metric in metrics),
        *time_columns(points, metrics[0] if metrics else None),
        *(_spent(points, record) for record in COSTS if _is_recorded(points, record)),
        Column.of("Seconds per run", map(_seconds, outcomes), page_only=True),
    ]
    return Table(tuple(columns), title_of(points), _note(points))


def _alike(points: Points, metric: Metric) -> bool:
    """Whether every run of every strategy has ended at the same value, as a worst tenth that nobody serves at all."""
    ends = np.concatenate([point.history.final(metric.name) for point in points.points])
    return len(points.points) > 1 and len(np.unique(ends)) == 1


def _note(points: Points) -> str:
    length = length_of(points)
    seeds = {len(point.history.seeds) for point in points.points}
    if seeds == {1}:
        return f"After {length}, one seed.{_time_note(points)}"
    paired = " Differences are paired by seed: in the same world all strategies meet the same absences."
    draws = dict.fromkeys(
        name for outcome in points.points if outcome.point is not None for name in outcome.point.drawn
    )
    over = f"{counts(seeds)} seeds" + (f", each with its own {' and '.join(draws)}" if draws else "")
    spread = f"After {length}, mean ± standard deviation over {over}, the best in bold."
    return spread + _choice_note(points) + (paired if len(points.points) > 1 else "") + _time_note(points)


def _time_note(points: Points) -> str:
    """What the columns of time are."""
    return f" {MEANING_OF_TIME}" if any_timed(points) else ""


def _is_recorded(points: Points, record: Record) -> bool:
    """Whether a record has a column: one of time only where work takes time."""
    return not record.timed or any(record.name in point.history.records for point in points.points)


def _choice_note(points: Points) -> str:
    """By what the point of a sweep is chosen that may be called the best."""
    metrics, chooser = shown_metrics(points), for_choosing(points)
    if not metrics or len(contenders(points, metrics[0])) == len(points.points):
        return ""
    return f" Of a sweep, {f'the point with the best {chooser.words}' if chooser else 'no point'} counts."


def counts(numbers: Iterable[int]) -> str:
    """How many there are, or may be: runs side by side may differ."""
    return " or ".join(f"{number:,}" for number in sorted(set(numbers)))


def _finals(points: Points, metric: Metric, page_only: bool) -> Column:
    best = _best_labels(points, metric)
    cells = []
    for point in points.points:
        lost = int(np.sum(point.history.diverged))
        text = f"diverged in {lost} of {len(point.history.seeds)}"
        if not lost:
            text = metric.spread(point.history.final(metric.name))
        cells.append(Cell(text, _final(point, metric.name), best=point.label in best and not lost))
    unit = "%" if metric.percent else ""
    return Column(metric.title, tuple(cells), metric.name, "final", unit, page_only=page_only)


def _best_labels(points: Points, metric: Metric) -> set[str]:
    """Those with the best mean at the end; of a sweep only the chosen point, and nobody where all are alike."""
    stand = contenders(points, metric)
    means = {outcome.label: float(outcome.history.final(metric.name).mean()) for outcome in stand}
    finite = {label: mean for label, mean in means.items() if np.isfinite(mean)}
    if len(points.points) < 2 or not finite:
        return set()
    top = max(finite.values()) if metric.higher_is_better else min(finite.values())
    best = {label for label, mean in finite.items() if mean == top}
    return best if len(best) < len(points.points) else set()


def _against_first(points: Points, metric: Metric, shown: bool) -> Column:
    """Differences to the first row; in the table those of the first metric, where there is something to compare."""
    title = f"{metric.title} against {points.points[0].label}" if shown and len(points.points) > 1 else ""
    cells = tuple(_difference(points, outcome, metric) for outcome in points.points)
    kind = "joint 95 % interval" if len(points.points) > 2 else "95 % interval"
    intervals = kind if any(cell.interval for cell in cells) else ""
    return Column(title, cells, metric.name, "against_first", intervals=intervals)


def _difference(points: Points, outcome: Outcome, metric: Metric) -> Cell:
    first = points.points[0]
    if outcome.history.seeds != first.history.seeds:
        return Cell("–")
    difference = outcome.history.final(metric.name) - points.points[0].history.final(metric.name)
    if outcome is first or not np.isfinite(difference).all():
        return Cell("–", _statistics(difference))
    text, _, spread = metric.spread(difference, signed=True).partition(" ")
    interval = Interval.of(difference, comparisons=len(points.points) - 1)
    ends = ""
    if interval.count > 1:
        ends = metric.ends(interval.low, interval.high) + ("" if interval.excludes_zero else "\nmay be chance")
    return Cell(text, _statistics(difference), spread, ends)


def _final(outcome: Outcome, name: str) -> dict[str, object] | None:
    return _statistics(outcome.history.final(name)) if name in outcome.history.metrics else None


def _statistics(values: np.ndarray) -> dict[str, object]:
    """Mean, standard deviation and every seed's value."""
    return {"mean": values.mean(), "std": values.std(ddof=1) if values.size > 1 else 0.0, "seeds": values}


def _spent(points: Points, record: Record) -> Column:
    """Sum over the rounds, mean over the seeds; a dash where it was not recorded."""
    cells = []
    for point in points.points:
        values = point.history.records.get(record.name)
        mean = None if values is None else float(values.sum(axis=1).mean())
        cells.append(Cell("–" if mean is None else record.number(mean), mean))
    return Column(record.title, tuple(cells), record.name, if_room=True)


def _seconds(point: Outcome) -> str:
    if "seconds" in point.history.records:
        return f"{point.history.records['seconds'].sum(axis=1).mean():,.3g}"
    return "–" if point.history.seconds is None else f"{point.history.seconds:,.3g}"


@checked
def run_words(run: Points) -> list[str]:
    """What a reader should take away, a sentence or two each."""
    lost = [outcome.label for outcome in run.points if outcome.history.diverged.any()]
    diverged = f"Diverged, at least once: {', '.join(lost)}. A smaller learning rate may help." if lost else ""
    return [sentence for sentence in (diverged, _winner(run), _sooner(run), _attention(run)) if sentence]


def _winner(run: Points) -> str:
    if len(run.points) < 2 or not shown_metrics(run):
        return ""
    metric = shown_metrics(run)[0]
    stand = contenders(run, metric)
    best = best_by(stand, metric)
    if best is None:
        lost = all(outcome.history.diverged.any() for outcome in run.points)
        return "" if lost else f"{metric.title}: nothing is called best, as a sweep needs validation data to choose by."
    if len(_identical(best, metric, stand)) == len(stand) > 1:
        return f"{metric.title}: all are identical, at {_level(best, metric)}."
    chooser = for_choosing(run)
    by = f" (of each sweep the best by {chooser.words})" if chooser and len(stand) < len(run.points) else ""
    return f"{metric.title}{after_the_same_time(run)}: {_lead(best, metric, stand, f'{_level(best, metric)}{by}')}."


def _sooner(run: Points) -> str:
    """How much time the best one saves."""
    metrics = shown_metrics(run)
    if not metrics:
        return ""
    return time_words(run, metrics[0], best_by(contenders(run, metrics[0]), metrics[0]))


def _lead(best: Outcome, metric: Metric, stand: list[Outcome], level: str) -> str:
    """Who ends best, and whether that is more than chance."""
    same = _identical(best, metric, stand)
    ends = f"{best.label} ends best" if len(same) == 1 else f"{_labels(same)} are identical and end best"
    behind = _without(stand, same)
    close = [outcome for outcome in behind if not _clearly_ahead(best, outcome, metric, len(stand))]
    first, one_seed = stand[0], len(best.history.seeds) == 1
    apart = first.history.seeds == best.history.seeds and not first.history.diverged.any()
    if apart and first.label in {one.label for one in (behind if one_seed else _without(behind, close))}:
        level = f"{level}; {_comparison(first, best, metric)}"
    if behind and one_seed:
        return f"{ends}, at {level}. With one seed it may be chance"
    if not close:
        return f"{ends}, at {level}"
    whose = "its" if len(same) == 1 else "their"
    return f"no strategy is clearly ahead. {ends}, at {level}, but {whose} lead over {_labels(close)} may be chance"


def _without(outcomes: list[Outcome], others: list[Outcome]) -> list[Outcome]:
    labels = {outcome.label for outcome in others}
    return [outcome for outcome in outcomes if outcome.label not in labels]


def _labels(outcomes: list[Outcome]) -> str:
    return join_labels([outcome.label for outcome in outcomes], MOST_NAMED)


def _level(best: Outcome, metric: Metric) -> str:
    return metric.spread(best.history.final(metric.name)) + (" %" if metric.percent else "")


def _identical(best: Outcome, metric: Metric, stand: list[Outcome]) -> list[Outcome]:
    """Those that end exactly as the best does, seed by seed."""
    final = best.history.final(metric.name)
    return [outcome for outcome in stand if np.array_equal(outcome.history.final(metric.name), final)]


def _clearly_ahead(best: Outcome, other: Outcome, metric: Metric, entrants: int) -> bool:
    """Whether a lead is more than chance; the best was chosen after the fact, so all pairs count as compared."""
    if other.history.diverged.any():
        return True
    if best.history.seeds != other.history.seeds:
        return False
    difference = best.history.final(metric.name) - other.history.final(metric.name)
    return Interval.of(difference, comparisons=entrants * (entrants - 1) // 2).excludes_zero


def _comparison(first: Outcome, best: Outcome, metric: Metric) -> str:
    difference = best.history.final(metric.name) - first.history.final(metric.name)
    ahead = int(np.sum(difference > 0 if metric.higher_is_better else difference < 0))
    gap = metric.spread(np.abs(difference.mean()) + (difference - difference.mean()))
    points = " points" if metric.percent else ""
    direction = "above" if metric.higher_is_better else "below"
    seeds = f", ahead in {ahead} of {difference.size} seeds" if difference.size > 1 else ""
    return f"{gap}{points} {direction} {first.label}{seeds}"


def _attention(run: Points) -> str:
    """Who the models are trained for, told by the least available clients."""
    given = attention(run)
    low = min(one.group.availability for one in given)
    slow = any(one.group.slow for one in given)
    rarest = [one for one in given if (one.group.slow if slow else one.group.availability == low)]
    targets = {label: sum(one.target for one in rarest if one.label == label) for label in {o.label for o in given}}
    if len(rarest) == len(given) or len({round(target, 6) for target in targets.values()}) > 1:
        return ""  # all clients are alike, or worlds differ from label to label
    target = next(iter(targets.values()))
    untold = {outcome.label for outcome in run.points if not told_by_weights(outcome)}
    counted: dict[str, float] = {}
    for one in rarest:
        if one.label not in untold:
            counted[one.label] = counted.get(one.label, 0.0) + one.share
    if not counted:
        return ""
    got = ", ".join(f"{label} {share:.0f} %" for label, share in counted.items())
    besides = ""
    if untold:
        besides = f" For {join_labels(sorted(untold))}, ask turnout audit: the weights of fresh updates do not tell it."
    first = next((outcome.history.seeds[0] for outcome in run.points if outcome.history.drawn), None)
    where = "" if first is None else f" in the run of seed {first}"  # each seed has other clients
    who = "slow clients" if slow else f"the clients that are available {share_in_words(low)} of the time"
    return f"Who it is trained for{where}: {who} should count for {target:.0f} %. They get: {got}.{besides}"


def run_summary(points: Points) -> dict[str, Any]:
    """Final metrics and costs of every point, for another program to read."""
    first = points.points[0].history
    about = {"title": title_of(points), "rounds": first.rounds, "seeds": list(first.seeds)}
    about |= {"seconds": round(points.seconds, 3)} if isinstance(points, Run) else {}
    return about | {"points": run_table(points).records()}
