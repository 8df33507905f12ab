"""Descriptions of charts: `on_page` passes them to the script of a page, `on_paper` draws them with Altair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from turnout.workbench.report.page.colours import Style

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
        return self.note + part + ("" if stride == 1 else f" One round in {stride}.")


Drawing = Chart | Picture


def one_each(drawing: Drawing) -> list[Drawing]:
    """The same chart for each of its series alone."""
    return [replace(drawing, series=(series,)) for series in drawing.series]
