"""`turnout list` and `turnout cite`: what there is to name, and whom to cite for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from turnout.cli.options import Debug
from turnout.cli.terminal import one_line_errors


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[strategies|availability|tasks|links|compute|facts|experiments|claims]"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show what an experiment can name, with its parameters and their defaults."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from turnout.experiment import registry

    with one_line_errors(debug):
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


def cite_command(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE.toml", help="A strategy, or an experiment.")],
    debug: Debug = False,
) -> None:
    """Print the BibTeX of a strategy, or of all strategies of an experiment."""
    with one_line_errors(debug):
        from turnout.experiment.citations import cited

        found, unknown = cited(source)
        for name in unknown:
            typer.echo(f"no reference is known for {name}", err=True)
        typer.echo("\n\n".join(found))
