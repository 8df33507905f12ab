"""The one shell of all pages: a single HTML file that asks nothing of anywhere, in light and dark, wide and narrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from turnout import __version__

Spec = dict[str, Any]  # of a chart, as assets/chart.js draws it

SCRIPTS = ("chart.js", "marks.js", "picture.js", "page.js")
# Nothing may be fetched, whatever a label holds.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
FOR_THE_PAGE = ("title", "note", "wide")  # of a chart: written into the page rather than handed to the script


class Html(str):
    """Text that is markup already."""


def page(
    title: str,
    parts: Iterable[str],
    charts: Mapping[str, Spec] | None = None,
    styles: Mapping[str, Any] | None = None,
    narrow: bool = False,
) -> str:
    """A whole page from its parts; charts are drawn where a part has the figure of their name."""
    shown = {name: _for_the_script(spec) for name, spec in (charts or {}).items()}
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">'
        f"<title>turnout: {escape(title)}</title><style>{_asset('page.css')}</style>"
    )
    top = (
        '<a class="skip" href="#main">To the content</a>'
        f'<header class="top"><h1>{escape(title)}</h1><button class="theme" type="button">Dark</button></header>'
    )
    foot = f"<footer><p>Written by turnout {escape(__version__)}.</p></footer>"
    body = f'{top}\n<main id="main">\n' + "\n".join(parts) + f"\n</main>\n{foot}"
    data = f'<script type="application/json" id="data">{_json({"charts": shown, "styles": styles or {}})}</script>'
    script = f"<script>{''.join(_asset(name) for name in SCRIPTS)}</script>"
    kind = ' class="narrow"' if narrow else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body{kind}>\n{body}\n'
        f'<div id="tip" aria-hidden="true" hidden></div>\n{data}\n{script}\n</body>\n</html>\n'
    )


def _asset(name: str) -> str:
    return (resources.files("turnout.report.page") / "assets" / name).read_text(encoding="utf-8")


def _for_the_script(spec: Spec) -> Spec:
    return {key: value for key, value in spec.items() if key not in FOR_THE_PAGE}


def _json(value: Any) -> str:
    """JSON that cannot end the script around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def section(title: str, *parts: str) -> str:
    """A heading and what stands below it; nothing at all where there is nothing to say."""
    inside = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>\n{inside}</section>" if inside else ""


def paragraph(lines: Iterable[str], kind: str = "") -> str:
    """Sentences, one after another."""
    marked = f' class="{kind}"' if kind else ""
    text = " ".join(escape(line) for line in lines)
    return f"<p{marked}>{text}</p>" if text else ""


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], told: bool = False, labels: Sequence[str] | None = None
) -> str:
    """Numbers to the right; `told`: the last column is words; `labels`: whose row each is, so that it can be hidden.

    A cell of the type `Html` is written as it is; its maker has escaped what is in it.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = []
    for number, (first, *rest) in enumerate(rows):
        mark = f' data-label="{escape(labels[number])}"' if labels is not None else ""
        body.append(
            f'<tr{mark}><th scope="row">{_cell(first)}</th>{"".join(f"<td>{_cell(c)}</td>" for c in rest)}</tr>'
        )
    kind = ' class="told"' if told else ""
    rows_text = "\n".join(body)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{rows_text}\n</tbody></table></div>\n"
    )


def _cell(cell: str) -> str:
    return cell if isinstance(cell, Html) else escape(cell)


def chart(name: str, spec: Spec) -> str:
    """The figure in which a chart is drawn, with its switches and the same in numbers."""
    note = f"<p>{escape(spec['note'])}</p>" if spec.get("note") else ""
    wide = ' class="wide"' if spec.get("wide") else ""
    words = escape(f"{spec['title']}. Arrow keys tell values, plus and minus zoom, Escape shows all.")
    return (
        f'<figure{wide} data-chart="{escape(name)}"><figcaption><h3>{escape(spec["title"])}</h3>{note}</figcaption>\n'
        f'<div class="controls">{_series_switch(name, spec)}'
        '<button class="reset" type="button" hidden>Show all</button></div>\n'
        f'<canvas tabindex="0" role="img" aria-label="{words}" height="{spec.get("height", 280)}"></canvas>'
        f'{_key(spec)}<p class="live unseen" aria-live="polite"></p>\n'
        '<details class="numbers"><summary>The same in numbers</summary><div class="scroll" tabindex="0"></div>'
        "</details></figure>\n"
    )


def charts_beside(charts: Mapping[str, Spec], *names: str) -> str:
    """Those charts that exist, side by side where there is room."""
    drawn = "".join(chart(name, charts[name]) for name in names if name in charts)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def axis_switch(charts: Mapping[str, Spec]) -> str:
    """One switch for what all charts are drawn over that leave a choice."""
    choices = {one["name"]: one["title"] for spec in charts.values() for one in spec["x"].get("choices", [])}
    if len(choices) < 2:
        return ""
    radios = "".join(
        f'<label><input type="radio" name="over" value="{escape(name)}"{" checked" if number == 0 else ""}>'
        f"{escape(title)}</label>"
        for number, (name, title) in enumerate(choices.items())
    )
    return f'<div role="radiogroup" aria-label="Horizontal axis" class="controls">Over {radios}</div>'


def _series_switch(name: str, spec: Spec) -> str:
    if spec["kind"] != "picture":
        return ""
    options = "".join(f"<option>{escape(series['label'])}</option>" for series in spec["series"])
    return f'<label>Strategy <select id="of-{escape(name)}">{options}</select></label>'


def _key(spec: Spec) -> str:
    """What the colours of this chart mean, where they are not those of the strategies."""
    own = [{"name": series["label"]} | series["style"] for series in spec["series"] if "style" in series]
    parts = "".join(
        f'<span><i style="--light:{state["light"]};--dark:{state["dark"]}"></i>{escape(state["name"])}</span>'
        for state in spec.get("states", own if len(own) > 1 else [])
    )
    return f'<p class="states">{parts}</p>' if parts else ""


def legend(styles: Mapping[str, Any]) -> str:
    """A switch for every strategy, which shows or hides it in all charts."""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-label="{escape(label)}">{swatch(style)}{escape(label)}'
        "</button>"
        for label, style in styles.items()
    )
    return (
        '<div class="legend" role="group" aria-label="Strategies: press to hide or show in all charts">'
        f'{buttons}<button type="button" data-all hidden>Show all</button></div>'
    )


def swatch(style: Mapping[str, Any]) -> str:
    """A piece of a strategy's line."""
    dash = " ".join(map(str, style["dash"])) if style["dash"][1] else ""
    return (
        f'<svg class="swatch" width="26" height="10" aria-hidden="true" style="--light:{style["light"]};--dark:'
        f'{style["dark"]}"><line x1="0" y1="5" x2="26" y2="5" stroke-dasharray="{dash}"></line></svg>'
    )


def glance(shares: Mapping[str, tuple[float, str]]) -> str:
    """Shares as bars that need no axis, each with its words: what somebody in a hurry should see."""
    rows = "".join(
        f'<div><b style="width:{100 * min(1.0, max(0.0, share)):.1f}%"></b><span>{escape(words)}</span></div>'
        for share, words in shares.values()
    )
    return f'<div class="glance">{rows}</div>'


def copied(name: str, text: str) -> str:
    """Text to be taken elsewhere, with a button that takes it."""
    return (
        f'<pre id="{escape(name)}" tabindex="0">{escape(text)}</pre>'
        f'<button type="button" data-copy="{escape(name)}">Copy</button>'
    )
