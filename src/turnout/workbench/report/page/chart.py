"""Descriptions of charts, which a page passes to its script and `on_paper` draws with Altair.

Also how a paper may want them changed, and what they do not show by themselves, such as lines on one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np

from turnout.declarations import Numbers, StepCount, check_fields
from turnout.workbench.report.page.colours import Style
from turnout.workbench.report.page.labels import join_labels

Kind = Literal[
    "lines",  # with bands
    "dots",  # with whiskers
    "bars",  # side by side above each name of the x axis, with whiskers
    # on paper only:
    "sweep",  # lines through dots with whiskers; a series without x goes straight across
    "ranges",  # one row per series: a dot with a whisker along the y axis, which is drawn horizontally
    "discs",  # one per pair of x and y, by size
]
HEIGHT = 280
LEAST_SIZE, MOST_POINTS = 20, 10_000
Points = Annotated[int, Numbers(0, MOST_POINTS)]
Range = tuple[float | int, float | int]
ROUNDING = 1e-6  # values that differ by less, in proportion, are one: sums depend on the order of replies
APART = 0.01  # of the range of all lines: closer ones cannot be told apart


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    title: str
    unit: str = ""
    log: bool = False
    zero: bool = False  # the axis includes 0
    whole: bool = False  # counts something: no marks between whole numbers
    domain: tuple[float | int, float | int] | None = None
    clipped: bool = False  # what lies outside of the domain is cut off, rather than drawn at its end; on paper only
    names: tuple[str, ...] = ()  # of the categories, instead of numbers
    choices: Mapping[str, str] = field(default_factory=dict)  # titles of what a page can draw its curves over, by name

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True)
class More:
    """A further value of each point of a series, or of each row of cells."""

    title: str
    values: np.ndarray
    unit: str = ""


@dataclass(frozen=True)
class Series:
    """The values of one label."""

    label: str
    style: Style
    y: np.ndarray
    x: np.ndarray | None = None  # None where the x axis has names or choices
    low: np.ndarray | None = None  # of the band or whisker
    high: np.ndarray | None = None
    over: Mapping[str, np.ndarray] = field(default_factory=dict)  # x by choice of the axis; paper has the first
    names: tuple[str, ...] = ()  # of the points
    more: tuple[More, ...] = ()
    sizes: np.ndarray | None = None  # of discs


@dataclass(frozen=True)
class Rule:
    """A dashed line straight across, such as a target."""

    y: float
    label: str = ""  # of its series, with which it is hidden
    style: Style | None = None


@dataclass(frozen=True)
class Chart:
    """Series of one kind over two axes."""

    kind: Kind
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""
    rules: tuple[Rule, ...] = ()
    targets: np.ndarray | None = None  # a line across the bars of each name
    keyed: bool = False  # the colours are not those of the page's strategies: a key below the chart explains them
    height: int = HEIGHT
    width: int | None = None  # on paper; on a page charts fill their column


@dataclass(frozen=True)
class Cells:
    """The picture of one label: one row per client, one column per round, each cell in one of a few states."""

    label: str
    clients: tuple[str, ...]
    rounds: np.ndarray
    cells: np.ndarray  # (client, round), each the place of a state
    edges: tuple[int, ...]  # rows at which a group of clients ends
    more: tuple[More, ...]


@dataclass(frozen=True)
class Picture:
    """Cells of one or several labels, and what their colours mean."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Cells, ...]
    states: Mapping[str, Style]
    num_clients: int  # of the whole fleet
    note: str = ""
    kind: Literal["picture"] = "picture"
    height: int = 420
    width: int | None = None  # on paper; where it is given, the height holds there, too

    def caption(self, clients: int, rounds: np.ndarray) -> str:
        """The note, and which part of the fleet and of the run these clients and rounds are."""
        stride = int(rounds[1] - rounds[0]) if len(rounds) > 1 else 1
        part = "" if clients == self.num_clients else f" {clients} of {self.num_clients:,} clients."
        return self.note + part + ("" if stride == 1 else f" One {self.x.title.lower()} in {stride}.")


Drawing = Chart | Picture


def one_each(drawing: Drawing) -> list[Drawing]:
    """The same chart for each of its series alone."""
    return [replace(drawing, series=(series,)) for series in drawing.series]


@dataclass(frozen=True)
class Look:
    """Changes of a figure; what is not given stays as it is."""

    size: tuple[Points, Points] | None = None  # width and height of one panel
    labels: Mapping[str, str] = field(default_factory=dict)  # other names for labels
    order: tuple[str, ...] = ()  # labels that come first, in this order; the others follow
    x_range: Range | None = None
    y_range: Range | None = None
    log: str = ""  # axes with a logarithmic scale: x, y or xy
    from_round: StepCount = 0  # the first round that is drawn
    over: str = ""  # what curves are drawn over, such as hours or server_steps

    def __post_init__(self) -> None:
        check_fields(self)
        if self.size is not None and min(self.size) < LEAST_SIZE:
            raise ValueError(f"size {self.size[0]}x{self.size[1]}: must be at least {LEAST_SIZE}x{LEAST_SIZE} points")
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
        if self.over:
            series = tuple(self._over(one, drawing.x) for one in series)
            axes["x"] = replace(axes["x"], title=drawing.x.choices[self.over])
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

    def _over(self, series: Series, x: Axis) -> Series:
        """A curve over the wanted axis, which is the first that paper has."""
        if self.over not in x.choices:
            known = f"known: {', '.join(x.choices)}" if x.choices else "only curves are"
            raise ValueError(f"over {self.over}: this figure is not drawn over that; {known}")
        if self.over not in series.over:
            raise ValueError(f"over {self.over}: {series.label} has no such record")
        return replace(series, over={self.over: series.over[self.over]})

    def _picture(self, picture: Picture) -> Picture:
        if self.over:
            raise ValueError(f"over {self.over}: this figure is not drawn over that; only curves are")
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
