"""A diagnosis for the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from turnout.diagnosis.diagnose import Diagnosis
from turnout.diagnosis.world.ranking import Ranking
from turnout.report.diagnosis.diagnosis_words import percent, ranking_words, sentences

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
    if diagnosis.ranking is not None:
        parts += [Text(""), _ranking(diagnosis.ranking), *map(Text, ranking_words(diagnosis))]
    return Group(*parts)


def _ranking(ranking: Ranking) -> Table:
    table = Table(title="Strategies in the fitted world", title_justify="left")
    for title in ("strategy", "consistent", "off target", "unsteady", "server memory"):
        table.add_column(title)
    for rank in ranking.ranks:
        verdict = "yes" if rank.consistent else "no"
        table.add_row(Text(rank.strategy), verdict, percent(rank.distance), percent(rank.unsteady), rank.memory)
    return table
