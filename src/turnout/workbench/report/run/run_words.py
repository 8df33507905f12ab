"""The result of a run in plain words, and as numbers for another program."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnout.metrics import Metric
from turnout.statistics import Interval
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.report.page.labels import join_labels
from turnout.workbench.report.run.compared import Points, best_by, contenders, for_choosing, shown_metrics, title_of
from turnout.workbench.report.run.error_split import told_by_weights
from turnout.workbench.report.run.groups import attention, share_in_words
from turnout.workbench.report.run.run_table import run_table

MOST_NAMED = 4  # strategies in a sentence


def run_words(run: Points) -> list[str]:
    """What a reader should take away, a sentence or two each."""
    return [sentence for sentence in (_lost(run), _winner(run), _attention(run)) if sentence]


def _lost(run: Points) -> str:
    lost = [outcome.label for outcome in run.points if outcome.history.diverged.any()]
    return f"Diverged, at least once: {', '.join(lost)}. A smaller learning rate may help." if lost else ""


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
    return f"{metric.title}: {_lead(best, metric, stand, f'{_level(best, metric)}{by}')}."


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
    rarest = [one for one in given if one.group.availability == low]
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
    return (
        f"Who it is trained for{where}: the clients that are available {share_in_words(low)} of the time should count "
        f"for {target:.0f} %. They get: {got}.{besides}"
    )


def run_summary(points: Points) -> dict[str, Any]:
    """Final metrics and costs of every point, for another program to read."""
    first = points.points[0].history
    about = {"title": title_of(points), "rounds": first.rounds, "seeds": list(first.seeds)}
    about |= {"seconds": round(points.seconds, 3)} if isinstance(points, Run) else {}
    return about | {"points": run_table(points).records()}
