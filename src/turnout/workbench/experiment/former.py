"""Documents of before, brought up to date: files, run folders and stored claims that an earlier turnout wrote.

A rule is given every value of a document, whatever is inside first, and the key under which it stands (for the entries
of a list, that of the list). It returns the value as it is written now. To add a rule, add a function to `RULES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Rule = Callable[[str, Any], Any]

MOVED = re.compile(r"turnout\.((?:experiment|reproduction)\.[\w.]+:\w+)")  # to the workbench
SEPARATED, INSIDE, SEPARATION, REST = "separated", "strategy", "separation", "rest"
# The keys of a document that turnout has written itself, with all defaults filled in: the experiment of a run.
WRITTEN = {"rounds", "seeds", "evaluate_every", "task", "local", "uploads", "server", "facts", "strategies"}
MOVED_ALONE = ("mifa", "fedlaavg", "stale_fill")  # before `moves_when_empty` was a field
CLAIM_FORMAT = "format"  # key of a stored claim
LAST_WORD, BLEND, RULE = "last_word", "blend", "rule"


def up_to_date(value: Any, key: str = "") -> Any:
    """A document, or a part of one, as it is written now."""
    if isinstance(value, dict):
        value = {name: up_to_date(inside, name) for name, inside in value.items()}
    elif isinstance(value, list):
        value = [up_to_date(item, key) for item in value]
    for rule in RULES:
        value = rule(key, value)
    return value


def former_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a point as they were called while a rest was a strategy around another one."""
    inside = {f"strategy.{key}": value for key, value in settings.items() if key.startswith("strategy.")}
    rest = {f"strategy.{SEPARATION}": settings[key] for key in settings if key == f"server.{REST}"}
    others = {key: value for key, value in settings.items() if not key.startswith("strategy.")}
    others.pop(f"server.{REST}", None)
    return inside | rest | others


def _modules(_key: str, value: Any) -> Any:
    """Modules of experiments and claims moved to the workbench."""
    found = MOVED.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else f"turnout.workbench.{found[1]}"


def _rests(key: str, value: Any) -> Any:
    """A rest between two participations was a strategy around another one; it is a setting of the server."""
    if key != "strategies" or not _is_separated(value):
        return value
    inner, rest = _inside(value)
    own = {name: item for name, item in value.items() if name not in ("name", INSIDE, SEPARATION)}
    return inner | {"label": SEPARATED} | own | {"server": own.get("server", {}) | {REST: rest}}


def _is_separated(table: Any) -> bool:
    return (
        isinstance(table, dict)
        and table.get("name") == SEPARATED
        and isinstance(table.get(INSIDE), dict | str)
        and SEPARATION in table
        and isinstance(table.get("server", {}), dict)
    )


def _inside(table: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The strategy inside, and the rest; of two rests around it the longer one counts."""
    inner, rest = table[INSIDE], table[SEPARATION]
    if _is_separated(inner) and isinstance(rest, int | float) and isinstance(inner[SEPARATION], int | float):
        return _inside(inner | {SEPARATION: max(rest, inner[SEPARATION])})
    return ({"name": inner} if isinstance(inner, str) else inner), rest


def _kept_keys(key: str, value: Any) -> Any:
    """Swept keys that a search compares, by their present names."""
    if key != "keep" or not isinstance(value, str):
        return value
    return f"server.{REST}" if value == f"strategy.{SEPARATION}" else value.replace("strategy.strategy.", "strategy.")


def _empty_rounds(_key: str, value: Any) -> Any:
    """Strategies moved the model also when nobody came, and had no field that says so: in what an earlier turnout ran.

    A file that a person wrote has no such entry filled in, and gets the present default.
    """
    if not isinstance(value, dict) or not value.keys() >= WRITTEN:
        return value
    return _strategies_as_they_ran(value)


def _as_it_ran(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    if entry.get("name") in MOVED_ALONE:
        return {"moves_when_empty": True} | entry
    return {RULE: "plain"} | entry if entry.get("name") == LAST_WORD else entry


def _stored_claims(_key: str, value: Any) -> Any:
    """The same in the claim of a reproduction, which says its size; since then it says its format, too."""
    if not isinstance(value, dict) or "profile" not in value or "checks" not in value or CLAIM_FORMAT in value:
        return value
    panels = value.get("panels")
    ran = {"experiment": _strategies_as_they_ran(value["experiment"])} if "experiment" in value else {}
    if isinstance(panels, dict):
        ran["panels"] = {name: _strategies_as_they_ran(panel) for name, panel in panels.items()}
    return value | ran


def _strategies_as_they_ran(table: Any) -> Any:
    if not isinstance(table, dict) or not isinstance(table.get("strategies"), list):
        return table
    return table | {"strategies": [_as_it_ran(entry) for entry in table["strategies"]]}


def _blended(key: str, value: Any) -> Any:
    """Whether words are blended is now a part of the rule of LastWord."""
    if not isinstance(value, dict) or value.get("name") != LAST_WORD or not isinstance(value.get(BLEND), bool):
        return value
    rest = {name: item for name, item in value.items() if name != BLEND}
    return rest | {RULE: BLEND if value[BLEND] else "plain"}


RULES: tuple[Rule, ...] = (_modules, _rests, _kept_keys, _blended, _empty_rounds, _stored_claims)
