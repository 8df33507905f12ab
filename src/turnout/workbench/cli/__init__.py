"""The command `turnout`. Heavy imports wait until a command needs them, so that help is instant."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from turnout.workbench.cli.audit import audit_command
from turnout.workbench.cli.benchmark import benchmark_command
from turnout.workbench.cli.choose import choose_command
from turnout.workbench.cli.diagnose import diagnose_command
from turnout.workbench.cli.listing import cite_command, list_command
from turnout.workbench.cli.new import new_command
from turnout.workbench.cli.plot import plot_command
from turnout.workbench.cli.report import report_command
from turnout.workbench.cli.reproduce import reproduce_command
from turnout.workbench.cli.run import run_command
from turnout.workbench.cli.stopping import INTERRUPTED, TERMINATED, end_when_asked, leave
from turnout.workbench.cli.terminal import OneLineGroup
from turnout.workbench.cli.tune import tune_command
from turnout.workbench.cli.verify import verify_command

COMMANDS = {  # in the order of the help
    "run": run_command,
    "tune": tune_command,
    "audit": audit_command,
    "diagnose": diagnose_command,
    "report": report_command,
    "plot": plot_command,
    "reproduce": reproduce_command,
    "benchmark": benchmark_command,
    "verify": verify_command,
    "new": new_command,
    "choose": choose_command,
    "list": list_command,
    "cite": cite_command,
}
app = typer.Typer(
    name="turnout",
    cls=OneLineGroup,
    help="Federated learning for fleets whose clients come and go.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        from turnout import __version__

        typer.echo(f"turnout {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _turnout(
    version: Annotated[
        bool, Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Federated learning for fleets whose clients come and go."""


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def main() -> None:
    """Entry point of the console script."""
    end_when_asked()
    try:
        app(prog_name="turnout")
    except KeyboardInterrupt:  # before a command had begun, or while the last one was cleaning up
        leave(INTERRUPTED)
    except SystemExit as ended:
        if ended.code in (INTERRUPTED, TERMINATED):
            leave(ended.code)
        raise
