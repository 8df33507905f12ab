"""What the terminal shows while a command runs, when it is done, and when it fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

INTERRUPTED = 130  # the shell's code for a program that was stopped by Ctrl-C


@contextmanager
def progress_bar(wanted: bool, doing: str = "training") -> Iterator[Callable[[float], None] | None]:
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
            bar.update(task, completed=share, description=doing)

        yield report


def print_lines(table: Any, sentences: list[str], *last: str) -> None:
    """A table, what it means, and lines that a terminal must not break, such as paths."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(table)
    for sentence in sentences:
        console.print(sentence, markup=False)
    for line in last:
        console.print(line, markup=False, soft_wrap=True)


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """What the user can mend is one line and exit code 2; anything else says how to see more."""
    if debug or os.environ.get("TURNOUT_DEBUG") == "1":
        yield
        return
    try:
        yield
    except (typer.Exit, BrokenPipeError):  # a reader that went away, as `head` does, is no error
        raise
    except KeyboardInterrupt:
        typer.echo("stopped: nothing half-done is left", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        typer.echo(f"error: {_in_one_line(error)}", err=True)
        raise typer.Exit(2) from None


def _in_one_line(error: Exception) -> str:
    from turnout.diagnosis.errors import LogError
    from turnout.experiment.errors import ExperimentError

    text = " ".join(str(error).split())
    if isinstance(error, ExperimentError | LogError):
        return text
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return f"{type(error).__name__}: {text} (--debug shows more)"
