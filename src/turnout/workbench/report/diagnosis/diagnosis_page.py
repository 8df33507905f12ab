"""A diagnosis as one HTML file, as tables for the terminal, and as a folder with the experiment of its fitted world."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from turnout import __version__
from turnout.declarations import checked
from turnout.files.whole import free_folder, whole_or_absent
from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.ranking import Ranking
from turnout.workbench.report.audit import clients_table, favoured_at_a_glance
from turnout.workbench.report.diagnosis.advice import FAIR, flower_line
from turnout.workbench.report.diagnosis.diagnosis_charts import comparison_name, diagnosis_charts
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words, ranking_words
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.diagnosis.work_section import pace_table, slowest_table
from turnout.workbench.report.diagnosis.work_words import pace_words, work_words
from turnout.workbench.report.diagnosis.world_file import world_toml
from turnout.workbench.report.page.chart import Drawing
from turnout.workbench.report.page.labels import paper_label
from turnout.workbench.report.page.shell import copyable, figures_or_why, page, paragraph, section
from turnout.workbench.report.page.table import Column, Table

MOST_NAMED = 10  # clients in a table
TITLES = {
    "log": "log",
    "availability": "availability",
    "company": "together",
    "cycles": "cycles",
    "separation": "rest",
    "drift": "change",
    "uploads": "uploads",
    "mixing": "memory",
    "work": "work",
    "pace": "pace",
    "world": "fitted world",
}
MOST_CLIENTS = 100_000  # whose own numbers are written


def diagnosis_page(diagnosis: Diagnosis) -> str:
    """The whole page; every section that the log has something for."""
    texts, charts = diagnosis_words(diagnosis), diagnosis_charts(diagnosis)
    lead, *more = texts["summary"]
    uploads = diagnosis.findings.lost_uploads
    losing = "" if uploads is None or not uploads.losing.any() else losing_table(diagnosis, MOST_NAMED).html()
    warnings = "".join(f"<li>{escape(warning)}</li>\n" for warning in diagnosis.log.warnings)

    def part(title: str, subject: str, *names: str) -> str:
        return section(title, paragraph(texts[subject]), figures_or_why(charts, *names))

    parts = [
        paragraph([lead], "lead"),
        _first_steps(diagnosis),
        _at_a_glance(diagnosis),
        paragraph([*more, *texts["log"]]),
        part("Availability", "availability", "availability", "correlation"),
        part("Who moves together", "company", "sizes"),
        part("Cycles", "cycles", *(name for name in charts if name.startswith("cycle-"))),
        part("Rest between participations", "separation"),
        part("Change over time", "drift"),
        _weights(diagnosis, charts),
        section("Lost uploads", paragraph(texts["uploads"]), losing),
        part("How long the fleet remembers", "mixing", "mixing"),
        _ranking(diagnosis),
        _work(diagnosis, charts),
        _pace(diagnosis),
        section("The fitted world beside the log", paragraph(texts["world"]), _likeness(diagnosis, charts)),
        section("What was mended or doubtful while reading", f"<ul>\n{warnings}</ul>" if warnings else ""),
    ]
    source = diagnosis.source.replace("\\", "/").rpartition("/")[2]
    return page(f"Who takes part: {source}", parts, charts, narrow=True)


def _first_steps(diagnosis: Diagnosis) -> str:
    """Beside the recommendation: the experiment that is written with the page, and the strategy for Flower."""
    line = flower_line(diagnosis)
    if not line:
        return ""
    steps = f"turnout run world.toml   # the fitted world, from this folder\nstrategy = {line}   # on real nodes"
    return copyable("first-steps", steps)


def _at_a_glance(diagnosis: Diagnosis) -> str:
    weights = diagnosis.findings.weights
    if weights.weighted.sum() == 0 or weights.beyond_chance < FAIR:
        return ""
    return favoured_at_a_glance(weights.weighted, weights.target)


def _weights(diagnosis: Diagnosis, charts: dict[str, Drawing]) -> str:
    weights = diagnosis.findings.weights
    plain = ""
    if abs(weights.plain_distance - weights.weighted_distance) > 1e-6:
        plain = f" An average without weights would be {percent(weights.plain_distance)} away."
    text = (
        "Averaging whoever is there, by what they should count, gives each client an effective weight. The total "
        f"variation from the target is {percent(weights.weighted_distance)}; where all clients come equally often, "
        f"chance gives {percent(weights.by_chance)} in a log as long.{plain} Counted over: {weights.basis}. "
        "These clients are furthest from it:"
    )
    behind = furthest_table(diagnosis, MOST_NAMED).html()
    return section("Whom FedAvg trains for", paragraph([text]), behind, figures_or_why(charts, "weights"))


def _ranking(diagnosis: Diagnosis) -> str:
    if diagnosis.ranking is None:
        return section("Strategies", paragraph(["Strategies were not audited in the fitted world."]))
    return section("Strategies", paragraph(ranking_words(diagnosis)), ranking_table(diagnosis.ranking).html())


def _work(diagnosis: Diagnosis, charts: dict[str, Drawing]) -> str:
    times = diagnosis.findings.work
    if times is None:
        return ""
    slowest = slowest_table(diagnosis, MOST_NAMED).html() if times.slow.any() else ""
    drawn = figures_or_why(charts, "lengths") if "lengths" in charts else ""
    return section("How long work takes", paragraph(work_words(diagnosis)), drawn, slowest)


def _pace(diagnosis: Diagnosis) -> str:
    if diagnosis.pacing is None:
        return ""
    return section("Waiting, or not", paragraph(pace_words(diagnosis)), pace_table(diagnosis.pacing).html())


def _likeness(diagnosis: Diagnosis, charts: dict[str, Drawing]) -> str:
    likeness = diagnosis.likeness
    part = "" if likeness.num_clients == diagnosis.log.num_clients else f" over {likeness.num_clients:,} of the clients"
    band = paragraph([f"Band or whisker: the least to the most of {likeness.seeds} simulated logs{part}."], "soft")
    return band + figures_or_why(charts, *map(comparison_name, likeness.comparisons))


def overview(diagnosis: Diagnosis) -> Group:
    """First the sentence that matters most, then one line per subject, then the strategies, then what to doubt."""
    texts = diagnosis_words(diagnosis)
    lead, *more = texts["summary"]
    grid = Grid.grid(padding=(0, 2))
    for name, title in TITLES.items():
        if name not in texts:
            continue
        grid.add_row(Text(title, style="bold", no_wrap=True), Text(" ".join(texts[name])))
    for warning in diagnosis.log.warnings:
        grid.add_row(Text("warning", style="bold", no_wrap=True), Text(warning))
    parts = [Text(lead, style="bold"), *map(Text, more), Text(""), grid]
    if diagnosis.ranking is not None:
        parts += [Text(""), ranking_table(diagnosis.ranking), *map(Text, ranking_words(diagnosis))]
    if diagnosis.pacing is not None:
        parts += [Text(""), pace_table(diagnosis.pacing)]
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


def diagnosis_summary(diagnosis: Diagnosis, clients: bool | None = None) -> dict[str, Any]:
    """All numbers with the sentences about them; `clients`: with those of every client, if not a very large fleet."""
    wanted = diagnosis.log.num_clients <= MOST_CLIENTS if clients is None else clients
    return {"turnout": __version__, "sentences": diagnosis_words(diagnosis)} | diagnosis.numbers(wanted)


@checked
def save_diagnosis(diagnosis: Diagnosis, out: str | Path) -> Path:
    """Write `diagnosis.html`, `diagnosis.json` and `world.toml`; if anything fails on the way, nothing is left."""
    folder = free_folder(out)
    with whole_or_absent(folder) as work:
        (work / "diagnosis.html").write_text(diagnosis_page(diagnosis), encoding="utf-8")
        text = json.dumps(diagnosis_summary(diagnosis), allow_nan=False)
        (work / "diagnosis.json").write_text(text + "\n", encoding="utf-8")
        (work / "world.toml").write_text(world_toml(diagnosis), encoding="utf-8")
    return folder
