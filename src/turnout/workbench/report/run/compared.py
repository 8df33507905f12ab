"""The outcomes that are shown together, of one run, of several, or of a single history; and their groups of clients."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

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

WHERE = ("task", "availability", "links", "compute", "durations")  # tables of the data and the world
APART = 1.5  # ratio of the longest mean duration to the shortest from which clients are slow or quick
CORRELATED = 0.5  # |λ| from which absences come in long spells


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
    for outcome in points.points:  # by the label with those settings only that say where a strategy runs
        where = {key: value for key, value in outcome.settings.items() if key.split(".")[0] in WHERE}
        label = outcome.label.removesuffix(point_label("", outcome.settings))
        sweeps.setdefault(point_label(label, where), []).append(outcome)
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


@dataclass(frozen=True)
class Group:
    """Clients of about the same availability."""

    availability: float
    correlated: bool | None  # None where it is not known
    members: np.ndarray
    slow: bool | None = None  # None where all are about as fast

    @property
    def name(self) -> str:
        spells = {True: ", correlated", False: ", uncorrelated", None: ""}[self.correlated]
        speed = {True: ", slow", False: ", quick", None: ""}[self.slow]
        return f"{share_in_words(self.availability)} available{spells}{speed}"


def share_in_words(availability: float) -> str:
    """The availability of a group: it is rounded, so a group at 0 comes, but seldom."""
    return f"{100 * availability:.0f} %" if availability else "less than 5 %"


def availability_of(outcome: Outcome) -> np.ndarray:
    """π where it is known, else the share of rounds in which a client was seen."""
    if outcome.history.pi is not None:
        return outcome.history.pi
    return outcome.history.clients["available"].mean(axis=0) / outcome.history.rounds


def groups_of(pi: np.ndarray, lam: np.ndarray | None, duration: np.ndarray | None = None) -> list[Group]:
    """Clients with the same π, to one digit, the same kind of λ and of speed; from the least available to the most."""
    pi = np.round(pi, 1)
    spells = None if lam is None else np.abs(lam) >= CORRELATED
    mixed = spells is not None and bool(spells.any()) and not bool(spells.all())
    kinds: list[bool | None] = [False, True] if mixed else [None]
    slow = _slow(duration)
    speeds: list[bool | None] = [None] if slow is None else [False, True]
    groups = []
    for share in np.unique(pi):
        for kind, speed in itertools.product(kinds, speeds):
            members = (pi == share) if kind is None else (pi == share) & (spells == kind)
            members = members if speed is None else members & (slow == speed)
            if members.any():
                groups.append(Group(float(share), kind, members, speed))
    return groups


def _slow(duration: np.ndarray | None) -> np.ndarray | None:
    """Whose work takes longer than halfway from the shortest to the longest, by ratio; None if all are about alike."""
    if duration is None or duration.max() < APART * duration.min():
        return None
    return duration > np.sqrt(duration.min() * duration.max())


def weight_shares(weight: np.ndarray) -> np.ndarray:
    """Share of all weight given to each client, one row per seed; nothing where no weight was given."""
    given = weight.astype(np.float64)  # a sum over a million clients drifts in single precision
    total = given.sum(axis=-1, keepdims=True)
    return np.divide(given, total, out=np.zeros_like(given), where=total != 0)


@dataclass(frozen=True)
class Attention:
    """How much of the training a strategy gave to a group of clients, in percent of all weight."""

    label: str
    group: Group
    target: float  # what it should get
    share: float  # what it got, mean over the seeds
    low: float  # least and most over the seeds
    high: float


def attention(points: Points) -> list[Attention]:
    """What every group got, label by label."""
    found = []
    for outcome in (point.one_world for point in points.points):
        shares = weight_shares(outcome.history.clients["weight"])
        for group in groups_of(availability_of(outcome), outcome.history.lam, outcome.history.duration):
            got, target = 100 * shares[:, group.members].sum(axis=1), float(outcome.target[group.members].sum())
            ends = float(got.min()), float(got.max())
            found.append(Attention(outcome.label, group, 100 * target, float(got.mean()), *ends))
    return found
