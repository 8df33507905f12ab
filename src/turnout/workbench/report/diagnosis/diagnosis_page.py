"""A diagnosis as one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.report.audit.audit_page import favoured_at_a_glance
from turnout.workbench.report.diagnosis.advice import FAIR, flower_line
from turnout.workbench.report.diagnosis.diagnosis_charts import comparison_name, diagnosis_charts
from turnout.workbench.report.diagnosis.diagnosis_tables import furthest_table, losing_table, ranking_table
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words, ranking_words
from turnout.workbench.report.diagnosis.readable import percent
from turnout.workbench.report.page.chart import Drawing
from turnout.workbench.report.page.shell import copyable, figures_or_why, page, paragraph, section

MOST_NAMED = 10  # clients in a table


def diagnosis_page(diagnosis: Diagnosis) -> str:
    """The whole page; every section that the log has something for."""
    texts, charts = diagnosis_words(diagnosis), diagnosis_charts(diagnosis)
    lead, *more = texts["summary"]

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
        section("Lost uploads", paragraph(texts["uploads"]), _losing(diagnosis)),
        part("How long the fleet remembers", "mixing", "mixing"),
        _ranking(diagnosis),
        section("The fitted world beside the log", paragraph(texts["world"]), _likeness(diagnosis, charts)),
        _warnings(diagnosis.log.warnings),
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


def _losing(diagnosis: Diagnosis) -> str:
    uploads = diagnosis.findings.lost_uploads
    return "" if uploads is None or not uploads.losing.any() else losing_table(diagnosis, MOST_NAMED).html()


def _at_a_glance(diagnosis: Diagnosis) -> str:
    weights = diagnosis.findings.weights
    if weights.weighted.sum() == 0 or weights.weighted_distance < FAIR:
        return ""
    return favoured_at_a_glance(weights.weighted, weights.target)


def _weights(diagnosis: Diagnosis, charts: dict[str, Drawing]) -> str:
    weights = diagnosis.findings.weights
    plain = ""
    if abs(weights.plain_distance - weights.weighted_distance) > 1e-6:
        plain = f" An average without weights would be {percent(weights.plain_distance)} away."
    text = (
        "Averaging whoever is there, by what they should count, gives each client an effective weight. The total "
        f"variation from the target is {percent(weights.weighted_distance)}.{plain} Counted over: {weights.basis}. "
        "These clients are furthest from it:"
    )
    behind = furthest_table(diagnosis, MOST_NAMED).html()
    return section("Whom FedAvg trains for", paragraph([text]), behind, figures_or_why(charts, "weights"))


def _ranking(diagnosis: Diagnosis) -> str:
    if diagnosis.ranking is None:
        return section("Strategies", paragraph(["Strategies were not audited in the fitted world."]))
    return section("Strategies", paragraph(ranking_words(diagnosis)), ranking_table(diagnosis.ranking).html())


def _likeness(diagnosis: Diagnosis, charts: dict[str, Drawing]) -> str:
    likeness = diagnosis.likeness
    part = "" if likeness.num_clients == diagnosis.log.num_clients else f" over {likeness.num_clients:,} of the clients"
    band = paragraph([f"Band or whisker: the least to the most of {likeness.seeds} simulated logs{part}."], "soft")
    return band + figures_or_why(charts, *map(comparison_name, likeness.comparisons))


def _warnings(warnings: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(warning)}</li>\n" for warning in warnings)
    return section("What was mended or doubtful while reading", f"<ul>\n{items}</ul>" if items else "")
