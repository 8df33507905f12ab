"""A piece of HTML for a notebook: it brings its few styles, and its chart is a picture, so no script is needed."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

from turnout.workbench.report.page.shell import paragraph
from turnout.workbench.report.page.table import Table

STYLE = (
    ".turnout .swatch line{stroke:light-dark(var(--light),var(--dark));stroke-width:4}"
    ".turnout th,.turnout td{text-align:right;padding:.2em .7em;white-space:nowrap}"
    ".turnout thead th{white-space:normal}"
    ".turnout th:first-child,.turnout .words{text-align:left}.turnout td.words{white-space:normal}"
    ".turnout .interval{display:block;font-size:.85em;opacity:.7}"
    ".turnout .scroll{overflow-x:auto}.turnout .small{font-size:.85em;opacity:.8}"
    ".turnout img{background:#fff;max-width:100%}"
)


def fragment(lines: Iterable[str], table: Table, chart: Any | None) -> str:
    """Sentences, a table with its note, and an Altair chart where there is one."""
    drawn = "" if chart is None else f'<img alt="The same as a chart" src="{_picture(chart)}">'
    parts = (paragraph(lines), table.html(), paragraph(filter(None, [table.note]), "small"), drawn)
    return f'<div class="turnout"><style>{STYLE}</style>{"".join(parts)}</div>'


def _picture(chart: Any) -> str:
    """A chart as the address of an image, so that what is inside cannot meet the ids of the notebook."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue().encode()).decode()}"
