"""`--log-to`: a finished run told to an experiment tracker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turnout.errors import UserError, nearest

if TYPE_CHECKING:
    from turnout.workbench.experiment.run import Run

TRACKERS = ("mlflow", "wandb", "tensorboard")


def check_log(tracker: str | None) -> None:
    """Refuse a tracker that there is not, or whose library is not installed, before anything is begun."""
    if tracker is None:
        return
    if tracker not in TRACKERS:
        raise UserError(f"--log-to {tracker}: there is no such tracker: {nearest(tracker, TRACKERS)}")
    from turnout.workbench.report.tracking import import_tracker

    import_tracker(tracker)


def log_run(tracker: str | None, run: Run, folder: Path) -> None:
    """Tell a tracker of a run, if one was named, and say where it is; standard output is the command's own."""
    if tracker is not None:
        from turnout.workbench.report.tracking import log_to

        typer.echo(log_to(tracker, run, folder), err=True)
