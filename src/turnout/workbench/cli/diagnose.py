"""`turnout diagnose`: what a participation log says about a fleet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from turnout.errors import UserError
from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command, prepare_compilation
from turnout.workbench.cli.folders import new_folder
from turnout.workbench.cli.terminal import print_lines

if TYPE_CHECKING:
    from turnout.workbench.diagnosis.diagnose import Diagnosis


# Long: half of it are its options.
@command()
def diagnose_command(
    log: Annotated[
        str,
        Argument(
            metavar="LOG",
            help="A participation log: CSV, JSON Lines or Parquet; or the folder of a run on real nodes.",
            autocompletion=completion.logs,
        ),
    ],
    slot: Annotated[
        float | None, Option(metavar="SECONDS", help="Length of a slot, 600 s if not given; or of a round.")
    ] = None,
    clients: Annotated[
        str | None, Option(metavar="FILE", help="All clients: client,size[,target]; those that never came, too.")
    ] = None,
    rounds: Annotated[
        int | None, Option(help="Rounds that were played, where nobody came to the last of them.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option(metavar="COLUMN=NAME", help='Which column of the file is which, as client="Device ID"; repeat it.'),
    ] = None,
    zone: Annotated[
        str | None, Option(metavar="ZONE", help="Time zone of the hours told, as Europe/Paris; UTC if not given.")
    ] = None,
    shows: Annotated[
        str | None,
        Option(
            metavar="WHAT",
            help="availability: who is absent could not take part; participation: it may not have been asked; work or "
            "sessions: what starts and ends are those of. By the columns if not given.",
        ),
    ] = None,
    audit_rounds: Annotated[
        int, Option("--audit", metavar="ROUNDS", min=0, help="Length of the audit that ranks; 0: none.")
    ] = 4000,
    out: Annotated[Path | None, Option(help="Folder for the page; runs/<log>-diagnosis-<time> if not given.")] = None,
    *,
    output: Output,
) -> None:
    """Show from a participation log which clients come when, and which ones the model is trained for."""
    reading = {
        "slot_seconds": slot,
        "num_rounds": rounds,
        "clients": clients,
        "columns": _parse_columns(columns or []),
        "zone": zone,
        "shows": shows,
    }
    _check_columns(_log_file(log), reading["columns"], shows)
    folder = out or new_folder(f"{Path(log).name.split('.')[0]}-diagnosis")
    diagnosis = _diagnose(log, reading, audit_rounds, folder, show_progress=not output.quiet)
    from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_summary

    output.tell(
        folder,
        lambda: {"folder": str(folder)} | diagnosis_summary(diagnosis),
        lambda: _print_diagnosis(diagnosis, folder),
    )


def _check_columns(log: str, columns: dict[str, str], shows: str | None) -> None:
    """Refuse a file that is no log, before anything is imported that takes seconds."""
    from turnout.workbench.diagnosis.reading.columns import recognise_columns, shape_of
    from turnout.workbench.diagnosis.reading.table import open_table

    with open_table(log) as table:
        shape_of(table.path, table.header, recognise_columns(table.header, columns)[0], shows)


def _parse_columns(columns: list[str]) -> dict[str, str]:
    """COLUMN=NAME as a dict."""
    parts = (entry.partition("=") for entry in columns)
    named = {column.strip(): name for column, _, name in parts}
    for column, name in named.items():
        if not name:
            raise UserError(f'--columns {column}: must be COLUMN=NAME, such as client="Device ID"')
    return named


def _diagnose(log: str, reading: dict[str, Any], audit_rounds: int, folder: Path, show_progress: bool) -> Diagnosis:
    """Read and diagnose a log, and write the folder with its page; `reading`: the options of `turnout.read_log`."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not show_progress or not sys.stderr.isatty())
    with console.status("reading") as status:
        from turnout.declarations import MAX_COUNT
        from turnout.declarations.arrays import at_least
        from turnout.files.whole import free_folder
        from turnout.workbench.diagnosis.diagnose import diagnose

        at_least("audit", audit_rounds, 0, MAX_COUNT)
        free_folder(folder)
        prepare_compilation()
        diagnosis = diagnose(_log_file(log), rounds=audit_rounds, progress=status.update, **reading)
        status.update("writing")
        from turnout.workbench.report.diagnosis.diagnosis_page import save_diagnosis

        save_diagnosis(diagnosis, folder)
    return diagnosis


def _log_file(log: str) -> str:
    """The file of the log, which may be in the folder of a run on real nodes."""
    if not Path(log).is_dir():
        return log
    from turnout.workbench.experiment.store import LOG

    inside = Path(log) / LOG
    return str(inside) if inside.is_file() else log


def _print_diagnosis(diagnosis: Diagnosis, folder: Path) -> None:
    from turnout.workbench.report.diagnosis.advice import flower_line
    from turnout.workbench.report.diagnosis.diagnosis_page import overview

    ends = [f"\nPage: {folder / 'diagnosis.html'}", f"Next: turnout run {folder / 'world.toml'}   (the fitted world)"]
    if flower_line(diagnosis):
        ends.append(f"Flower: {flower_line(diagnosis)}")
    print_lines(overview(diagnosis), [], *ends)
