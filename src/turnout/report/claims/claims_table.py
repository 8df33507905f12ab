"""What claims came to, for a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

COLOURS = {"holds": "green", "does not hold": "red", "holds in part": "yellow", "undecided": "yellow", "not run": "dim"}
MANY = {"holds": "hold", "does not hold": "do not hold", "holds in part": "hold in part"}


def claims_table(results: list[dict[str, Any]]) -> Table:
    """One row a check under the name of its claim."""
    table = Table("claim", "what it says", "paper", "here", "verdict", title="Claims and what comes out here")
    for result in results:
        name = Text(f"{result['name']}\n{result['profile']}", style="bold")
        if not result["checks"]:
            table.add_row(name, result["title"], "", result.get("reason", ""), _verdict("not run"))
        for number, check in enumerate(result["checks"]):
            first = name if number == 0 else ""
            table.add_row(first, check["says"], check["paper"], check["ours"], _verdict(check["verdict"]))
        table.add_section()
    return table


def claims_words(results: list[dict[str, Any]]) -> list[str]:
    """How many claims hold, and where the one folder is."""
    said = [counted(results)]
    if len(results) == 1 and "folder" in results[0]:
        (only,) = results
        said = [f"{only['claim']} {only['verdict'].capitalize()} here ({only['seeds']} runs, {only['seconds']:.0f} s)."]
        said += [f"Note: {only['notes']}"] if only["notes"] else []
        said.append(f"Folder: {only['folder']}")
    return said


def counted(results: list[dict[str, Any]]) -> str:
    """How many claims there are of each verdict."""
    counts = {verdict: sum(result["verdict"] == verdict for result in results) for verdict in COLOURS}
    told = ", ".join(
        f"{count} {verdict if count == 1 else MANY.get(verdict, verdict)}" for verdict, count in counts.items() if count
    )
    return f"Of {len(results)} claim{'s' if len(results) != 1 else ''}: {told}."


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=COLOURS[verdict])
