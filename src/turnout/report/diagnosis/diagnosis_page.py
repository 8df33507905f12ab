"""A diagnosis as one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from turnout.diagnosis.diagnose import Diagnosis
from turnout.report.diagnosis.diagnosis_charts import comparison_name, diagnosis_charts
from turnout.report.diagnosis.diagnosis_words import FAIR, favoured, percent, ranking_words, sentences
from turnout.report.page import shell
from turnout.report.page.shell import Spec, charts_beside, glance, paragraph, section, table

MOST_NAMED = 10  # clients in a table


def page(diagnosis: Diagnosis) -> str:
    """The whole page; every section that the log has something for."""
    told, charts = sentences(diagnosis), diagnosis_charts(diagnosis)
    lead, *more = told["summary"]

    def part(title: str, subject: str, *names: str) -> str:
        return section(title, paragraph(told[subject]), charts_beside(charts, *names))

    parts = [
        paragraph([lead], "lead"),
        _at_a_glance(diagnosis),
        paragraph([*more, *told["log"]]),
        part("Availability", "availability", "availability", "correlation"),
        part("Who moves together", "company", "sizes"),
        part("Cycles", "cycles", *(name for name in charts if name.startswith("cycle-"))),
        part("Rest between participations", "separation"),
        part("Change over time", "drift"),
        _weights_part(diagnosis, charts),
        part("How long the fleet remembers", "mixing", "mixing"),
        _ranking(diagnosis),
        section("The fitted world beside the log", paragraph(told["world"]), _likeness(diagnosis, charts)),
        _warnings(diagnosis.log.warnings),
    ]
    return shell.page(f"Who takes part: {_name(diagnosis.source)}", parts, charts, narrow=True)


def _at_a_glance(diagnosis: Diagnosis) -> str:
    weights = diagnosis.findings.weights
    if weights.weighted.sum() == 0 or weights.weighted_distance < FAIR:
        return ""
    fleet, target = favoured(diagnosis)
    rows = {"of the clients": fleet, "of the weight is asked for them": target, "of the weight is theirs": 0.5}
    return glance({words: (share, f"{percent(share)} {words}") for words, share in rows.items()})


def _name(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2]


def _weights_words(diagnosis: Diagnosis) -> str:
    weights = diagnosis.findings.weights
    plain = ""
    if abs(weights.plain_distance - weights.weighted_distance) > 1e-6:
        plain = f" An average without weights would be {percent(weights.plain_distance)} away."
    return (
        "Averaging whoever is there, by what they should count, gives each client an effective weight. The total "
        f"variation from the target is {percent(weights.weighted_distance)}.{plain} These clients are most behind it:"
    )


def _weights_part(diagnosis: Diagnosis, charts: dict[str, Spec]) -> str:
    weights, names = diagnosis.findings.weights, diagnosis.log.names
    rows = [
        (str(names[k]), _number(float(weights.target[k])), _number(float(weights.weighted[k])), _ratio(weights, k))
        for k in weights.ranked[:MOST_NAMED].tolist()
    ]
    behind = table(("client", "asked", "got", "got ÷ asked"), rows)
    words = paragraph([_weights_words(diagnosis)])
    return section("Whom FedAvg trains for", words, behind, charts_beside(charts, "weights"))


def _ratio(weights: Any, k: int) -> str:
    return f"{weights.weighted[k] / weights.target[k]:.2f}" if weights.target[k] > 0 else "–"


def _number(value: float) -> str:
    return f"{100 * value:.3g} %"


def _ranking(diagnosis: Diagnosis) -> str:
    if diagnosis.ranking is None:
        return section("Strategies", paragraph(["Strategies were not audited in the fitted world."]))
    rows = [
        (
            rank.strategy,
            "yes" if rank.consistent else "no",
            percent(rank.distance),
            percent(rank.by_chance) if rank.by_chance else "exact",
            percent(rank.unsteady),
            rank.memory,
            rank.note,
        )
        for rank in diagnosis.ranking.ranks
    ]
    header = ("strategy", "consistent", "off target", "by chance", "unsteady", "server memory", "consistent in theory")
    return section("Strategies", paragraph(ranking_words(diagnosis)), table(header, rows, told=True))


def _likeness(diagnosis: Diagnosis, charts: dict[str, Spec]) -> str:
    likeness = diagnosis.likeness
    some = "" if likeness.num_clients == diagnosis.log.num_clients else f" over {likeness.num_clients:,} of the clients"
    band = paragraph([f"Band or whisker: the least to the most of {likeness.seeds} simulated logs{some}."], "soft")
    return band + charts_beside(charts, *map(comparison_name, likeness.comparisons))


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>\n" for warning in warnings)
    return f"<section><h2>What was mended or doubtful while reading</h2>\n<ul>\n{items}</ul></section>"
