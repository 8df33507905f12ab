"""The page: one HTML file that loads nothing else, in light and dark, wide and narrow, with figures for its script."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from turnout import __version__
from turnout.workbench.report.page.chart import Drawing, Picture, why_silent
from turnout.workbench.report.page.colours import Style

SCRIPTS = ("chart.js", "marks.js", "picture.js", "saving.js", "page.js")
LIVE, ITS_SERVER = "live.js", "; connect-src 'self'"  # of a live page
DIGITS = 5  # of a number: more are not visible
AROUND = ("title", "note", "keyed", "width", "num_clients")  # fields of a chart for the page, not for the script


def page(
    title: str, parts: Iterable[str], charts: Mapping[str, Drawing], narrow: bool = False, live: bool = False
) -> str:
    """A whole page from its parts; charts are drawn where a part has the figure of their name.

    Its policy lets nothing be fetched, whatever a label holds; but a live page asks its server how far the run is.
    """
    shown = {name: for_script(drawing) for name, drawing in charts.items() if not why_silent(drawing)}
    return Template(asset("page.html")).substitute(
        title=escape(title),
        kind=' class="narrow"' if narrow else "",
        connect=ITS_SERVER if live else "",
        style=asset("page.css"),
        parts="\n".join(filter(None, parts)),
        version=escape(__version__),
        data=_json(shown),
        script="".join(asset(name) for name in (*SCRIPTS, *([LIVE] if live else []))),
    )


def asset(name: str) -> str:
    """The text of a file that all pages have inside."""
    return (resources.files("turnout.workbench.report.page") / "assets" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def section(title: str, *parts: str) -> str:
    """A heading and the parts below it; nothing if all parts are empty."""
    inside = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>\n{inside}</section>" if inside else ""


def figures_or_why(charts: Mapping[str, Drawing], *names: str) -> str:
    """Those of the charts that exist and say something, side by side; of the others, why they are left out."""
    reasons = {name: why_silent(charts[name]) for name in names if name in charts}
    telling = (name for name, reason in reasons.items() if not reason)
    return figures(charts, *telling) + paragraph(filter(None, reasons.values()), "small soft")


def paragraph(lines: Iterable[str], kind: str = "") -> str:
    """Sentences, one after another."""
    marked = f' class="{kind}"' if kind else ""
    text = " ".join(escape(line) for line in lines)
    return f"<p{marked}>{text}</p>" if text else ""


def glance(shares: Mapping[str, float]) -> str:
    """Shares as bars without an axis, by the words in them: the result at a glance."""
    rows = "".join(
        f'<div><b style="width:{100 * min(1.0, max(0.0, share)):.1f}%"></b><span>{escape(words)}</span></div>'
        for words, share in shares.items()
    )
    return f'<div class="glance">{rows}</div>'


def progress(share: float, words: str, version: str) -> str:
    """How far a run is, in a live page; the page is loaded anew when its server has another version."""
    bar = f'<progress max="1" value="{share:.4f}" aria-label="Share of the run that is done"></progress>'
    return f'<div id="progress" data-version="{escape(version)}">{bar}<p aria-live="polite">{escape(words)}</p></div>'


def copyable(name: str, text: str) -> str:
    """Text with a button that copies it."""
    return (
        f'<pre id="{escape(name)}" tabindex="0">{escape(text)}</pre>'
        f'<button type="button" data-copy="{escape(name)}">Copy</button>'
    )


def for_script(drawing: Drawing) -> dict[str, Any]:
    """A chart as assets/chart.js draws it: the fields of its description that are not empty."""
    states = len(drawing.states) if isinstance(drawing, Picture) else 0
    return {name: value for name, value in _plain(drawing, states).items() if name not in AROUND}


def _plain(value: Any, states: int) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {
            name: pack(part, states) if name == "cells" else _plain(part, states)
            for name, part in named
            if not _empty(part)
        }
    if isinstance(value, np.ndarray):
        return numbers(value)
    if isinstance(value, Mapping):
        return {name: _plain(part, states) for name, part in value.items()}
    return [_plain(part, states) for part in value] if isinstance(value, tuple) else value


def _empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | tuple | Mapping) and not value)


def numbers(values: np.ndarray) -> list[float | None]:
    """Plain numbers with few digits, null where not finite."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values.tolist()]


def pack(cells: np.ndarray, states: int) -> str:
    """Cells as base64: four per byte, or two where there are more than four states, the first in the lowest bits."""
    flat, shifts = cells.ravel().astype(np.uint8), np.arange(0, 8, 4 if states > 4 else 2, dtype=np.uint8)
    rows = np.pad(flat, (0, -len(flat) % len(shifts))).reshape(-1, len(shifts))
    return base64.b64encode((rows << shifts).sum(axis=1, dtype=np.uint8).tobytes()).decode()


def figures(charts: Mapping[str, Drawing], *names: str) -> str:
    """Those of the charts that exist, side by side if they fit."""
    drawn = "".join(_figure(name, charts[name]) for name in names if name in charts)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _figure(name: str, drawing: Drawing) -> str:
    """The element in which a chart is drawn, with its switches and a table of its numbers."""
    text = drawing.note
    if isinstance(drawing, Picture):
        text = drawing.caption(len(drawing.series[0].clients), drawing.series[0].rounds)
    note = f"<p>{escape(text)}</p>" if text else ""
    wide = ' class="wide"' if isinstance(drawing, Picture) else ""  # a row of its own
    words = escape(f"{drawing.title}. Arrow keys tell values, plus and minus zoom, Escape shows all.")
    return (
        f'<figure{wide} data-chart="{escape(name)}"><figcaption><h3>{escape(drawing.title)}</h3>{note}</figcaption>\n'
        f'<div class="controls">{_series_switch(name, drawing)}'
        '<button class="reset" type="button" hidden>Show all</button></div>\n'
        f'<canvas tabindex="0" role="img" aria-label="{words}" style="height:{drawing.height}px"></canvas>'
        f'{_key(drawing)}<p class="live unseen" aria-live="polite"></p>\n'
        f'<p class="save">Save as {_saving(drawing.title)}</p>\n'
        '<details class="numbers"><summary>The same in numbers</summary><div class="scroll" tabindex="0"></div>'
        "</details></figure>\n"
    )


def _saving(title: str) -> str:
    """One button per form in which a chart can be saved."""
    forms = {"csv": "CSV", "svg": "SVG", "png": "PNG"}
    return "".join(
        f'<button type="button" data-save="{form}" aria-label="{escape(title)} as {name}">{name}</button>'
        for form, name in forms.items()
    )


def _series_switch(name: str, drawing: Drawing) -> str:
    if not isinstance(drawing, Picture):
        return ""
    options = "".join(f"<option>{escape(series.label)}</option>" for series in drawing.series)
    return f'<label>Strategy <select id="of-{escape(name)}">{options}</select></label>'


def _key(drawing: Drawing) -> str:
    """The meaning of the colours, if they are not those of the strategies."""
    if isinstance(drawing, Picture):
        meanings = drawing.states
    else:
        meanings = {series.label: series.style for series in drawing.series if drawing.keyed}
    parts = "".join(
        f'<span><i style="--light:{style.light};--dark:{style.dark}"></i>{escape(name)}</span>'
        for name, style in meanings.items()
    )
    return f'<p class="states">{parts}</p>' if len(meanings) > 1 else ""


def axis_switch(charts: Mapping[str, Drawing]) -> str:
    """One switch for the horizontal axis of all charts that have a choice."""
    choices = {name: title for drawing in charts.values() for name, title in drawing.x.choices.items()}
    if len(choices) < 2:
        return ""
    radios = "".join(
        f'<label><input type="radio" name="over" value="{escape(name)}"{" checked" if number == 0 else ""}>'
        f"{escape(title)}</label>"
        for number, (name, title) in enumerate(choices.items())
    )
    return f'<div role="radiogroup" aria-label="Horizontal axis" class="controls">Over {radios}</div>'


def legend(styles: Mapping[str, Style]) -> str:
    """One button per strategy that shows or hides it in all charts; nothing for a single strategy."""
    if len(styles) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-label="{escape(label)}">{swatch(style)}{escape(label)}'
        "</button>"
        for label, style in styles.items()
    )
    return (
        '<div class="legend" role="group" aria-label="Strategies: press to hide or show in all charts">'
        f'{buttons}<button type="button" data-all hidden>Show all</button></div>'
    )


def swatch(style: Style) -> str:
    """A piece of a strategy's line."""
    dash = " ".join(map(str, style.dash)) if style.dash[1] else ""
    return (
        f'<svg class="swatch" width="26" height="10" aria-hidden="true" style="--light:{style.light};--dark:'
        f'{style.dark}"><line x1="0" y1="5" x2="26" y2="5" stroke-dasharray="{dash}"></line></svg>'
    )
