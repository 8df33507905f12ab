"""What the terminal shows while a command runs, when it is done, when it fails, and when it was mistyped."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import click
import typer
from typer.core import TyperGroup

from turnout.errors import frames, is_mistake, package_of
from turnout.metrics import TRAIN_LOSS, metric_named
from turnout.workbench.cli.stopping import INTERRUPTED, NOTHING_LEFT, TERMINATED, Terminated, say_stopped

# Exit codes.
CRASH = 1
MISTAKE = 2  # of the user; what typer itself says of a wrong option has the same code

PACKAGE = Path(__file__).parents[2]


class Bar:
    """A bar with the time left, and the newest value of a metric; call it with the share that is done."""

    def __init__(self, bar: Any, doing: str) -> None:
        self._bar, self._doing = bar, doing
        self._task = bar.add_task("compiling", total=1.0, latest="")

    def __call__(self, share: float) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=share, description=self._doing)

    def watch(self, latest: dict[str, float]) -> None:
        """Show the training loss, or another metric without it."""
        name = TRAIN_LOSS if TRAIN_LOSS in latest else next(iter(sorted(latest)), None)
        if name is not None:
            self._bar.update(self._task, latest=f"{metric_named(name).words} {latest[name]:.3g}")


@contextmanager
def progress_bar(wanted: bool, doing: str = "training") -> Iterator[Bar | None]:
    """A bar on a terminal, nothing elsewhere; it disappears at the end."""
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
    """Print a table, sentences about it, and lines that a terminal must not break, such as paths."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(table, crop=False)
    for sentence in sentences:
        console.print(sentence, markup=False)
    for line in last:
        console.print(line, markup=False, soft_wrap=True)


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Print a mistake of the user in one line, with exit code 2; a crash also says where, with exit code 1."""
    try:
        yield
    except (typer.Exit, BrokenPipeError):  # a reader that went away, as `head` does, is no error
        raise
    except KeyboardInterrupt as stop:
        say_stopped("; ".join(_notes(stop)) or NOTHING_LEFT)
        raise typer.Exit(TERMINATED if isinstance(stop, Terminated) else INTERRUPTED) from None
    except Exception as error:
        mistake = is_mistake(error)
        if debug or os.environ.get("TURNOUT_DEBUG") == "1":
            traceback.print_exc()
        else:
            typer.echo("\n".join([f"error: {_mistake(error) if mistake else _crash(error)}", *_notes(error)]), err=True)
        raise typer.Exit(MISTAKE if mistake else CRASH) from None


def _notes(error: BaseException) -> list[str]:
    """What is to be said beside an error, such as how to go on."""
    return getattr(error, "__notes__", [])


def _mistake(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split())


def _crash(error: Exception) -> str:
    """The error, and in a second line its place: the innermost call, and the last one within turnout before it."""
    calls = frames(error)
    inside = [call for call in calls if package_of(call) == PACKAGE.name]
    places = dict.fromkeys(_place(call) for call in (calls[-1], inside[-1]))
    where = f"at {', called at '.join(places)} (--debug shows the whole traceback)"
    return f"{type(error).__name__}: {' '.join(str(error).split())}\n  {where}"


def _place(call: TracebackType) -> str:
    path = Path(call.tb_frame.f_code.co_filename)
    shown = path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path
    return f"{shown}:{call.tb_lineno}"


class OneLineGroup(TyperGroup):
    """A group of commands that says in one line what is wrong with a call, and where to look."""

    def main(self, *given: Any, standalone_mode: bool = True, **named: Any) -> Any:
        """Run the command that was called."""
        if not standalone_mode:
            return super().main(*given, standalone_mode=False, **named)
        try:
            code = super().main(*given, standalone_mode=False, **named)
        except click.UsageError as error:
            _say(error)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _say(error: click.UsageError) -> None:
    context = error.ctx
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":  # a class that older versions do not have
        typer.echo(context.get_help(), err=True)
        return
    path = "turnout" if context is None else context.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    message = re.sub(r"(Did you mean [^?]*\?)( \1)+", r"\1", message)  # typer and click both ask
    typer.echo(f"error: {message}{'' if message.endswith('?') else ':'} see {path} -h", err=True)
