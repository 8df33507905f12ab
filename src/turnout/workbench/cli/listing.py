"""`turnout list` and `turnout cite`: what an experiment can name, and what to cite for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from turnout.workbench.cli import completion
from turnout.workbench.cli.command import Output, command

if TYPE_CHECKING:
    from turnout.workbench.experiment.registry import Entry


@command(quiet="Print the names and nothing else.")
def list_command(
    kind: Annotated[
        str | None,
        Argument(
            metavar="[strategies|availability|tasks|uploads|links|compute|durations|facts|paces|experiments|claims]",
            autocompletion=completion.kinds,
        ),
    ] = None,
    *,
    output: Output,
) -> None:
    """Show what an experiment can name, with its parameters and their defaults."""
    from turnout.workbench.experiment import registry

    by_kind = {name: registry.entries(name) for name in ([kind] if kind else registry.LISTED_KINDS)}
    shown = ("name", "summary", "parameters", "traits")  # the default of a parameter is null where one must be given
    tables = {
        name: [{key: getattr(entry, key) for key in shown} for entry in found.values()]
        for name, found in by_kind.items()
    }
    names = "\n".join(name for entries in by_kind.values() for name in entries)
    output.tell(names, lambda: tables, lambda: _print_entries(by_kind))


def _print_entries(by_kind: dict[str, dict[str, Entry]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for kind, entries in by_kind.items():
        table = Table.grid(padding=(0, 2))
        for entry in entries.values():
            about = Text(entry.summary)
            if entry.traits:
                about.append("\n" + _traits(entry.traits))
            if entry.parameters:
                defaults = (name if text is None else f"{name} = {text}" for name, text in entry.parameters.items())
                about.append("\n" + ", ".join(defaults), style="dim")
            table.add_row(Text(entry.name, style="bold", no_wrap=True), about)
        console.print(Text(kind, style="bold underline"), table, "")


def _traits(traits: dict[str, Any]) -> str:
    """What a strategy needs, its memory on the server and when it is consistent, in one line."""
    words = {"needs": ", ".join(traits["needs"]) or "nothing"} if "needs" in traits else {}
    words |= {"server memory": traits["server_memory"], "consistent": traits["consistent"]}
    return "; ".join(f"{name} {text}" for name, text in words.items() if text)


@command(quiet="Say nothing of strategies without a reference.")
def cite_command(
    source: Annotated[
        str, Argument(metavar="NAME|FILE.toml", help="A strategy, or an experiment.", autocompletion=completion.citable)
    ],
    *,
    output: Output,
) -> None:
    """Print the BibTeX of a strategy, or of all strategies of an experiment."""
    from turnout.workbench.experiment.citations import cite

    bibtex, unknown = cite(source)
    entries = "\n\n".join(bibtex)

    def print_entries() -> None:
        for name in unknown:
            typer.echo(f"no reference is known for {name}", err=True)
        typer.echo(entries)

    output.tell(entries, lambda: {"bibtex": bibtex, "unknown": unknown}, print_entries)
