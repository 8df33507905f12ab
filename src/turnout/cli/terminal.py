"""What the terminal shows while a command runs, when it is done, and when it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from turnout.metrics import TRAIN_LOSS, metric_named

INTERRUPTED = 130  # the shell's code for a program that was stopped by Ctrl-C


class Bar:
    """A bar with the time left, and what the metrics have come to; call it with the share that is done."""

    def __init__(self, bar: Any, doing: str) -> None:
        self._bar, self._doing = bar, doing
        self._task = bar.add_task("compiling", total=1.0, latest="")

    def __call__(self, share: float) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=share, description=self._doing)

    def watch(self, latest: dict[str, float]) -> None:
        """Show the training loss, or what else there is."""
        name = TRAIN_LOSS if TRAIN_LOSS in latest else next(iter(sorted(latest)), None)
        if name is not None:
            self._bar.update(self._task, latest=f"{metric_named(name).words} {latest[name]:.3g}")


@contextmanager
def progress_bar(wanted: bool, doing: str = "training") -> Iterator[Bar | None]:
    """A bar on a terminal, nothing elsewhere; it leaves no trace."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield None
        return
    words = TextColumn("{task.description}"), TextColumn("{task.fields[latest]}", style="dim")
    columns = (SpinnerColumn(), words[0], BarColumn(), TimeRemainingColumn(), words[1])
    with Progress(*columns, console=console, transient=True) as bar:
        yield Bar(bar, doing)


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
    from turnout.diagnosis.reading.errors import LogError
    from turnout.experiment.errors import ExperimentError

    text = " ".join(str(error).split())
    if isinstance(error, ExperimentError | LogError):
        return text
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return f"{type(error).__name__}: {text} (--debug shows more)"
