"""The report of one run or of several, as one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.declarations import checked
from turnout.files.whole import whole_file
from turnout.metrics import DISTANCE, TEST_ACCURACY
from turnout.workbench.experiment.citations import cite_document
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.run import Run
from turnout.workbench.experiment.store import load
from turnout.workbench.report.page.chart import Chart, Drawing
from turnout.workbench.report.page.on_paper import PIXELS
from turnout.workbench.report.page.shell import (
    axis_switch,
    copyable,
    figures,
    figures_or_why,
    legend,
    page,
    paragraph,
    section,
)
from turnout.workbench.report.page.table import Column, Table
from turnout.workbench.report.run.compared import Compared, join_runs, shown_metrics, styles_of
from turnout.workbench.report.run.curves import ErrorSplit, error_splits, with_floors
from turnout.workbench.report.run.in_time import length_of
from turnout.workbench.report.run.plots import draw_alone, draw_curves
from turnout.workbench.report.run.run_charts import CURVE, curve_charts, fleet_charts, split_chart
from turnout.workbench.report.run.run_table import counts, run_table, run_words

if TYPE_CHECKING:
    import altair as alt

REPORT = "report.html"
DISTANCE_CURVE = f"{CURVE}{DISTANCE}"
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


@dataclass(frozen=True)
class RunReport:
    """What is shown of outcomes side by side, for the page, the figures and the terminal: each part is made once."""

    points: Compared  # with the labels that readers see
    sources: tuple[Source, ...] = ()  # the runs that they are from, where there are folders
    origin: str = ""  # where they are from, in words

    @classmethod
    def of_runs(cls, sources: Sequence[Source]) -> RunReport:
        """The outcomes of all runs in one report."""
        names = [source.name for source in sources]
        points = join_runs([(source.name, source.run) for source in sources])
        return cls(points, tuple(sources), f"From {len(names)} runs: {', '.join(names)}." if len(names) > 1 else "")

    @cached_property
    def table(self) -> Table:
        """Final metrics and costs of every strategy."""
        return run_table(self.points)

    @cached_property
    def words(self) -> list[str]:
        """The result in sentences; none for a single strategy."""
        return run_words(self.points)

    @cached_property
    def curves(self) -> dict[str, Chart]:
        """Learning curves by name."""
        return curve_charts(self.points)

    @cached_property
    def charts(self) -> dict[str, Drawing]:
        """The charts of clients and groups by name."""
        return fleet_charts(self.points)

    @cached_property
    def splits(self) -> dict[str, ErrorSplit]:
        """The error in its parts, by label; the labels of the report come in the order of the runs."""
        by_run = [(source.run, error_splits(source.run)) for source in self.sources]
        splits = [of_run.get(outcome.label) for run, of_run in by_run for outcome in run.points]
        pairs = zip(self.points.points, splits, strict=False)  # without sources there are no splits
        return {point.label: split for point, split in pairs if split is not None}

    def figures(self) -> dict[str, alt.TopLevelMixin]:
        """The two main figures by name; no learning curves where no metric was taken."""
        learning = {"learning": draw_curves(self.points, self.curves)} if self.curves else {}
        return learning | {"attention": draw_alone(self.points, self.charts["groups"])}

    def write(self, work: Path) -> None:
        """The page and the two main figures, as files of a run folder."""
        for name, chart in self.figures().items():
            chart.save(work / f"{name}.png", scale_factor=PIXELS)
        (work / REPORT).write_text(self.page(), encoding="utf-8")

    def page(self, progress: str = "") -> str:
        """The whole page; with `progress`, the part that tells how far the run is, it is a live page."""
        charts = {**self.curves, **self.charts}
        if self.splits:
            charts["split"] = split_chart(self.points, self.splits)
            charts[DISTANCE_CURVE] = with_floors(self.curves[DISTANCE_CURVE], self.splits)
        parts = [progress, self._summary(), legend(styles_of(self.points)), *_sections(self.table, charts)]
        return page(self.points.title or "Report", [*parts, *_circumstances(self.sources)], charts, live=bool(progress))

    def _summary(self) -> str:
        points = self.points.points
        first, *more = self.words or [_result_of_one(self.points)]
        clients, seeds = counts(p.target.shape[-1] for p in points), counts(len(p.history.seeds) for p in points)
        size = f"{clients} clients, {length_of(self.points)}, {seeds} seeds"
        return paragraph([first], "lead") + paragraph(more) + paragraph([f"{size}.", self.origin], "soft")


@checked
def write_report(folders: Sequence[str | Path], out: str | Path) -> Path:
    """One page from run folders; a file that is there already is replaced when the new one is whole."""
    named, page = [Path(folder) for folder in folders], Path(out)
    if not named:
        raise ExperimentError("there is no run folder: give one or more")
    if len({folder.absolute() for folder in named}) < len(named):
        raise ExperimentError("a run folder is named twice")
    text = RunReport.of_runs([Source.read(folder) for folder in named]).page()
    with whole_file(page) as draft:
        draft.write_text(text, encoding="utf-8")
    return page


def _sections(table: Table, charts: Mapping[str, Drawing]) -> Iterator[str]:
    """Results and charts."""
    yield section("Results", table.html(), paragraph([table.note], "small soft"))
    curves = [name for name in charts if name.startswith(CURVE)]
    yield section("How well the models do", axis_switch(charts), figures_or_why(charts, *curves))
    if in_time := figures(charts, "at_work", "ages"):
        yield section("Time", in_time)
    yield section("Who was there", figures_or_why(charts, "availability"))
    trained_for = figures_or_why(charts, "groups", "weights")
    yield section("Whom the models are trained for", trained_for, paragraph([MEMORY_NOTE], "small soft"))
    served = figures_or_why(charts, "clients", "staleness")
    yield section("Whom they serve", served, paragraph([] if "clients" in charts else [NOT_RECORDED], "small soft"))
    yield section("Optimisation or bias", figures_or_why(charts, "split"))


def _result_of_one(points: Compared) -> str:
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
            copyable(f"again-{number}", command),
            _facts(source),
            f"<details><summary>The whole experiment</summary>{copyable(f'toml-{number}', text)}</details>",
        )
    documents = (source.run.experiment.document() for source in sources)
    entries = dict.fromkeys(entry for document in documents for entry in cite_document(document)[0])
    if entries:
        summary = f"BibTeX of {len(entries)} reference{'s' if len(entries) > 1 else ''}"
        bibtex = copyable("bibtex", "\n\n".join(entries))
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
