"""A diagnosis as one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from turnout import __version__
from turnout.diagnosis.diagnose import Diagnosis
from turnout.report.diagnosis_figures import figures
from turnout.report.diagnosis_words import percent, ranking_words, sentences
from turnout.report.inline import inline_svg

MOST_NAMED = 10  # clients in a table

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --line: #d0d0d0; --soft: #5a5a5a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181c; --line: #3a3d44; --soft: #a0a4ab; }
}
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.lead { font-size: 1.2rem; } .soft, figcaption, footer { color: var(--soft); }
figure { margin: 1.2rem 0; overflow-x: auto; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: right; padding: 0.2rem 0.8rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .told th:last-child, .told td:last-child { text-align: left; }
.told td:last-child { min-width: 16rem; } .told td { white-space: nowrap; } .told td:last-child { white-space: normal; }
"""


def page(diagnosis: Diagnosis) -> str:
    """The whole page; every section that the log has something for."""
    told = sentences(diagnosis)
    drawn = {name: inline_svg(chart, name) for name, chart in figures(diagnosis).items()}
    lead, *more = told["summary"]
    parts = [
        f"<h1>Who takes part: {escape(_name(diagnosis.source))}</h1>",
        f'<p class="lead">{escape(lead)}</p>',
        _paragraph([*more, *told["log"]]),
        _section("Availability", told["availability"], _availability_figures(drawn)),
        _section("Who moves together", told["company"], _figures(drawn, {"sizes": "Sizes of the groups."})),
        _section("Cycles", told["cycles"], _figures(drawn, _cycle_captions(drawn))),
        _section("Rest between participations", told["separation"]),
        _section("Change over time", told["drift"]),
        _section("Whom FedAvg trains for", [_weights_words(diagnosis)], _weights_part(diagnosis, drawn)),
        _section("How long the fleet remembers", told["mixing"], _figures(drawn, {"mixing": MIXING})),
        _section("Strategies", *_ranking(diagnosis)),
        _section("The fitted world beside the log", told["world"], _likeness(diagnosis, drawn)),
        _warnings(diagnosis.log.warnings),
        f"<footer><p>Written by turnout {escape(__version__)}.</p></footer>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>turnout: {escape(_name(diagnosis.source))}</title><style>{STYLE}</style>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body>\n</html>\n"
    )


MIXING = (
    "Correlation of a client with itself, so long after; band: the middle half of the clients. A curve at 0 means that "
    "the past is forgotten."
)


def _name(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2]


def _paragraph(lines: Iterable[str]) -> str:
    return f"<p>{' '.join(escape(line) for line in lines)}</p>"


def _section(title: str, lines: Sequence[str], rest: str = "") -> str:
    return f"<section><h2>{escape(title)}</h2>\n{_paragraph(lines)}\n{rest}</section>"


def _figures(drawn: dict[str, str], captions: dict[str, str]) -> str:
    return "".join(
        f"<figure>{drawn[name]}<figcaption>{escape(caption)}</figcaption></figure>\n"
        for name, caption in captions.items()
        if name in drawn
    )


def _availability_figures(drawn: dict[str, str]) -> str:
    return _figures(
        drawn,
        {
            "availability": "Clients by how often they are there.",
            "correlation": "Each client's correlation from one slot to the next, with its 95 % credible interval. At 0 "
            "it comes at random; near 1 it stays away, and stays, for long.",
        },
    )


def _cycle_captions(drawn: dict[str, str]) -> dict[str, str]:
    return {name: "Share of the watched clients that are there." for name in drawn if name.startswith("cycle-")}


def _weights_words(diagnosis: Diagnosis) -> str:
    weights = diagnosis.findings.weights
    plain = ""
    if abs(weights.plain_distance - weights.weighted_distance) > 1e-6:
        plain = f" An average without weights would be {percent(weights.plain_distance)} away."
    return (
        "Averaging whoever is there, by what they should count, gives each client an effective weight. The total "
        f"variation from the target is {percent(weights.weighted_distance)}.{plain} These clients are most behind it:"
    )


def _weights_part(diagnosis: Diagnosis, drawn: dict[str, str]) -> str:
    weights, names = diagnosis.findings.weights, diagnosis.log.names
    rows = [
        (str(names[k]), _number(float(weights.target[k])), _number(float(weights.weighted[k])), _ratio(weights, k))
        for k in weights.ranked[:MOST_NAMED].tolist()
    ]
    table = _table(("client", "asked", "got", "got ÷ asked"), rows)
    return table + _figures(drawn, {"weights": "How many times its due each client gets; the dashed line is fair."})


def _ratio(weights: Any, k: int) -> str:
    return f"{weights.weighted[k] / weights.target[k]:.2f}" if weights.target[k] > 0 else "–"


def _number(value: float) -> str:
    return f"{100 * value:.3g} %"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], told: bool = False) -> str:
    """Numbers to the right; `told` says that the last column is words."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    kind = ' class="told"' if told else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"


def _ranking(diagnosis: Diagnosis) -> tuple[list[str], str]:
    if diagnosis.ranking is None:
        return ["Strategies were not audited in the fitted world."], ""
    ranking = diagnosis.ranking
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
        for rank in ranking.ranks
    ]
    header = ("strategy", "consistent", "off target", "by chance", "unsteady", "server memory", "consistent in theory")
    return ranking_words(diagnosis), _table(header, rows, told=True)


def _likeness(diagnosis: Diagnosis, drawn: dict[str, str]) -> str:
    likeness = diagnosis.likeness
    captions = {
        f"like-{each.name.replace(' ', '-')}": f"{each.name.capitalize()}: "
        + ("alike" if each.alike else "not alike")
        + f", {each.distance:.2g} apart where {each.tolerance:.2g} can be chance."
        for each in likeness.comparisons
    }
    some = "" if likeness.num_clients == diagnosis.log.num_clients else f" over {likeness.num_clients:,} of the clients"
    band = f'<p class="soft">Band or bar: the least to the most of {likeness.seeds} simulated logs{some}.</p>\n'
    return band + _figures(drawn, captions)


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>\n" for warning in warnings)
    return f"<section><h2>What was mended or doubtful while reading</h2>\n<ul>\n{items}</ul></section>"
