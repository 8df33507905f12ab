"""Names that an experiment cannot have, found from the source alone: a typing mistake need not wait for jax."""

from __future__ import annotations

from typing import Any

from turnout.errors import nearest
from turnout.workbench.experiment import registry
from turnout.workbench.experiment.errors import ExperimentError

PARTS = ("task", "availability", "links", "compute", "local", "uploads", "server", "facts")  # tables in common
OVERRIDES = ("local", "uploads", "server", "facts")  # tables of which a strategy may have its own
NEEDED = ("rounds", "task", "availability", "strategies")
KEYS = ("title", "claim", "rounds", "seeds", "evaluate_every", "metrics", "calibrate", "spread", *PARTS, "strategies")


def check_keys(document: dict[str, Any]) -> None:
    """Refuse unknown keys of an experiment, and missing ones."""
    for key in document:
        if key not in KEYS:
            raise ExperimentError(f"unknown key {key!r}: {nearest(key, KEYS)}")
    for key in NEEDED:
        if key not in document:
            raise ExperimentError(f"{key!r} is missing: every experiment has {', '.join(NEEDED)}")


def check_names(document: dict[str, Any]) -> None:
    """Refuse names of builders that do not exist, and arguments that they do not take.

    Whatever is not a name of ours, or has another shape than it should, is left to those who import it.
    """
    strategies = document["strategies"]
    for number, table in enumerate(strategies if isinstance(strategies, list) else []):
        _check("strategies", table, f"strategies[{number}]", (*OVERRIDES, "label"))
    for part in PARTS:
        kind = "tasks" if part == "task" else part
        if kind in registry.KINDS and part in document:
            _check(kind, document[part], part, ())


def _check(kind: str, table: Any, where: str, more: tuple[str, ...]) -> None:
    table = {"name": table} if isinstance(table, str) else table
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or ":" in name:
        return
    entry = registry.entry_named(kind, name, where)
    if kind not in registry.PACKAGES:
        return
    known = [parameter.partition(" ")[0] for parameter in entry.parameters]
    for key in table:
        if key not in ("name", *more, *known, *registry.FILLED):
            raise ExperimentError(f"{where}: unknown key {key!r}: {nearest(key, known)}")
