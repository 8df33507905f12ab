"""One table of an experiment: the name of a builder and its arguments, checked against its signature."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from turnout.declarations import NUM_SEEDS
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies.base import Strategy
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.models.adapters import Adapt
from turnout.uploads import Upload
from turnout.workbench.experiment import registry, signatures
from turnout.workbench.experiment.errors import ExperimentError, check_keys, mistakes_at
from turnout.workbench.experiment.trust import TRUST, Code

RUN_SEED = "run"  # `seed = "run"`: the seed of the run, so that every run has a draw of its own
DRAWN = ("tasks", "availability", "links", "compute", "durations")  # kinds whose seed may be that of the run
Path = tuple[str, ...]  # of keys into a table, to an argument
OF_OPTAX = {"optimizer": "optimizers", "learning_rate": "schedules"}  # arguments that name a builder of optax
# Arguments that are not keys of the table: the server's facts and an optimizer's learning rate are given elsewhere.
HIDDEN = {"optimizers": ("learning_rate",), "server": ("facts",)}
UNNAMED: dict[str, Callable[..., Any]] = {
    "local": Local,
    "server": ServerSettings,
    "augment": Augment,
    "adapt": Adapt,
}  # the last two inside a task's table


@dataclass(frozen=True)
class Part:
    """A builder with its arguments as a TOML file has them; a list may be a sweep."""

    kind: str
    name: str
    arguments: dict[str, Any]
    where: str = field(compare=False, default="")
    code: Code = field(compare=False, default=Code.IMPORTED)  # what becomes of code that it names

    @property
    def is_unread(self) -> bool:
        """Whether it names code that is not imported."""
        return self.code is not Code.IMPORTED and registry.is_code(self.name)

    @property
    def builder(self) -> Callable[..., Any]:
        if self.kind in UNNAMED:
            return UNNAMED[self.kind]
        if self.is_unread:
            raise ExperimentError(f"{self.where}: {self.name!r} is code, which is not imported from what is only read")
        return registry.find(self.kind, self.name, self.where)

    @property
    def key(self) -> str:
        """A text that equal parts share."""
        return json.dumps([self.kind, self.name, self.arguments], sort_keys=True)

    @property
    def drawn(self) -> bool:
        """Whether every run has a draw of its own."""
        return self.kind in DRAWN and self.arguments.get("seed") == RUN_SEED

    def of_run(self, seed: int) -> Part:
        """The part as the run with this seed has it."""
        return replace(self, arguments=self.arguments | {"seed": seed}) if self.drawn else self

    def table(self) -> dict[str, Any]:
        """As TOML."""
        return self.arguments if self.kind in UNNAMED else {"name": self.name, **self.arguments}

    def axes(self) -> Iterator[tuple[Path, list[Any]]]:
        """The swept arguments, those of builders inside included, each with its values; unread code has none."""
        if self.is_unread:
            return
        parameters = signatures.parameters(self.builder)
        for name, value in self.arguments.items():
            values = signatures.sweep_values(parameters[name], value)
            if values is not None:
                yield (name,), values
            elif isinstance(value, dict):
                yield from (((name, *path), inside) for path, inside in self._inside(name, value).axes())

    def at(self, chosen: dict[Path, Any]) -> Part:
        """The part with one value for each swept argument."""
        arguments = dict(self.arguments)
        for (name, *rest), value in chosen.items():
            if rest:
                arguments[name] = self._inside(name, arguments[name]).at({tuple(rest): value}).table()
            else:
                arguments[name] = value
        return replace(self, arguments=arguments)

    def over(self, base: Part) -> Part:
        """The arguments of this part where it has them, those of another elsewhere."""
        return replace(self, arguments=base.arguments | self.arguments)

    def build(self, **filled: Any) -> Any:
        """The object; `filled` are arguments from the experiment, for those that the table leaves open."""
        parameters = signatures.parameters(self.builder)
        arguments = {name: value for name, value in filled.items() if name in parameters}
        for name, value in self.arguments.items():
            arguments[name] = signatures.as_argument(parameters[name].hint, self._build_argument(name, value, filled))
        with mistakes_at(self.where, self.builder.__module__):
            return self.builder(**arguments)

    def _build_argument(self, name: str, value: Any, filled: dict[str, Any]) -> Any:
        """The value of an argument, with the tables in it built."""
        if isinstance(value, dict):
            part = self._inside(name, value)
            return part.build(**filled) if part.kind == "strategies" else _build_once(part.key, part.where, part.code)
        return [self._build_argument(name, item, filled) for item in value] if isinstance(value, list) else value

    def _inside(self, name: str, table: dict[str, Any]) -> Part:
        arguments = {key: value for key, value in table.items() if key != "name"}
        kind = kind_inside(signatures.parameters(self.builder)[name])
        return Part(kind, table.get("name", ""), arguments, f"{self.where}.{name}", self.code)


def kind_inside(parameter: signatures.Parameter) -> str:
    """The kind of a table given for this argument: by its type a strategy or an upload, by its name part of optax."""
    if signatures.takes(parameter.hint, Strategy):
        return "strategies"
    if signatures.takes(parameter.hint, Upload):
        return "uploads"
    for kind, table in (("augment", Augment), ("adapt", Adapt)):
        if signatures.takes(parameter.hint, table):
            return kind
    return OF_OPTAX.get(parameter.name, "objects")


@functools.cache
def _build_once(key: str, where: str, code: Code) -> Any:
    """One object for equal tables: trials whose optimizers are the same object share a compiled program."""
    kind, name, arguments = json.loads(key)
    filled = {"learning_rate": 1.0} if kind == "optimizers" else {}
    return Part(kind, name, arguments, where, code).build(**filled)


def read_part(kind: str, table: Any, where: str, required: bool = True, code: Code = Code.IMPORTED) -> Part:
    """Check a table and complete it with the defaults that TOML can hold.

    Without `required` the table only overrides another: nothing is completed and nothing must be given. A table that
    names code which is not to be imported stays as it is.
    """
    name, given = _split(kind, table, where)
    part = Part(kind, name, {}, where, code)
    if part.is_unread and code is Code.REFUSED:
        raise ExperimentError(
            f"{where}: {name!r} is code that this file would run, and the file is not in your working folder: "
            f"read both, then run it with --trust (or {TRUST}=1)"
        )
    if part.is_unread:
        return replace(part, arguments=given)
    hidden = HIDDEN.get(kind, ())
    parameters = signatures.parameters(part.builder)
    check_keys(given, [key for key in parameters if key not in hidden], where)
    arguments: dict[str, Any] = {}
    for key, parameter in parameters.items():
        if key in given:
            arguments[key] = _read_argument(part, parameter, given[key])
        elif required and parameter.default_in_toml and key not in hidden:
            arguments[key] = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
        elif required and parameter.default is signatures.REQUIRED and not _is_filled(kind, key):
            raise ExperimentError(f"{where}: {key!r} is missing, expected {signatures.describe(parameter.hint)}")
    return replace(part, arguments=arguments)


def _split(kind: str, table: Any, where: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a table; a text alone is a name without arguments."""
    given: Any = table if kind in UNNAMED else _as_table(table)
    signatures.expect(isinstance(given, dict), given, where, "a table")
    if kind in UNNAMED:
        return "", given
    name = given.get("name")
    if not isinstance(name, str):
        told = "nothing" if name is None else signatures.excerpt(name)
        raise ExperimentError(f"{where}.name: given {told}, expected the name of one of the {kind}, as text")
    return name, {key: value for key, value in given.items() if key != "name"}


def _read_argument(part: Part, parameter: signatures.Parameter, value: Any) -> Any:
    where = f"{part.where}.{parameter.name}"
    kind = kind_inside(parameter)
    if parameter.name == "seed" and part.kind in DRAWN and isinstance(value, str):
        signatures.expect(value == RUN_SEED, value, where, f'a whole number or "{RUN_SEED}"')
        return value
    if kind in ("optimizers", "strategies", "uploads"):
        value = [_as_table(item) for item in value] if isinstance(value, list) else _as_table(value)
    value = signatures.read(parameter, value, where)
    numbers = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
    fits = parameter.name != "seed" or all(0 <= seed < NUM_SEEDS for seed in numbers)
    signatures.expect(fits, value, where, "a whole number from 0 to 2³² - 1")
    if not isinstance(value, list):
        return _read_inside(kind, value, where, part.code)
    inside = [_read_inside(kind, item, f"{where}[{i}]", part.code) for i, item in enumerate(value)]
    if signatures.sweep_values(parameter, value) is None:
        _refuse_sweeps_inside(kind, inside, where, part.code)
    return inside


def _refuse_sweeps_inside(kind: str, tables: list[Any], where: str, code: Code) -> None:
    """Refuse sweeps in a list of tables, which is one value: it would be unclear which table is swept."""
    for i, table in enumerate(tables):
        if isinstance(table, dict):
            for path, _ in read_part(kind, table, f"{where}[{i}]", code=code).axes():
                raise ExperimentError(
                    f"{where}[{i}].{'.'.join(path)}: a list of tables cannot be swept: give one value"
                )


def _as_table(value: Any) -> Any:
    """A text alone is a name without arguments."""
    return {"name": value} if isinstance(value, str) else value


def _read_inside(kind: str, value: Any, where: str, code: Code) -> Any:
    """Check a table inside a table as a builder; anything else is returned as it is."""
    if not (isinstance(value, dict) and ("name" in value or kind in UNNAMED)):
        return value
    if kind not in UNNAMED:
        known = kind != "objects" or ":" in str(value["name"])
        signatures.expect(known, value["name"], f"{where}.name", '"module:attribute"')
    return read_part(kind, value, where, code=code).table()


def _is_filled(kind: str, key: str) -> bool:
    """Whether the experiment fills in the argument itself."""
    return (kind == "optimizers" and key == "learning_rate") or (kind != "tasks" and key in registry.FILLED)
