"""The report of one run or of several, as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from turnout.experiment.citations import cited_in
from turnout.experiment.errors import ExperimentError
from turnout.experiment.run import Outcome, Run
from turnout.experiment.store import load
from turnout.files.whole import whole_file
from turnout.metrics import COSTS, TEST_ACCURACY, Metric
from turnout.report.page.colours import page_styles
from turnout.report.page.shell import (
    Html,
    Spec,
    axis_switch,
    charts_beside,
    copied,
    legend,
    page,
    paragraph,
    section,
    swatch,
    table,
)
from turnout.report.run.compared import Compared, compared, shown_metrics
from turnout.report.run.error_split import ErrorSplit, error_splits
from turnout.report.run.run_charts import report_charts
from turnout.report.run.run_table import best_labels, final_text, paired_difference, spent_text
from turnout.report.run.run_words import result
from turnout.statistics import Interval

REPORT = "report.html"
LONGEST_FILE = 100_000  # letters of an experiment that are shown
MEMORY_NOTE = (
    "Weights are those given to fresh updates. Strategies with a memory use old updates as well; turnout audit tells "
    "their effective weights."
)


@dataclass(frozen=True)
class Source:
    """A run, and the name of its folder."""

    name: str
    run: Run

    @classmethod
    def read(cls, folder: Path) -> Source:
        return cls(folder.absolute().name, load(folder))


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """One page from run folders; a file that is there already is replaced when the new one is whole."""
    if len({folder.absolute() for folder in folders}) < len(folders):
        raise ExperimentError("a run folder is named twice")
    text = report_page([Source.read(folder) for folder in folders])
    with whole_file(out) as draft:
        draft.write_text(text, encoding="utf-8")
    return out


def add_report(run: Run, folder: Path, name: str) -> None:
    """The report of a run into the folder that is being written for it, and that will have this name."""
    (folder / REPORT).write_text(report_page([Source(name, run)]), encoding="utf-8")


def report_page(sources: Sequence[Source]) -> str:
    """The whole page."""
    points = compared([(source.name, source.run) for source in sources])
    labels = [point.label for point in points.points]
    styles = page_styles(labels, [point.strategy for point in points.points])
    charts = report_charts(points, _splits(sources, points))
    parts = [
        _summary(points, sources),
        legend(styles) if len(labels) > 1 else "",
        _results(points, styles),
        section("How well the models do", axis_switch(charts), charts_beside(charts, *_curve_names(charts))),
        section("Who was there", charts_beside(charts, "availability")),
        section(
            "Whom the models are trained for",
            charts_beside(charts, "groups", "weights"),
            paragraph([MEMORY_NOTE], "small soft"),
        ),
        section("Whom they serve", charts_beside(charts, "clients", "staleness"), _not_recorded(charts)),
        section("Optimisation or bias", charts_beside(charts, "split")),
        *_circumstances(sources),
    ]
    return page(points.title or "Report", [part for part in parts if part], charts, styles)


def _curve_names(charts: dict[str, Spec]) -> list[str]:
    return [name for name in charts if name.startswith("curve-")]


def _splits(sources: Sequence[Source], points: Compared) -> dict[str, ErrorSplit]:
    """By the labels of the page, which come in the order of the runs."""
    names = iter(points.points)
    found = {}
    for source in sources:
        mine = error_splits(source.run)
        for outcome in source.run.points:
            shown = next(names).label
            if outcome.label in mine:
                found[shown] = mine[outcome.label]
    return found


def _summary(points: Compared, sources: Sequence[Source]) -> str:
    first, *more = result(points) or [_of_one(points)]
    rounds = sorted({point.history.rounds for point in points.points})
    seeds = sorted({len(point.history.seeds) for point in points.points})
    clients = sorted({point.target.shape[0] for point in points.points})
    counts = ((clients, "clients"), (rounds, "rounds"), (seeds, "seeds"))
    size = ", ".join(f"{' or '.join(f'{count:,}' for count in values)} {name}" for values, name in counts)
    origin = f"From {len(sources)} runs: {', '.join(source.name for source in sources)}." if len(sources) > 1 else ""
    return paragraph([first], "lead") + paragraph(more) + paragraph([f"{size}.", origin], "soft")


def _of_one(points: Compared) -> str:
    """What can be said where there is nothing to compare."""
    metrics, point = shown_metrics(points), points.points[0]
    if not metrics:
        return "No metric was taken in all of these runs: what is left is who took part."
    final = metrics[0].spread(point.history.final(metrics[0].name))
    return f"{metrics[0].title}: {point.label} ends at {final}{' %' if metrics[0].percent else ''}."


def _results(points: Compared, styles: dict[str, Any]) -> str:
    metrics = shown_metrics(points)
    header = ["Strategy", *(metric.axis_title for metric in metrics)]
    labels = [point.label for point in points.points]
    versus = bool(metrics) and len(labels) > 1
    if versus:
        header.append(f"{metrics[0].title} against {labels[0]}, 95 % interval")
    header += [*(record.title for record in COSTS), "Seconds a run"]
    best = {metric.name: best_labels(points, metric) for metric in metrics}
    rows: list[list[str]] = []
    for point in points.points:
        cells: list[str] = [Html(f"{swatch(styles[point.label])} {escape(point.label)}")]
        cells += [_final(point, metric, point.label in best[metric.name]) for metric in metrics]
        cells += [_against_first(points, point, metrics[0])] if versus else []
        cells += [*(spent_text(point, record.name) for record in COSTS), _seconds(point)]
        rows.append(cells)
    spread = "Mean ± standard deviation over the seeds, the best in bold. "
    paired = "Differences are paired by seed: in the same world all strategies meet the same absences."
    return section(
        "Results", table(header, rows, labels=labels), paragraph([spread, paired if versus else ""], "small soft")
    )


def _final(point: Outcome, metric: Metric, best: bool) -> str:
    text = final_text(point, metric)
    return Html(f"<strong>{escape(text)}</strong>") if best and not point.history.diverged.any() else text


def _against_first(points: Compared, point: Outcome, metric: Metric) -> str:
    first = points.points[0]
    if point is first or point.history.seeds != first.history.seeds:
        return "–"
    difference = paired_difference(points, point, metric)
    if not np.isfinite(difference).all():
        return "–"
    found = Interval.of(difference)
    mean = metric.number(found.mean, signed=True)
    if found.count < 2:
        return mean
    low, high = (metric.number(end, signed=True) for end in (found.low, found.high))
    sure = found.low > 0 or found.high < 0
    ends = f'<span class="interval">{low} to {high}{"" if sure else ", may be chance"}</span>'
    return Html(f"{mean}{ends}")


def _seconds(point: Outcome) -> str:
    if "seconds" in point.history.records:
        return f"{point.history.records['seconds'].sum(axis=1).mean():,.3g}"
    return "–" if point.history.seconds is None else f"{point.history.seconds:,.3g}"


def _not_recorded(charts: dict[str, Spec]) -> str:
    if "clients" in charts:
        return ""
    return paragraph(
        [f"How each client is served was not recorded: a task with test data does, if metrics has {TEST_ACCURACY}."],
        "small soft",
    )


def _circumstances(sources: Sequence[Source]) -> Iterator[str]:
    """How to get the same again, run by run, and whom to cite."""
    for number, source in enumerate(sources):
        text = source.run.toml
        if len(text) > LONGEST_FILE:
            text = f"{text[:LONGEST_FILE]}\n… the rest is in experiment.toml of the run folder"
        of = f": {source.name}" if len(sources) > 1 else ""
        command = f"turnout run {source.name}/experiment.toml"
        yield section(
            f"How to get the same again{of}",
            copied(f"again-{number}", command),
            table(("what", "which"), _facts(source), told=True),
            f"<details><summary>The whole experiment</summary>{copied(f'toml-{number}', text)}</details>",
        )
    entries = dict.fromkeys(entry for source in sources for entry in _cited(source.run))
    if entries:
        summary = f"BibTeX of {len(entries)} reference{'s' if len(entries) > 1 else ''}"
        bibtex = copied("bibtex", "\n\n".join(entries))
        yield section("Cite", f"<details><summary>{summary}</summary>{bibtex}</details>")


def _cited(run: Run) -> list[str]:
    return cited_in(run.experiment.document())[0]


def _facts(source: Source) -> Iterator[tuple[str, str]]:
    about = source.run.about
    device = about.get("device", {})
    versions = about.get("versions", {})
    known = {
        "first run as": about.get("command"),
        "seeds": ", ".join(map(str, about.get("seeds", []))),
        "device": " ".join(str(device[key]) for key in ("count", "kind") if key in device),
        "platform": about.get("platform"),
        "seconds in all": about.get("seconds"),
        "commit": about.get("commit"),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items() if number),
    }
    for name, value in known.items():
        if value:
            yield name, str(value)
