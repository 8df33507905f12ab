"""Commands and options that were mistyped, answered in one line as every other mistake."""

from __future__ import annotations

import re
import sys
from typing import Any

import click
import typer
from typer.core import TyperGroup


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
