"""How a figure looks where a paper wants it otherwise: its size, labels, order, ranges, logarithms and first round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from turnout.workbench.report.page.chart import Axis, Cells, Drawing, Picture, Series

Range = tuple[float | int, float | int]


@dataclass(frozen=True)
class Look:
    """Changes of a figure; what is not given stays as it is."""

    size: tuple[int, int] | None = None  # width and height of one panel, in points
    labels: Mapping[str, str] = field(default_factory=dict)  # other names for labels
    order: tuple[str, ...] = ()  # labels that come first, in this order; the others follow
    x_range: Range | None = None
    y_range: Range | None = None
    log: str = ""  # axes with a logarithmic scale: x, y or xy
    from_round: int = 0  # the first round that is drawn

    def __post_init__(self) -> None:
        if self.size is not None and min(self.size) < 20:
            raise ValueError(f"size {self.size[0]}x{self.size[1]}: must be at least 20x20 points")
        for axis, ends in (("x", self.x_range), ("y", self.y_range)):
            if ends is not None and not ends[0] < ends[1]:
                raise ValueError(f"range of {axis} {ends[0]:g}:{ends[1]:g}: must go from the smaller to the larger")
            if ends is not None and axis in self.log and ends[0] <= 0:
                raise ValueError(f"range of {axis} {ends[0]:g}:{ends[1]:g}: must be positive on a logarithmic axis")
        if self.log not in ("", "x", "y", "xy"):
            raise ValueError(f"log {self.log!r}: must be x, y or xy")

    def of(self, drawing: Drawing) -> Drawing:
        """The drawing with these changes, but for labels and order, which are those of its series."""
        if isinstance(drawing, Picture):
            return self._picture(drawing)
        axes = {
            "x": _axis(drawing.x, "x", self.x_range, "x" in self.log),
            "y": _axis(drawing.y, "y", self.y_range, "y" in self.log),
        }
        series = tuple(map(self._later, drawing.series)) if self.from_round else drawing.series
        for one in series:
            if "y" in self.log and (drawing.kind == "bars" or (one.y[np.isfinite(one.y)] <= 0).any()):
                raise ValueError(f"log y: {one.label} has values of 0 or less, or bars that begin at 0: leave out log")
            if "x" in self.log and (_places(one) <= 0).any():
                raise ValueError(f"log x: {one.label} begins at 0: leave out log, or begin later (from round 1)")
        return replace(drawing, series=series, **axes, **self._sized)

    @property
    def _sized(self) -> dict[str, int]:
        return {} if self.size is None else {"width": self.size[0], "height": self.size[1]}

    def _later(self, series: Series) -> Series:
        """The part of a curve from the first wanted round on."""
        rounds = series.over.get("round")
        if rounds is None:
            raise ValueError("from round: this figure is not drawn over rounds; curves and availability are")
        kept = rounds >= self.from_round
        if not kept.any():
            raise ValueError(f"from round {self.from_round}: {series.label} ends with round {rounds[-1]:.0f}")
        ends = {name: values[kept] for name in ("low", "high") if (values := getattr(series, name)) is not None}
        return replace(series, y=series.y[kept], over={name: x[kept] for name, x in series.over.items()}, **ends)

    def _picture(self, picture: Picture) -> Picture:
        if self.x_range or self.y_range or self.log:
            raise ValueError("this figure has neither ranges nor logarithms; from round and size can be chosen")
        return replace(picture, series=tuple(map(self._later_cells, picture.series)), **self._sized)

    def _later_cells(self, cells: Cells) -> Cells:
        kept = cells.rounds >= self.from_round
        if not kept.any():
            raise ValueError(f"from round {self.from_round}: {cells.label} ends with round {cells.rounds[-1]}")
        return replace(cells, rounds=cells.rounds[kept], cells=cells.cells[:, kept])


def _places(series: Series) -> np.ndarray:
    """Where a series is drawn along the x axis."""
    return next(iter(series.over.values())) if series.x is None else series.x


def _axis(axis: Axis, name: str, ends: Range | None, log: bool) -> Axis:
    if axis.names and (ends is not None or log):
        raise ValueError(f"the {name} axis of this figure has names, so it has neither a range nor a logarithm")
    changed = replace(axis, log=True, domain=None) if log else axis
    return changed if ends is None else replace(changed, domain=ends, clipped=True)
