"""Verdicts on claims, as a table and in words."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, get_args

from turnout.statistics import LEVEL
from turnout.workbench.report.page.table import Cell, Column, Table
from turnout.workbench.reproduction.verdicts import Reproduction

COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "not run": "dim"}


def claims_table(results: list[dict[str, Any]]) -> Table:
    """One row per check, the first with the name of its claim; for a claim that was not run, the reason."""
    names, checks = [], []
    for result in results:
        why = {"says": result["title"], "paper": "", "ours": result.get("reason", ""), "verdict": "not run"}
        rows = result["checks"] or [why]
        names += [f"{result['name']}\n{result['profile']}", *[""] * (len(rows) - 1)]
        checks += rows
    claim = Column("claim", tuple(Cell(name, best=True) for name in names))
    ends = accumulate(max(1, len(result["checks"])) for result in results)
    columns = (claim, *checks_table(checks, "what it says").columns)
    return Table(columns, "Claims and what comes out here", sections=tuple(end - 1 for end in ends))


def checks_table(checks: list[dict[str, Any]], first: str) -> Table:
    """Checks of a claim: what each says, the paper's number, ours, and the verdict."""
    keys = {first: "says", "paper": "paper", "here": "ours"}
    columns = (Column.of(title, [check[key] for check in checks], words=True) for title, key in keys.items())
    verdicts = tuple(Cell(check["verdict"], colour=COLOURS.get(check["verdict"], "")) for check in checks)
    return Table((*columns, Column("verdict", verdicts, words=True)))


def claims_words(results: list[dict[str, Any]]) -> list[str]:
    """How many claims hold; for a single claim, its verdict and folder."""
    sentences = [count_verdicts(results)]
    if len(results) == 1 and "folder" in results[0]:
        (only,) = results
        sentences = [
            f"{only['claim']} {verdict_in_words(only)} ({only['seeds']} seeds, {only['seconds']:.0f} s).",
            *filter(None, [chances(only)]),
        ]
        sentences += [f"Note: {only['notes']}"] if only["notes"] else []
        sentences.append(f"Folder: {only['folder']}")
    return sentences


def count_verdicts(results: list[dict[str, Any]]) -> str:
    """How many claims there are of each verdict."""
    counts = {verdict: sum(result["verdict"] == verdict for result in results) for verdict in get_args(Reproduction)}
    by_verdict = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"Of {len(results)} claim{'s' if len(results) != 1 else ''}: {by_verdict}."


def verdict_in_words(result: dict[str, Any]) -> str:
    """The verdict on a claim with the steps in which it is so, as the beginning of a sentence."""
    return result.get("verdict_in_words", result["verdict"]).capitalize()


def chances(result: dict[str, Any]) -> str:
    """How many checks would be decided wrongly by chance alone; nothing for a single check."""
    decided = sum(check["verdict"] != "not run" for check in result["checks"])
    wrong = f"{(1 - LEVEL) * decided:.2g}"
    return (
        f"Of {decided} checks at {LEVEL:.0%}, {wrong} would be decided wrongly by chance alone." if decided > 1 else ""
    )
