"""Results as a notebook shows them: sentences, a table and a chart. What other programs read is named here, too."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from turnout.auditor import Audit
from turnout.simulator.history import History
from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.report.audit import (
    audit_summary,
    audit_table,
    audit_words,
    effective_weights_figure,
    relabel_audit,
)
from turnout.workbench.report.diagnosis.diagnosis_charts import diagnosis_charts
from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_summary, furthest_table, ranking_table
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words
from turnout.workbench.report.page.on_paper import figure
from turnout.workbench.report.page.shell import asset, paragraph
from turnout.workbench.report.page.table import Table
from turnout.workbench.report.run.compared import of_history
from turnout.workbench.report.run.comparison import StrategyComparison
from turnout.workbench.report.run.plots import draw_curves
from turnout.workbench.report.run.run_page import RunReport

__all__ = ["audit_summary", "diagnosis_summary", "html"]

MOST_CLIENTS = 10  # in the table of a diagnosis


@singledispatch
def html(presented: Any) -> str:
    """The HTML of a result."""
    raise TypeError(f"{type(presented).__name__} has no HTML form")


@html.register(History)
def _history(history: History) -> str:
    return _of_run(RunReport(of_history(history, "this strategy")), [])


@html.register(StrategyComparison)
def _comparison(comparison: StrategyComparison) -> str:
    return _of_run(comparison.shown, comparison.shown.words)


def _of_run(report: RunReport, lines: list[str]) -> str:
    return _fragment(lines, report.table, draw_curves(report.points, report.curves) if report.curves else None)


@html.register(Audit)
def _audit(audit: Audit) -> str:
    shown = relabel_audit(audit)
    return _fragment(audit_words(shown), audit_table(shown), effective_weights_figure(shown))


@html.register(Diagnosis)
def _diagnosis(diagnosis: Diagnosis) -> str:
    ranking, charts = diagnosis.ranking, diagnosis_charts(diagnosis)
    table = furthest_table(diagnosis, MOST_CLIENTS) if ranking is None else ranking_table(ranking)
    chart = charts.get("weights") or charts.get("availability")
    drawn = None if chart is None else figure([chart], chart.title, [chart.note])
    return _fragment(diagnosis_words(diagnosis)["summary"], table, drawn)


def _fragment(lines: Iterable[str], table: Table, chart: Any | None) -> str:
    """Sentences, a table with its note, and an Altair chart where there is one."""
    drawn = "" if chart is None else f'<img alt="The same as a chart" src="{_picture(chart)}">'
    # A notebook has no style sheet of ours, and runs no script.
    style = "".join(asset("notebook.css").splitlines())
    parts = (paragraph(lines), table.html(), paragraph(filter(None, [table.note]), "small"), drawn)
    return f'<div class="turnout"><style>{style}</style>{"".join(parts)}</div>'


def _picture(chart: Any) -> str:
    """A chart as the address of an image, so that what is inside cannot meet the ids of the notebook."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue().encode()).decode()}"
