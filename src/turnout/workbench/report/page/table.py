"""Tables of results, written to a terminal, to a page, as Markdown, and as records for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from rich import table as rich_table
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from turnout.workbench.diagnosis.plain import plain
from turnout.workbench.report.page.colours import Style
from turnout.workbench.report.page.shell import swatch

UNBOUNDED = 10_000  # columns of a terminal
LABEL_WIDTH = 30  # letters in a terminal: longer names of rows may be broken


@dataclass(frozen=True)
class Cell:
    """One result: for people, and for programs."""

    text: str = ""
    value: Any = None  # in records
    spread: str = ""  # after the text
    interval: str = ""  # in lines below the text in place of the spread, on a page
    best: bool = False
    colour: str = ""  # in a terminal
    style: Style | None = None  # of the line that stands for the row in charts

    @property
    def in_a_line(self) -> str:
        return f"{self.text} {self.spread}".strip()

    def sort_attribute(self) -> str:
        """The attribute by which a page sorts, where there is a number behind the text."""
        value = self.value.get("mean") if isinstance(self.value, dict) else self.value
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
            return ""
        return f' data-value="{float(value):.9g}"'

    def html(self) -> str:
        """The markup of what is in the cell."""
        if self.interval:
            lines = (f'<span class="interval">{escape(line)}</span>' for line in self.interval.splitlines())
            return f"{escape(self.text)}{''.join(lines)}"
        text = escape(self.in_a_line)
        return f"{swatch(self.style)} {text}" if self.style else f"<strong>{text}</strong>" if self.best else text


@dataclass(frozen=True)
class Column:
    """A title and a cell for each row."""

    title: str  # without one the column is in records only
    cells: tuple[Cell, ...]
    key: str = ""  # its name in records; without one it is not there
    group: str = ""  # the record inside a record that has it
    unit: str = ""
    words: bool = False  # to the left and broken into lines; numbers go to the right and are never broken
    page_only: bool = False  # too wide for a terminal
    if_room: bool = False  # left out of a terminal that is too narrow, the last one first
    intervals: str = ""  # what kind they are, said where they are shown

    @classmethod
    def of(cls, title: str, texts: Iterable[str], values: Iterable[Any] | None = None, **options: Any) -> Column:
        """A column of plain texts, with the values behind them where records have it."""
        texts = list(texts)
        both = zip(texts, texts if values is None else values, strict=True)
        return cls(title, tuple(Cell(text, value) for text, value in both), **options)

    @classmethod
    def hidden(cls, key: str, values: Iterable[Any], group: str = "") -> Column:
        """A column for programs alone."""
        return cls("", tuple(Cell(value=value) for value in values), key, group)

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True)
class Table:
    """Columns side by side; the first one names the rows."""

    columns: tuple[Column, ...]
    title: str = ""
    note: str = ""
    sections: tuple[int, ...] = ()  # rows below which a terminal has a line

    @property
    def row_count(self) -> int:
        return len(self.columns[0].cells)

    def _rows(self, columns: Sequence[Column]) -> Iterator[tuple[Cell, ...]]:
        return zip(*(column.cells for column in columns), strict=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The table for a terminal; in a narrow one it may be wider than that, since rich would cut numbers."""
        shown = [column for column in self.columns if column.title and not column.page_only]
        spare = [column for column in shown if column.if_room]

        def width(grid: rich_table.Table) -> int:
            return Measurement.get(console, options.update(width=UNBOUNDED), grid).minimum

        while width(grid := self._grid(shown)) > options.max_width and spare:
            last = spare.pop()
            shown = [column for column in shown if column is not last]
        yield from console.render(grid, options.update(width=max(width(grid), options.max_width)))

    def _grid(self, shown: Sequence[Column]) -> rich_table.Table:
        table = rich_table.Table(title=self.title or None, caption=self.note or None, title_justify="left")
        for number, column in enumerate(shown):
            lines = [line for cell in column.cells for line in cell.in_a_line.split("\n")]
            longest = max(map(len, [*column.heading.split(), *lines]))
            if number == 0:
                table.add_column(column.heading, width=min(LABEL_WIDTH, longest))
            else:
                width = None if column.words else longest
                table.add_column(column.heading, justify="left" if column.words else "right", width=width)
        for number, row in enumerate(self._rows(shown)):
            cells = (Text(cell.in_a_line, style="bold" if cell.best else cell.colour) for cell in row)
            table.add_row(*cells, end_section=number in self.sections)
        return table

    def html(self) -> str:
        """The table for a page; a row that stands for a line in charts is hidden with it."""
        shown = [column for column in self.columns if column.title]
        kinds = [' class="words"' if column.words else "" for column in shown]
        titles = [", ".join(filter(None, (column.heading, column.intervals))) for column in shown]
        head = "".join(f'<th scope="col"{kind}>{escape(title)}</th>' for title, kind in zip(titles, kinds, strict=True))
        body = []
        for first, *rest in self._rows(shown):
            label = f' data-label="{escape(first.text)}"' if first.style else ""
            pairs = zip(rest, kinds[1:], strict=True)
            cells = "".join(f"<td{kind}{cell.sort_attribute()}>{cell.html()}</td>" for cell, kind in pairs)
            body.append(f'<tr{label}><th scope="row">{first.html()}</th>{cells}</tr>')
        rows, sortable = "\n".join(body), ' class="sortable"' if self.row_count > 1 else ""
        return (
            '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
            f"<table{sortable}><thead><tr>"
            f"{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>\n"
        )

    def markdown(self) -> Iterator[str]:
        """The lines of the table in Markdown."""
        yield f"| {' | '.join(column.heading for column in self.columns)} |"
        yield "|" + "---|" * len(self.columns)
        for row in self._rows(self.columns):
            yield f"| {' | '.join(markdown_text(cell.in_a_line) for cell in row)} |"

    def records(self) -> list[dict[str, Any]]:
        """One record per row for JSON: plain values, null where not finite."""
        records: list[dict[str, Any]] = [{} for _ in range(self.row_count)]
        for column in self.columns:
            for record, cell in zip(records, column.cells, strict=True):
                if column.key:
                    inner = record.setdefault(column.group, {}) if column.group else record
                    inner[column.key] = plain(cell.value)
        return records


def markdown_text(text: str) -> str:
    """Text that keeps to one cell of a table in Markdown, or to one line."""
    return text.replace("|", "\\|").replace("\n", " ")
