"""Names that an experiment cannot have, found from the source alone: a typing mistake need not wait for jax."""

from __future__ import annotations

from typing import Any

from turnout.workbench.experiment import registry
from turnout.workbench.experiment.errors import ExperimentError, check_keys

COMMON_TABLES = ("task", "availability", "links", "compute", "local", "uploads", "server", "facts")
OVERRIDES = ("local", "uploads", "server", "facts")  # tables of which a strategy may have its own
NEEDED = ("rounds", "task", "availability", "strategies")
OF_RUN = ("title", "claim", "rounds", "seeds", "evaluate_every", "metrics", "calibrate", "spread")
KEYS = (*OF_RUN, *COMMON_TABLES, "strategies")


def check_experiment(document: dict[str, Any]) -> None:
    """Refuse unknown keys of an experiment, and missing ones."""
    check_keys(document, KEYS)
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
    for name in COMMON_TABLES:
        kind = "tasks" if name == "task" else name
        if kind in registry.LISTED_KINDS and name in document:
            _check(kind, document[name], name, ())


def _check(kind: str, table: Any, where: str, more: tuple[str, ...]) -> None:
    table = {"name": table} if isinstance(table, str) else table
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or ":" in name:
        return
    entry = registry.entry_named(kind, name, where)
    if kind in registry.PACKAGES:
        given = [key for key in table if key not in ("name", *more, *registry.FILLED)]
        check_keys(given, entry.parameters, where)
