"""What all commands have in common: three options, mistakes told in one line, results in three forms, compilation."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer import Option

from turnout.workbench.cli.terminal import one_line_errors


@dataclass(frozen=True)
class Output:
    """In which form a command tells its result: in words, as one line for a script, or as JSON."""

    quiet: bool
    as_json: bool

    def tell(self, line: Any, numbers: Callable[[], Any], words: Callable[[], Any]) -> None:
        """Print the line if nothing else is wanted (None: not even that), the numbers as JSON, or call for words."""
        if self.as_json:
            typer.echo(json.dumps(numbers(), indent=2, ensure_ascii=False))
        elif not self.quiet:
            words()
        elif line is not None:
            typer.echo(str(line))


def command(quiet: str = "Print the folder and nothing else.") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command from a function whose last argument is its `output`: with the options -q, --json and --debug."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(function, include_extras=True)
        *own, _ = inspect.signature(function).parameters.values()
        shared = {
            "quiet": Annotated[bool, Option("--quiet", "-q", help=quiet)],
            "as_json": Annotated[bool, Option("--json", help="Print all numbers as JSON.")],
            "debug": Annotated[bool, Option("--debug", help="Show the whole traceback of an error.")],
        }

        @functools.wraps(function)
        def run(*, quiet: bool, as_json: bool, debug: bool, **given: Any) -> None:
            with one_line_errors(debug):
                function(**given, output=Output(quiet, as_json))

        run.__annotations__ = {parameter.name: hints[parameter.name] for parameter in own} | shared
        added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False) for name in shared]
        parameters = [
            parameter.replace(annotation=run.__annotations__[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in (*own, *added)
        ]
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        return run

    return decorate


def prepare_compilation() -> None:
    """Keep programs on disk for the next command, and few of them in memory, as `reproduce --all` makes hundreds."""
    from turnout.simulator.programs import keep_few_programs, use_compilation_cache

    use_compilation_cache()
    keep_few_programs()
