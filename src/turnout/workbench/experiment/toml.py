"""TOML in and out: the standard reader, a writer for what experiments hold, and overrides from the command line."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.former import up_to_date

Document = dict[str, Any]

MAX_DEPTH = 64  # of tables and lists inside each other


def read(path: Path) -> Document:
    """The document of a TOML file, see `parse`."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read: {error.strerror}") from error


def parse(content: bytes, name: str) -> Document:
    """The document that a TOML file of this name holds, brought up to date if it is from before."""
    try:
        document = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise ExperimentError(f"{name}: not a TOML file: {error}") from error
    _check_depth(document, name)
    return up_to_date(document)


def _check_depth(document: Document, name: str) -> None:
    """Refuse tables and lists so deep inside each other that what works on them would run out of stack."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return
    raise ExperimentError(f"{name}: tables or lists are nested more than {MAX_DEPTH} deep; an experiment needs ten")


def write(document: Document) -> str:
    """A document as TOML: one line per key, and one line per entry of a list of tables."""
    return "".join(f"{_key(key)} = {_top_value(value)}\n" for key, value in document.items())


def _top_value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "[\n" + "".join(f"    {write_value(item)},\n" for item in value) + "]"
    return write_value(value)


KEY_PART = r'\s*"[^"]+"\s*|[^".=]+'
SETTING = re.compile(rf"(?P<path>(?:{KEY_PART})(?:\.(?:{KEY_PART}))*)=(?P<value>.*)", re.DOTALL)


def write_value(value: Any) -> str:
    """One value as TOML."""
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {write_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        if {int, float}.issuperset(map(type, value)):  # Python's form is also TOML's, and fast for a million numbers
            return repr(list(value))
        return f"[{', '.join(map(write_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else str(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else write_value(key)


def override(document: Document, settings: Iterable[str]) -> Document:
    """The document with `key=value` settings applied; keys are dotted, values TOML, bare words strings.

    A part of a key that contains a dot or an equals sign stands in double quotes.
    """
    changed = copy.deepcopy(document)
    for setting in settings:
        match = SETTING.fullmatch(setting)
        if match is None:
            raise ExperimentError(f"--set {setting}: must be key=value, such as task.gamma=1")
        path = [part.strip().strip('"') for part in re.findall(KEY_PART, match["path"])]
        _put(changed, path, _value(match["value"], setting), f"--set {setting}")
    return changed


def _value(text: str, setting: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text.strip()
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"--set {setting[:40]}…: not a value of TOML: {error}") from error
    _check_depth(document, f"--set {setting[:40]}…")
    return document["value"]


def _put(place: Any, path: list[str], value: Any, where: str) -> None:
    key, rest = path[0], path[1:]
    if isinstance(place, list):
        if not key.isdigit() or int(key) >= len(place):
            hint = f"a list of {len(place)} is counted 0 to {len(place) - 1}"
            raise ExperimentError(f"{where}: there is no entry {key!r}: {hint}")
        index: Any = int(key)
    elif isinstance(place, dict):
        index = key
    else:
        raise ExperimentError(f"{where}: {key!r} has nothing to be set in: {write_value(place)} is not a table")
    if not rest:
        place[index] = value
        return
    if isinstance(place, dict) and isinstance(place.get(index), str):  # the short form of a table: facts = "oracle"
        place[index] = {"name": place[index]}
    inside = place[index] if isinstance(place, list) else place.setdefault(index, {})
    _put(inside, rest, value, where)
