"""What a search chose, as a table and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from turnout.experiment.tuning import Choice, Tuned
from turnout.metrics import matched
from turnout.report.page.table import Cell, Column, Table


def choices_table(tuned: Tuned) -> Table:
    """One row per strategy: what was chosen, how well it did, and the rest of its grid."""
    choices = tuned.choices
    texts = [_listed(choice.chosen) or "nothing swept" for choice in choices]
    columns = (
        Column.of("strategy", [choice.label for choice in choices], key="label"),
        Column.of("chosen", texts, [choice.chosen for choice in choices], key="chosen", words=True),
        Column(tuned.metric, tuple(_spread(choice.values[choice.grid.index(choice.best)]) for choice in choices)),
        Column("second best", tuple(map(_second, choices))),
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
        f"{choice.label}: {_listed(edge)} lies at the edge of its grid: a wider one may be better."
        for choice in tuned.choices
        if (edge := choice.at_edge())
    ]
    lost = sum(int((~np.isfinite(choice.values)).any(axis=1).sum()) for choice in tuned.choices)
    if lost:
        warnings.append(f"{lost} points of the grids diverged in some run and were not chosen.")
    return warnings


def _listed(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items())


def _second(choice: Choice) -> Cell:
    others = [row for point, row in zip(choice.grid, choice.values, strict=True) if point is not choice.best]
    finite = [row for row in others if np.isfinite(row).all()]
    best = float(choice.values[choice.grid.index(choice.best)].mean())
    return _spread(min(finite, key=lambda row: abs(float(row.mean()) - best))) if finite else Cell()


def _spread(values: np.ndarray) -> Cell:
    if values.size < 2:
        return Cell(f"{values.mean():.4g}")
    deviation = float(values.std(ddof=1))
    mean, spread = matched((float(values.mean()), deviation), deviation)
    return Cell(mean, spread=f"± {spread}")
