"""What each key of a claim may hold, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from turnout.errors import nearest
from turnout.metrics import COSTS
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.signatures import accepts, describe, expect, function_and_arguments
from turnout.workbench.reproduction.checks import check_and_arguments
from turnout.workbench.reproduction.measures import MEASURES

TEXTS = ("title", "paper", "where", "claim", "summary", "notes", "authors")
TABLES = ("experiment", "panels", "figure")
OF_CLIENTS = ("weight", "asked", "available", "arrived", "stalest")
STEP = "step"  # key of a panel: the setting in which it is run
HINTS = dict.fromkeys((*TEXTS, "name", "same_runs_as"), str) | {
    "profile": Literal["quick", "full"],
    "exact": bool,
    "format": Literal[2],
    "changed": list[str],
    "clients": list[str],
    "costs": list[str],
}
OF_SEARCH = {"metric": str, "keep": list[str], "seeds": list[int], "rounds": int}


def check_types(document: Mapping[str, Any]) -> None:
    """Refuse values of another kind than their key holds; keys that are not there are not missed."""
    _check(document, HINTS, "")
    for key in TABLES:
        expect(isinstance(document.get(key, {}), dict), document.get(key), key, "a table")
    for name, panel in document.get("panels", {}).items():
        expect(isinstance(panel, dict), panel, f"panels.{name}", "a table")
        _check(panel, {STEP: str}, f"panels.{name}.")
    if isinstance(search := document.get("tuning"), dict):
        _check(search, OF_SEARCH, "tuning.")


def _check(table: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> None:
    for key, hint in hints.items():
        if key in table:
            expect(accepts(hint, table[key]), table[key], f"{where}{key}", describe(hint))


def check_names(document: Mapping[str, Any]) -> None:
    """Check that lists hold only existing names."""
    for key, names in (("clients", OF_CLIENTS), ("costs", [record.name for record in COSTS])):
        for name in document.get(key, []):
            if name not in names:
                raise ExperimentError(f"{key}: there is no {name!r}: {nearest(name, names)}")


def check_checks(checks: Any, alone: bool) -> None:
    """Check the arguments of every check and measure; only panels that run `alone` may have none."""
    expect(isinstance(checks, list) and (checks != [] or alone), checks, "checks", "a list of one table or more")
    for number, check in enumerate(checks):
        _, arguments = check_and_arguments(check, number)
        if "measure" in arguments:
            function_and_arguments(MEASURES, arguments["measure"], f"checks[{number}].measure", ("entry",))
        for place, measure in enumerate(arguments.get("measures", [])):
            function_and_arguments(MEASURES, measure, f"checks[{number}].measures[{place}]", ("entry",))
        for label, value in (arguments.get("numbers") or {}).items():
            is_number = accepts(float | Literal["never"], value)
            expect(is_number, value, f"checks[{number}].numbers.{label}", "a number or never")
