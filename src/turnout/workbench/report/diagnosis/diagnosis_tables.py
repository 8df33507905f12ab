"""A diagnosis for the terminal, and the tables that its page has too."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.ranking import Ranking
from turnout.workbench.report.audit.audit_table import clients_table
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words, ranking_words
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.page.labels import paper_label
from turnout.workbench.report.page.table import Column, Table

TITLES = {
    "log": "log",
    "availability": "availability",
    "company": "together",
    "cycles": "cycles",
    "separation": "rest",
    "drift": "change",
    "uploads": "uploads",
    "mixing": "memory",
    "world": "fitted world",
}


def overview(diagnosis: Diagnosis) -> Group:
    """First the sentence that matters most, then one line per subject, then the strategies, then what to doubt."""
    texts = diagnosis_words(diagnosis)
    lead, *more = texts["summary"]
    grid = Grid.grid(padding=(0, 2))
    for name, title in TITLES.items():
        grid.add_row(Text(title, style="bold", no_wrap=True), Text(" ".join(texts[name])))
    for warning in diagnosis.log.warnings:
        grid.add_row(Text("warning", style="bold", no_wrap=True), Text(warning))
    parts = [Text(lead, style="bold"), *map(Text, more), Text(""), grid]
    if diagnosis.ranking is not None:
        parts += [Text(""), ranking_table(diagnosis.ranking), *map(Text, ranking_words(diagnosis))]
    return Group(*parts)


def ranking_table(ranking: Ranking) -> Table:
    """Strategies in the fitted world, one row each."""
    ranks = ranking.ranks
    by_chance = [percent(rank.by_chance) if rank.by_chance else "exact" for rank in ranks]
    columns = (
        Column.of("strategy", [paper_label(rank.strategy) for rank in ranks]),
        Column.of("consistent", ["yes" if rank.consistent else "no" for rank in ranks]),
        Column.of("off target", [percent(rank.distance) for rank in ranks]),
        Column.of("by chance", by_chance),
        Column.of("unsteady", [percent(rank.unsteady) for rank in ranks]),
        Column.of("server memory", [rank.memory for rank in ranks]),
        Column.of("consistent in theory", [rank.note for rank in ranks], words=True, page_only=True),
    )
    return Table(columns, "Strategies in the fitted world")


def losing_table(diagnosis: Diagnosis, most: int) -> Table:
    """The clients that lose more uploads than the fleet does, at most so many."""
    uploads = diagnosis.findings.lost_uploads
    assert uploads is not None
    chosen = uploads.worst[:most]
    shares = [tuple(map(percent, uploads.lost_by(k))) for k in chosen]
    columns = (
        Column.of("client", [str(diagnosis.log.names[k]) for k in chosen]),
        Column.of("uploads", [f"{uploads.sent[k]:,}" for k in chosen]),
        Column.of("lost", [lost for lost, _, _ in shares]),
        Column.of("95 % interval", [f"{low} to {high}" for _, low, high in shares]),
    )
    return Table(columns)


def furthest_table(diagnosis: Diagnosis, most: int) -> Table:
    """The clients that are furthest from their target, at most so many."""
    weights, chosen = diagnosis.findings.weights, diagnosis.findings.weights.ranked[:most].tolist()
    names = [str(diagnosis.log.names[k]) for k in chosen]
    return clients_table(names, weights.target[chosen], weights.weighted[chosen])
