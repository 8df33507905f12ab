"""Verdicts on claims, as a table, in words, and as a page of stored results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from turnout.statistics import LEVEL
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.report.claims.claim_figure import source
from turnout.workbench.report.page.table import Cell, Column, Table, markdown_text
from turnout.workbench.reproduction.curve_table import CURVES
from turnout.workbench.reproduction.stored import read_result, reproductions
from turnout.workbench.reproduction.verdicts import ASIDE, Reproduction

COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "not run": "dim"}
Result = dict[str, Any]

FILES = ("claim.toml", CURVES, "tuning.csv", "result.json")
PROFILES = ("full", "quick")  # the first that exists is shown
OVERVIEW = ("claim", "what it says", "file", "paper", "here", "verdict")
BEYOND = "Beyond the papers"
CONCLUDE = (
    "*Not reproduced* is not *false*. It says that the statement did not come out of our code, in the settings named "
    "below. Papers leave things open, and one of these may decide. What you may conclude: how strategies compare in "
    "exactly these settings, within the intervals. What you may not: that the authors did not get their numbers. Where "
    "a panel has a step, it is one of three: the settings of the authors' *public code*; the paper's text with its "
    "*printed* rates; *equal tuning*, the same grid of rates for all strategies, chosen on validation data. Panels "
    "*aside* try what may decide, and do not enter the verdict."
)
SHORT = 70  # letters of a number that still fits the overview


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


def claims_page(folder: Path, beside: Path) -> str:
    """Markdown of all results in a folder `<quick or full>/<claim>`, with links from the page's own folder.

    An overview, one row per claim, and then a section for each with its checks and its figure. Of a claim that was
    run in both sizes the full one is shown.
    """
    results = stored_results(folder)
    lines = [
        "# Claims, and what comes out here",
        "",
        "Written by `turnout reproduce --page` from stored results, and not by hand. "
        "[What the words mean](../docs/reproduce.md).",
        "",
        count_verdicts([result for _, result in results]),
        "",
        CONCLUDE,
        "",
        *_overview([(result, _link(place, beside)) for place, result in results]).markdown(),
    ]
    heading = ""
    for place, result in results:
        if _heading(result) != heading:
            heading = _heading(result)
            lines += ["", f"## {heading}"]
        lines += ["", _section(result, place, _link(place, beside))]
    return "\n".join(lines) + "\n"


def stored_results(folder: Path) -> list[tuple[Path, Result]]:
    """The folder and the result of every claim, sorted by paper, then by name; claims of our own come last.

    A claim comes before its panels that were run alone, since their folders have longer names.
    """
    by_name: dict[str, tuple[Path, Result]] = {}
    for profile in PROFILES:
        for place in reproductions(folder / profile, "*"):
            result = read_result(place)
            by_name.setdefault(result["name"], (place, result))
    if not by_name:
        raise ExperimentError(f"{folder}: holds no result of a reproduction, as {folder / 'quick' / 'NAME'} would be")
    return sorted(by_name.values(), key=lambda item: (not item[1]["paper"], _heading(item[1]), item[1]["name"]))


def _heading(result: Result) -> str:
    return source({"paper": result["paper"]}) or BEYOND


def _overview(results: Sequence[tuple[Result, str]]) -> Table:
    """One row per claim, with the link to its folder."""
    columns = zip(*(_row(result, link) for result, link in results), strict=True)
    return Table(tuple(Column.of(title, texts) for title, texts in zip(OVERVIEW, columns, strict=True)))


def _row(result: Result, link: str) -> Iterator[str]:
    """One row of the overview, with a check that has a number of the paper if there is one."""
    short = [check for check in result["checks"] if len(check["ours"]) <= SHORT and len(check["paper"]) <= SHORT]
    steps = ("printed", "tuned", "", "public code", ASIDE)  # the first that there is says most
    short.sort(
        key=lambda check: (not check["paper"], check["paper"].startswith("±"), steps.index(check.get("step", "")))
    )
    shown = short[0] if short else {"paper": "", "ours": "see below"}
    entering = [check for check in result["checks"] if check.get("step") != ASIDE]
    held, in_all = sum(check["verdict"] == "holds" for check in entering), len(entering)
    yield f"[{result['name']}](#{result['name']})"
    yield result["title"]
    yield f"[{result['profile']}]({link}/claim.toml)"
    yield shown["paper"]
    yield shown["ours"]
    yield result.get("verdict_in_words", result["verdict"]) + (f" ({held} of {in_all})" if in_all > 1 else "")


def _section(result: Result, place: Path, link: str) -> str:
    has_figure = (place / "figure.png").is_file()
    skipped = (f"Not run: {panel} ({reason})." for panel, reason in result.get("skipped", {}).items())
    files = [f"[{file}]({link}/{file})" for file in FILES if (place / file).is_file()]
    at_edge = result.get("at_edge", {}).items()
    edges = [f"{', '.join(labels)}{f' in {panel}' if panel else ''}" for panel, labels in at_edge]
    details = (
        "\n".join(checks_table(result["checks"], "check").markdown()),
        " ".join(filter(None, (_interval(result), chances(result)))),
        result.get("notes", ""),
        " ".join(skipped),
        f"Best at the edge of the grid of rates: {'; '.join(edges)}." if edges else "",
        f"`{result['command']}`: {_circumstances(result)} Files: {', '.join(files)}.",
    )
    parts = (
        f'<a id="{result["name"]}"></a>',
        f"### {result['title']}",
        f"{source(result)}. {result['claim']}",
        " ".join(filter(None, (f"**{verdict_in_words(result)}.**", result.get("summary", "")))),
        f"To the authors: {result['authors']}" if result.get("authors") else "",
        f"![{markdown_text(result['title'])}]({link}/figure.png)" if has_figure else "",
        "<details><summary>Checks, notes and files</summary>",
        *details,
        "</details>",
    )
    return "\n\n".join(filter(None, parts))


def _interval(result: Result) -> str:
    """What the intervals of a claim cover."""
    if drawn := result.get("drawn", []):
        return f"Intervals are over {result['seeds']} seeds, each with its own {' and '.join(drawn)}."
    return f"Intervals are over {result['seeds']} seeds on the same data." if result["seeds"] > 1 else ""


def _circumstances(result: Result) -> str:
    device, seeds = result.get("device", {}).get("kind", ""), result["seeds"]
    versions = result.get("versions", {})
    parts = [f"{seeds} seed{'s' if seeds != 1 else ''}", f"{result['seconds']:.0f} s", device]
    parts += [f"{name} {versions[name]}" for name in ("turnout", "jax") if versions.get(name)]
    parts.append(f"commit {result['commit'][:10]}" if result.get("commit") else "")
    return ", ".join(part for part in parts if part) + "."


def _link(place: Path, beside: Path) -> str:
    return quote(Path(os.path.relpath(place, beside)).as_posix())
