"""What a search chose, as a table and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from turnout.experiment.tuning import Choice, Tuned

if TYPE_CHECKING:
    from collections.abc import Iterable


def choices_table(tuned: Tuned) -> Table:
    """A row a strategy: what was chosen, how well it did, and the rest of its grid."""
    table = Table("strategy", "chosen", f"{tuned.metric}", "second best", "points", title="Tuning")
    for choice in tuned.choices:
        table.add_row(choice.label, _settings(choice), _best(choice), _second(choice), str(len(choice.grid)))
    return table


def choices_words(tuned: Tuned) -> list[str]:
    """What to be wary of: values at the edge of a grid, and points that diverged."""
    said = []
    for choice in tuned.choices:
        if edge := choice.at_edge():
            said.append(
                f"{choice.label}: {_listed(edge.items())} lies at the edge of its grid: a wider one may be better."
            )
    lost = sum(int((~np.isfinite(choice.values)).any(axis=1).sum()) for choice in tuned.choices)
    if lost:
        said.append(f"{lost} points of the grids diverged in some run and were not chosen.")
    return said


def _settings(choice: Choice) -> str:
    return _listed(choice.chosen.items()) or "nothing swept"


def _listed(settings: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings)


def _best(choice: Choice) -> str:
    return _spread(choice.values[choice.grid.index(choice.best)])


def _second(choice: Choice) -> str:
    others = [row for point, row in zip(choice.grid, choice.values, strict=True) if point is not choice.best]
    finite = [row for row in others if np.isfinite(row).all()]
    if not finite:
        return ""
    mine = float(choice.values[choice.grid.index(choice.best)].mean())
    return _spread(min(finite, key=lambda row: abs(float(row.mean()) - mine)))


def _spread(values: np.ndarray) -> str:
    spread = f" ± {values.std(ddof=1):.2g}" if values.size > 1 else ""
    return f"{values.mean():.4g}{spread}"
