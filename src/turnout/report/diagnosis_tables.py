"""A diagnosis for the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from turnout.diagnosis.diagnose import Diagnosis
from turnout.report.diagnosis_words import percent, sentences

TITLES = {
    "log": "log",
    "availability": "availability",
    "company": "together",
    "cycles": "cycles",
    "separation": "rest",
    "drift": "change",
    "mixing": "memory",
    "world": "fitted world",
}


def overview(diagnosis: Diagnosis) -> Group:
    """First the sentence that matters most, then one line a subject, then the strategies, then what to doubt."""
    told = sentences(diagnosis)
    lead, *more = told["summary"]
    grid = Table.grid(padding=(0, 2))
    for name, title in TITLES.items():
        grid.add_row(Text(title, style="bold", no_wrap=True), Text(" ".join(told[name])))
    for warning in diagnosis.log.warnings:
        grid.add_row(Text("warning", style="bold", no_wrap=True), Text(warning))
    parts = [Text(lead, style="bold"), *map(Text, more), Text(""), grid]
    return Group(*parts, *([] if diagnosis.ranking is None else [Text(""), _ranking(diagnosis)]))


def _ranking(diagnosis: Diagnosis) -> Table:
    table = Table(title="Strategies in the fitted world", title_justify="left")
    for title in ("strategy", "distance to the target", "consistent", ""):
        table.add_column(title)
    for rank in diagnosis.ranking or ():
        verdict = "yes" if rank.consistent else "no"
        table.add_row(Text(rank.strategy), percent(rank.distance), verdict, Text(rank.note))
    return table
