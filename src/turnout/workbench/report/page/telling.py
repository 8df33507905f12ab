"""What a chart does not show by itself: lines that lie on one another, and that it has nothing to say at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turnout.workbench.report.page.chart import Chart, Drawing, Picture, Series
from turnout.workbench.report.page.labels import join_labels

ROUNDING = 1e-6  # values that differ by less, in proportion, are one: sums depend on the order of replies
APART = 0.01  # of the range of all lines: closer ones cannot be told apart


def with_coincidences(chart: Chart) -> Chart:
    """The chart, with a note on lines that lie on one another."""
    said = "; ".join(join_labels(group) for group in coinciding(chart))
    return replace(chart, note=f"{chart.note} Lines that coincide: {said}.".strip()) if said else chart


def coinciding(chart: Chart) -> list[list[str]]:
    """Labels of lines that cannot be told apart from the first one to the last."""
    heights = [np.log10(series.y) if chart.y.log else series.y for series in chart.series]
    range_of_all = np.ptp(_finite(heights)) if _finite(heights).size else 0.0
    groups: list[tuple[np.ndarray, list[str]]] = []
    for series, height in zip(chart.series, heights, strict=True):
        for other, labels in groups:
            if len(other) == len(height) and np.allclose(other, height, 0.0, APART * range_of_all, equal_nan=True):
                labels.append(series.label)
                break
        else:
            groups.append((height, [series.label]))
    return [labels for _, labels in groups if len(labels) > 1]


def why_silent(drawing: Drawing) -> str:
    """Why a chart has nothing to say, in one sentence; empty where it has."""
    if isinstance(drawing, Picture):
        states = np.unique(np.concatenate([cells.cells.ravel() for cells in drawing.series]))
        same = f"every client was {list(drawing.states)[states[0]]} in every round" if len(states) == 1 else ""
    elif drawing.kind == "bars" and len(drawing.x.names) == 1 and len(drawing.series) == 1:
        same = f"there is one bar only, of {drawing.series[0].y[0]:.3g}"
    elif drawing.kind == "bars" and drawing.targets is None and not any(series.y.any() for series in drawing.series):
        same = "every bar is 0"
    elif drawing.kind == "bars" and drawing.targets is not None:
        same = f"all clients form one group ({drawing.x.names[0]})" if len(drawing.x.names) == 1 else ""
    else:
        same = _level(drawing.series, drawing.y.unit) if drawing.kind == "lines" else ""
    return f"{drawing.title}: {same}, so there is no chart." if same else ""


def _level(lines: tuple[Series, ...], unit: str) -> str:
    """The one value that all lines have everywhere; empty where they have several."""
    values = np.unique(_finite([series.y for series in lines]))
    if len(values) > 1 and np.ptp(values) > ROUNDING * np.abs(values).max():
        return ""
    return f"{values[0]:.3g}{f' {unit}' if unit else ''} everywhere" if len(values) else "no finite value"


def _finite(lines: list[np.ndarray]) -> np.ndarray:
    values = np.concatenate([np.zeros(0), *lines])
    return values[np.isfinite(values)]
