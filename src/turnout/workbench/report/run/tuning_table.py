"""What a search chose, as a table and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from turnout.metrics import Metric, metric_named
from turnout.workbench.experiment.tuning import Choice, Tuned
from turnout.workbench.report.page.labels import relabel
from turnout.workbench.report.page.table import Column, Table


def relabel_choices(tuned: Tuned) -> Tuned:
    """The same search with strategies as papers call them."""
    return replace(tuned, choices=relabel(tuned.choices, [choice.best.strategy.name for choice in tuned.choices]))


def choices_table(tuned: Tuned) -> Table:
    """One row per strategy: what was chosen, how well it did, and the rest of its grid."""
    choices, metric = tuned.choices, metric_named(tuned.metric)
    texts = [_join_settings(choice.chosen) or "nothing swept" for choice in choices]
    columns = (
        Column.of("strategy", [choice.label for choice in choices], key="label"),
        Column.of("chosen", texts, [choice.chosen for choice in choices], key="chosen", words=True),
        Column.of(metric.axis_title, [metric.spread(_best(choice)) for choice in choices]),
        Column.of("second best", [_second(choice, metric) for choice in choices]),
        Column.of("points", [str(len(choice.grid)) for choice in choices]),
        Column.hidden("at_edge", [choice.at_edge() for choice in choices]),
    )
    return Table(columns, "Tuning")


def choices_summary(tuned: Tuned) -> dict[str, Any]:
    """What was chosen, by label, for another program to read."""
    records = choices_table(tuned).records()
    return {"metric": tuned.metric} | {
        key: {record["label"]: record[key] for record in records} for key in ("chosen", "at_edge")
    }


def choices_words(tuned: Tuned) -> list[str]:
    """What to be wary of: values at the edge of a grid, and points that diverged."""
    warnings = [
        f"{choice.label}: {_join_settings(edge)} lies at the edge of its grid: a wider one may be better."
        for choice in tuned.choices
        if (edge := choice.at_edge())
    ]
    lost = sum(int((~np.isfinite(choice.values)).any(axis=1).sum()) for choice in tuned.choices)
    if lost:
        points = "1 point of the grids" if lost == 1 else f"{lost} points of the grids"
        warnings.append(f"{points} diverged in some run, and none such was chosen.")
    return warnings


def _join_settings(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items())


def _best(choice: Choice) -> np.ndarray:
    return choice.values[choice.grid.index(choice.best)]


def _second(choice: Choice, metric: Metric) -> str:
    others = [row for point, row in zip(choice.grid, choice.values, strict=True) if point is not choice.best]
    finite = [row for row in others if np.isfinite(row).all()]
    best = float(_best(choice).mean())
    return metric.spread(min(finite, key=lambda row: abs(float(row.mean()) - best))) if finite else ""
