"""The report of one run or of several, as one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from turnout.files.whole import whole_file
from turnout.metrics import TEST_ACCURACY
from turnout.workbench.experiment.citations import cite_document
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.run import Run
from turnout.workbench.experiment.store import load
from turnout.workbench.report.page.on_page import axis_switch, legend
from turnout.workbench.report.page.shell import copied, figures_or_why, page, paragraph, section
from turnout.workbench.report.page.table import Column, Table
from turnout.workbench.report.run.compared import Compared, compared, shown_metrics, styles_of
from turnout.workbench.report.run.error_split import ErrorSplit, error_splits
from turnout.workbench.report.run.run_charts import run_charts
from turnout.workbench.report.run.run_table import counts, results
from turnout.workbench.report.run.run_words import result

REPORT = "report.html"
LONGEST_FILE = 100_000  # letters of an experiment that are shown
MEMORY_NOTE = (
    "Weights are those given to fresh updates. Strategies with a memory use old updates as well; turnout audit tells "
    "their effective weights."
)
NOT_RECORDED = (
    f"How each client is served was not recorded: a task with test data does, if metrics has {TEST_ACCURACY}."
)


@dataclass(frozen=True)
class Source:
    """A run, and its folder as the user writes it."""

    folder: Path
    run: Run

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.absolute().name

    @classmethod
    def read(cls, folder: Path) -> Source:
        return cls(folder, load(folder))


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """One page from run folders; a file that is there already is replaced when the new one is whole."""
    if len({folder.absolute() for folder in folders}) < len(folders):
        raise ExperimentError("a run folder is named twice")
    text = report_page([Source.read(folder) for folder in folders])
    with whole_file(out) as draft:
        draft.write_text(text, encoding="utf-8")
    return out


def add_report(run: Run, work: Path, folder: Path) -> None:
    """The report of a run into the folder that is being written for it, and that will be this one."""
    (work / REPORT).write_text(report_page([Source(folder, run)]), encoding="utf-8")


def report_page(sources: Sequence[Source]) -> str:
    """The whole page."""
    points = compared([(source.name, source.run) for source in sources])
    origin = f"From {len(sources)} runs: {', '.join(source.name for source in sources)}." if len(sources) > 1 else ""
    return comparison_page(points, _splits(sources, points), origin, tuple(_circumstances(sources)))


def comparison_page(
    points: Compared,
    splits: Mapping[str, ErrorSplit] = MappingProxyType({}),
    origin: str = "",
    circumstances: tuple[str, ...] = (),
    progress: str = "",
) -> str:
    """The page about outcomes side by side; `origin` says where they are from, `circumstances` how to repeat them.

    With `progress`, the part that tells how far the run is, it is a live page.
    """
    charts, table = run_charts(points, dict(splits)), results(points)
    curves = [name for name in charts if name.startswith("curve-")]
    parts = [
        progress,
        _summary(points, origin),
        legend(styles_of(points)),
        section("Results", table.html(), paragraph([table.note], "small soft")),
        section("How well the models do", axis_switch(charts), figures_or_why(charts, *curves)),
        section("Who was there", figures_or_why(charts, "availability")),
        section(
            "Whom the models are trained for",
            figures_or_why(charts, "groups", "weights"),
            paragraph([MEMORY_NOTE], "small soft"),
        ),
        section(
            "Whom they serve",
            figures_or_why(charts, "clients", "staleness"),
            paragraph([] if "clients" in charts else [NOT_RECORDED], "small soft"),
        ),
        section("Optimisation or bias", figures_or_why(charts, "split")),
        *circumstances,
    ]
    return page(points.title or "Report", parts, charts, live=bool(progress))


def _splits(sources: Sequence[Source], points: Compared) -> dict[str, ErrorSplit]:
    """By the labels of the page, which come in the order of the runs."""
    by_run = [(source.run, error_splits(source.run)) for source in sources]
    splits = [of_run.get(outcome.label) for run, of_run in by_run for outcome in run.points]
    return {point.label: split for point, split in zip(points.points, splits, strict=True) if split is not None}


def _summary(points: Compared, origin: str) -> str:
    first, *more = result(points) or [_of_one(points)]
    clients = counts(point.target.shape[-1] for point in points.points)
    rounds = counts(point.history.rounds for point in points.points)
    size = f"{clients} clients, {rounds} rounds, {counts(len(point.history.seeds) for point in points.points)} seeds"
    return paragraph([first], "lead") + paragraph(more) + paragraph([f"{size}.", origin], "soft")


def _of_one(points: Compared) -> str:
    """The result of a single strategy."""
    metrics, point = shown_metrics(points), points.points[0]
    if not metrics:
        return "No metric was taken in all of these runs: what is left is who took part."
    final = metrics[0].spread(point.history.final(metrics[0].name))
    return f"{metrics[0].title}: {point.label} ends at {final}{' %' if metrics[0].percent else ''}."


def _circumstances(sources: Sequence[Source]) -> Iterator[str]:
    """How to repeat each run, and what to cite."""
    for number, source in enumerate(sources):
        text = source.run.toml
        if len(text) > LONGEST_FILE:
            text = f"{text[:LONGEST_FILE]}\n… the rest is in experiment.toml of the run folder"
        of = f": {source.name}" if len(sources) > 1 else ""
        command = shlex.join(["turnout", "run", str(source.folder / "experiment.toml")])
        yield section(
            f"How to get the same again{of}",
            copied(f"again-{number}", command),
            _facts(source),
            f"<details><summary>The whole experiment</summary>{copied(f'toml-{number}', text)}</details>",
        )
    documents = (source.run.experiment.document() for source in sources)
    entries = dict.fromkeys(entry for document in documents for entry in cite_document(document)[0])
    if entries:
        summary = f"BibTeX of {len(entries)} reference{'s' if len(entries) > 1 else ''}"
        bibtex = copied("bibtex", "\n\n".join(entries))
        yield section("Cite", f"<details><summary>{summary}</summary>{bibtex}</details>")


def _facts(source: Source) -> str:
    about = source.run.about
    device = about.get("device", {})
    versions = about.get("versions", {})
    facts = {
        "first run as": about.get("command"),
        "seeds": ", ".join(map(str, about.get("seeds", []))),
        "device": " ".join(str(device[key]) for key in ("count", "kind") if key in device),
        "platform": about.get("platform"),
        "seconds in all": about.get("seconds"),
        "commit": about.get("commit"),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items() if number),
    }
    stated = {name: str(value) for name, value in facts.items() if value}
    return Table((Column.of("what", stated), Column.of("which", stated.values(), words=True))).html()
