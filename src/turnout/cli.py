"""The command `turnout`. Heavy imports wait until a command needs them, so that help is instant."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from turnout.diagnosis.diagnose import Diagnosis
    from turnout.experiment.run import Run

DEMO = "demo"
app = typer.Typer(
    name="turnout",
    help="Federated learning for fleets whose clients come and go.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the console script."""
    app()


def _version(wanted: bool) -> bool:
    if wanted:
        from turnout import __version__

        typer.echo(f"turnout {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _turnout(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Federated learning for fleets whose clients come and go."""


@app.command("run")
def run_command(
    experiment: Annotated[
        str, typer.Argument(metavar="[FILE.toml|NAME]", help="A TOML file, or the name of a shipped experiment.")
    ] = DEMO,
    rounds: Annotated[int | None, typer.Option(help="Rounds, instead of the experiment's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, instead of the experiment's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/<experiment>-<time> if not given.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as task.gamma=1.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the run folder and nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Simulate the strategies of an experiment and compare them; without an argument, a demo."""
    changes = [f"{name}={value}" for name, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    with _one_line_errors(debug):
        folder = out or Path("runs") / f"{_stem(experiment)}-{datetime.now():%Y%m%d-%H%M%S}"
        finished = _simulate(experiment, (*(settings or []), *changes), folder, show_progress=not quiet)
        if as_json:
            from turnout.report.words import summary

            typer.echo(json.dumps(summary(finished) | {"folder": str(folder)}, indent=2))
        elif quiet:
            typer.echo(str(folder))
        else:
            _print_result(finished, experiment, folder)


@app.command("diagnose")
def diagnose_command(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A participation log: CSV, JSON Lines or Parquet.")],
    slot: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Length of a slot, 600 s if not given; or of a round.")
    ] = None,
    clients: Annotated[
        str | None, typer.Option(metavar="FILE", help="All clients: client,size[,target]; those that never came, too.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds that were played, where nobody came to the last of them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page; runs/<log>-diagnosis-<time> if not given.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the folder and nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Tell from a participation log who comes when, and whom the model is trained for."""
    with _one_line_errors(debug):
        stem = Path(log).name.split(".")[0]
        folder = out or Path("runs") / f"{stem}-diagnosis-{datetime.now():%Y%m%d-%H%M%S}"
        found = _diagnose(log, slot, clients, rounds, folder, show_progress=not quiet)
        if as_json:
            from turnout.report.diagnosis_folder import numbers

            typer.echo(json.dumps({"folder": str(folder)} | numbers(found), indent=2))
        elif quiet:
            typer.echo(str(folder))
        else:
            _print_diagnosis(found, folder)


def _diagnose(
    log: str, slot: float | None, clients: str | None, rounds: int | None, folder: Path, show_progress: bool
) -> Diagnosis:
    """Read and diagnose a log, and leave the folder with its page."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not show_progress or not sys.stderr.isatty())
    with console.status("reading") as status:
        from turnout.diagnosis.diagnose import diagnose
        from turnout.experiment.store import free_folder

        free_folder(folder)
        found = diagnose(log, slot_seconds=slot, num_rounds=rounds, clients=clients, progress=status.update)
        status.update("writing")
        from turnout.report.diagnosis_folder import save

        save(found, folder)
    return found


def _print_diagnosis(found: Diagnosis, folder: Path) -> None:
    from rich.console import Console

    from turnout.report.diagnosis_tables import overview

    console = Console(highlight=False)
    console.print(overview(found))
    console.print(f"\nPage: {folder / 'diagnosis.html'}", markup=False, soft_wrap=True)
    console.print(f"Next: turnout run {folder / 'world.toml'}   (the fitted world)", markup=False, soft_wrap=True)


@app.command("list")
def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[strategies|availability|tasks|links|compute|facts|experiments]"),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Show what an experiment can name, with its parameters and their defaults."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from turnout.experiment import registry

    with _one_line_errors(debug):
        found = {each: registry.entries(each) for each in ([kind] if kind else registry.KINDS)}
        console = Console(highlight=False)
        for each, entries in found.items():
            table = Table.grid(padding=(0, 2))
            for entry in entries.values():
                about = Text(entry.summary)
                if entry.traits:
                    about.append("\n" + _traits(entry.traits))
                if entry.parameters:
                    about.append("\n" + ", ".join(entry.parameters), style="dim")
                table.add_row(Text(entry.name, style="bold", no_wrap=True), about)
            console.print(Text(each, style="bold underline"), table, "")


def _traits(traits: dict[str, Any]) -> str:
    """What a strategy must be told, what it costs the server and when it is right, in one line."""
    words = {"needs": ", ".join(traits["needs"]) or "nothing"} if "needs" in traits else {}
    words |= {"server memory": traits["server_memory"], "consistent": traits["consistent"]}
    return "; ".join(f"{name} {text}" for name, text in words.items() if text)


@app.command("cite")
def cite_command(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE.toml", help="A strategy, or an experiment.")],
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Print the BibTeX of a strategy, or of all strategies of an experiment."""
    with _one_line_errors(debug):
        from turnout.experiment.citations import cited

        found, unknown = cited(source)
        for name in unknown:
            typer.echo(f"no reference is known for {name}", err=True)
        typer.echo("\n\n".join(found))


def _stem(experiment: str) -> str:
    """Name for a run folder; a rerun of a run folder's own file keeps the name of the experiment."""
    path = Path(experiment)
    if path.name == "experiment.toml":
        return re.sub(r"-\d{8}-\d{6}$", "", path.absolute().parent.name)
    return path.stem


def _simulate(source: str, settings: tuple[str, ...], folder: Path, show_progress: bool) -> Run:
    """Check, build and run an experiment, and leave its run folder."""
    _import_from(Path.cwd(), Path(source).absolute().parent)
    from turnout.experiment.config import read_experiment
    from turnout.experiment.run import run
    from turnout.experiment.store import free_folder, save

    experiment = read_experiment(source, settings)
    free_folder(folder)
    with _progress_bar(show_progress) as progress:
        finished = run(experiment, progress=progress)
    from turnout.report.figures import write_figures

    save(finished, folder, extra=write_figures)
    return finished


def _import_from(*folders: Path) -> None:
    """Let `module:Class` name a module beside the experiment or in the present folder; what is installed wins."""
    for folder in folders:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


@contextmanager
def _progress_bar(wanted: bool) -> Iterator[Callable[[float], None] | None]:
    """A bar with the time left, on a terminal only; it leaves no trace."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("compiling", total=1.0)

        def report(share: float) -> None:
            bar.update(task, completed=share, description="training")

        yield report


def _print_result(finished: Run, source: str, folder: Path) -> None:
    from rich.console import Console

    from turnout.report.tables import results
    from turnout.report.words import result

    console = Console(highlight=False)
    console.print(results(finished))
    for sentence in result(finished):
        console.print(sentence, markup=False)
    console.print(f"\nRun folder: {folder}", markup=False, soft_wrap=True)
    console.print(f"Next: {_next_command(source, folder)}", markup=False, soft_wrap=True)


def _next_command(source: str, folder: Path) -> str:
    if source == DEMO:
        return "turnout run demo --set facts=online   (the server must estimate who is available how often)"
    return f"turnout run {folder / 'experiment.toml'} --seeds 20   (the same with more seeds)"


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """What the user can mend is one line and exit code 2; anything else says how to see more."""
    if debug or os.environ.get("TURNOUT_DEBUG") == "1":
        yield
        return
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        typer.echo("stopped: nothing was written", err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        from turnout.diagnosis.errors import LogError
        from turnout.experiment.errors import ExperimentError

        text = " ".join(str(error).split())
        if not isinstance(error, ExperimentError | LogError):
            text = f"{type(error).__name__}: {text} (--debug shows more)"
        typer.echo(f"error: {text}", err=True)
        raise typer.Exit(2) from None
