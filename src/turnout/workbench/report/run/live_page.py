"""The page of a run that goes on: how far it is, and the report of the strategies that are finished."""

from __future__ import annotations

from pathlib import Path

from turnout.metrics import metric_named
from turnout.workbench.experiment.standing import Standing
from turnout.workbench.report.diagnosis.readable import duration, percent
from turnout.workbench.report.page.shell import page, paragraph, progress
from turnout.workbench.report.run.compared import Compared, relabel_points
from turnout.workbench.report.run.run_page import REPORT, RunReport, Source

NOTHING_YET = "No strategy is finished yet: each appears here with its curves as soon as it is."


def version(standing: Standing) -> str:
    """Changes when the page has something else to show than progress."""
    return f"{standing.state} {len(standing.outcomes)}"


def words(standing: Standing, folder: Path) -> str:
    """How far the run is, in a sentence."""
    if standing.state == "stopped":
        return f"Stopped at {percent(standing.share)}: go on with turnout run --resume {folder}"
    if standing.state == "finished":
        return "The run is finished."
    left = "the time left is not known yet"
    if standing.left is not None:
        left = f"about {duration(max(standing.left, 2.0), '.0f')} left"
    values = [
        f"{metric_named(name).words} {value:.3g}"
        for name, value in sorted(standing.latest.items())
        if value is not None
    ]
    newest = f" Newest values: {', '.join(values)}." if values else ""
    return f"{percent(standing.share)} done, {left}.{newest}"


def live_page(standing: Standing, folder: Path) -> str:
    """The whole page; of a finished run, its report."""
    if standing.state == "finished":
        report = folder / REPORT
        return (
            report.read_text(encoding="utf-8") if report.is_file() else RunReport.of_runs([Source.read(folder)]).page()
        )
    title = standing.title or folder.absolute().name
    top = progress(standing.share, words(standing, folder), version(standing))
    if not standing.outcomes:
        return page(title, [top, paragraph([NOTHING_YET], "soft")], {}, live=True)
    so_far = f"Of the {len(standing.outcomes)} that are finished so far."
    return RunReport(relabel_points(Compared(title, standing.outcomes)), origin=so_far).page(top)
