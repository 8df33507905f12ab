"""`turnout plot`: run folders as figures for a paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from turnout.errors import UserError
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command
from turnout.workbench.cli.folders import run_folder

if TYPE_CHECKING:
    from turnout.workbench.report.page.chart import Look
    from turnout.workbench.report.run.compared import Points


# Long: half of it are its options.
@command(quiet="Print the file's path and nothing else.")
def plot_command(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN…", help="Run folders, as `turnout run` leaves them.", autocompletion=completion.runs),
    ],
    kind: Annotated[
        str,
        Argument(
            metavar="KIND",
            help="curves, at_work, ages, availability, weights, groups, clients or staleness; all: those of a paper.",
            autocompletion=completion.figures,
        ),
    ],
    form: Annotated[str | None, Option("--format", metavar="png|svg|pdf", help="By the file's ending, or pdf.")] = None,
    out: Annotated[
        Path | None, Option(help="The file, KIND.FORMAT if not given; of all figures the folder, figures.")
    ] = None,
    metric: Annotated[str | None, Option(help="Of curves: this one alone, such as test_accuracy.")] = None,
    size: Annotated[
        str | None, Option(metavar="WIDTHxHEIGHT", help="Of one panel, in points, such as 300x200.")
    ] = None,
    labels: Annotated[
        list[str] | None, Option("--label", metavar="OLD=NEW", help="Another name for a strategy.")
    ] = None,
    order: Annotated[str | None, Option(metavar="A,B,…", help="The strategies that come first.")] = None,
    x_range: Annotated[str | None, Option(metavar="LOW:HIGH", help="The part of the x axis to show.")] = None,
    y_range: Annotated[str | None, Option(metavar="LOW:HIGH", help="The part of the y axis to show.")] = None,
    log: Annotated[str, Option(metavar="x|y|xy", help="Axes with a logarithmic scale.")] = "",
    from_round: Annotated[int, Option(metavar="K", help="Draw rounds from this one on.")] = 0,
    over: Annotated[str, Option(metavar="KEY", help="Of curves: the x axis, such as round, hours, server_steps.")] = "",
    titled: Annotated[bool, Option("--titled", help="With a title, for a slide rather than a paper.")] = False,
    *,
    output: Output,
) -> None:
    """Draw a figure of one or several runs for a paper, or all figures that a paper usually has."""
    changes = {
        "size": _parse_size(size),
        "labels": dict(map(_parse_label, labels or [])),
        "order": tuple(label.strip() for label in order.split(",")) if order else (),
        "x_range": _parse_range("--x-range", x_range),
        "y_range": _parse_range("--y-range", y_range),
    }
    for run in runs:
        run_folder(run)
    from turnout.workbench.experiment.store import load
    from turnout.workbench.report.page.chart import Look
    from turnout.workbench.report.run.compared import join_runs
    from turnout.workbench.report.run.plots import ALL, for_paper, save_plot

    look = Look(**changes, log=log, from_round=from_round, over=over)
    points = join_runs([(run.absolute().name, load(run)) for run in runs])
    if kind == ALL and metric is not None:
        raise UserError("--metric: all figures have all metrics; leave it out, or choose curves")
    charts, reasons = _draw(points, kind, metric, look, out, form or "pdf")
    paths = [str(save_plot(chart if titled else for_paper(chart), file, form)) for file, chart in charts.items()]
    named = {"figures": paths} if kind == ALL else {"figure": paths[0]}
    lines = [*(f"Figure: {path}" for path in paths), *(f"Left out: {reason}" for reason in reasons)]
    output.tell(
        "\n".join(paths),
        lambda: named | {"kind": kind, "runs": [str(run) for run in runs]},
        lambda: typer.echo("\n".join(lines)),
    )


def _draw(
    points: Points, kind: str, metric: str | None, look: Look, out: Path | None, form: str
) -> tuple[dict[Path, Any], list[str]]:
    """The figures by their files, and why others are left out."""
    from turnout.workbench.report.run.plots import ALL, figure_set, plot

    if kind != ALL:
        return {out or Path(f"{kind}.{form}"): plot(points, kind, metric, look)}, []
    charts, reasons = figure_set(points, look)
    folder = out or Path("figures")
    folder.mkdir(parents=True, exist_ok=True)
    return {folder / f"{name}.{form}": chart for name, chart in charts.items()}, reasons


def _parse_size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+x\d+", text):
        raise UserError(f"--size {text}: must be WIDTHxHEIGHT in points, such as 300x200")
    width, height = text.split("x")
    return int(width), int(height)


def _parse_range(option: str, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise UserError(f"{option} {text}: must be LOW:HIGH, such as 0:100") from None
    return low, high


def _parse_label(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise UserError(f"--label {text}: must be OLD=NEW, such as FedAvg=Baseline")
    return old, new
