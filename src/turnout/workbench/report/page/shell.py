"""The shell of all pages: one HTML file that loads nothing else, in light and dark, wide and narrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from typing import Any

from turnout import __version__
from turnout.workbench.report.page.chart import Drawing
from turnout.workbench.report.page.on_page import figures, for_script
from turnout.workbench.report.page.telling import why_silent

SCRIPTS = ("chart.js", "marks.js", "picture.js", "saving.js", "page.js")
LIVE = "live.js"
# Nothing may be fetched, whatever a label holds.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


ITS_SERVER = "; connect-src 'self'"  # which a live page asks how far the run is


def page(
    title: str, parts: Iterable[str], charts: Mapping[str, Drawing], narrow: bool = False, live: bool = False
) -> str:
    """A whole page from its parts; charts are drawn where a part has the figure of their name.

    A live page asks the server that it came from how far the run is.
    """
    policy = POLICY + ITS_SERVER if live else POLICY
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><link rel="icon" href="data:,">'
        f"<title>turnout: {escape(title)}</title><style>{_asset('page.css')}</style>"
    )
    top = (
        '<a class="skip" href="#main">To the content</a>'
        f'<header class="top"><h1>{escape(title)}</h1><button class="theme" type="button">Dark</button></header>'
    )
    foot = f"<footer><p>Written by turnout {escape(__version__)}.</p></footer>"
    body = f'{top}\n<main id="main">\n' + "\n".join(filter(None, parts)) + f"\n</main>\n{foot}"
    shown = {name: for_script(drawing) for name, drawing in charts.items() if not why_silent(drawing)}
    data = f'<script type="application/json" id="data">{_json(shown)}</script>'
    script = f"<script>{''.join(_asset(name) for name in (*SCRIPTS, *([LIVE] if live else [])))}</script>"
    kind = ' class="narrow"' if narrow else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body{kind}>\n{body}\n'
        f'<div id="tip" aria-hidden="true" hidden></div>\n{data}\n{script}\n</body>\n</html>\n'
    )


def _asset(name: str) -> str:
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
