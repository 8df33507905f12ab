"""An experiment as data: read from TOML, checked, completed with every default, and written back."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from turnout.declarations import MAX_COUNT, MAX_RUNS, NUM_SEEDS, checked
from turnout.errors import nearest
from turnout.simulator.mesh import Spread
from turnout.workbench.experiment import toml
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import Part, read_part
from turnout.workbench.experiment.registry import COMMON_TABLES, KINDS, OVERRIDES, check_experiment
from turnout.workbench.experiment.signatures import accepts, excerpt, expect, is_whole
from turnout.workbench.experiment.trust import Code, read_document

OF_TIME = {"durations": "instant", "pace": "rounds"}  # tables that are written only if they say something else
DEFAULTS = {"links": "perfect", "uploads": "plain", "server": {}, "facts": "oracle"} | OF_TIME  # that may be left out
NAMED = ("uploads", "facts", "pace")  # those that name a builder: a strategy's own replaces the common one


def usual_interval(rounds: int) -> int:
    """Rounds between two evaluations, if not given: forty in a run."""
    return max(1, rounds // 40)


@dataclass(frozen=True)
class Entrant:
    """One entry of `strategies`: the strategy, and what it does differently from the others."""

    strategy: Part
    label: str
    local: Part | None = None
    uploads: Part | None = None
    server: Part | None = None
    facts: Part | None = None
    pace: Part | None = None

    def table(self) -> dict[str, Any]:
        own = {name: part.table() for name in OVERRIDES if (part := getattr(self, name)) is not None}
        return self.strategy.table() | own | {"label": self.label}


@dataclass(frozen=True)
class Tables:
    """The tables that the strategies of an experiment have in common."""

    task: Part
    availability: Part
    links: Part
    compute: Part
    durations: Part
    local: Part
    uploads: Part
    server: Part
    facts: Part
    pace: Part

    @property
    def timed(self) -> bool:
        """Whether work takes time, or the server keeps another pace than rounds that wait for everybody."""
        return any(getattr(self, name) != _usual(name) for name in OF_TIME)

    @property
    def drawn(self) -> tuple[str, ...]:
        """What every seed has of its own, by `seed = "run"`: data, a world, both or nothing."""
        world = any(part.drawn for part in (self.availability, self.links, self.compute, self.durations))
        return (*(["data"] if self.task.drawn else []), *(["world"] if world else []))


@dataclass(frozen=True)
class Experiment(Tables):
    """Strategies compared on one task in one world; any argument may be a sweep."""

    rounds: int
    seeds: tuple[int, ...]
    evaluate_every: int
    strategies: tuple[Entrant, ...]
    title: str = ""
    claim: str = ""
    metrics: tuple[str, ...] | None = None  # those to compute; all that the task has if not given
    calibrate: str | None = None  # label of the strategy whose mean step length the others get
    spread: Spread = "lanes"  # what several devices share

    @classmethod
    def read(cls, document: dict[str, Any], code: Code = Code.IMPORTED) -> Experiment:
        """Check a document and complete it; every mistake is an `ExperimentError` that says where it is.

        `code` is what becomes of code that the document names.
        """
        check_experiment(document)
        rounds = _count(document["rounds"], "rounds")
        tables = DEFAULTS | document | _local_and_compute(document)
        strategies = _entrants(document["strategies"], code)
        return cls(
            rounds=rounds,
            seeds=_seeds(document.get("seeds", 1)),
            evaluate_every=_count(document.get("evaluate_every", usual_interval(rounds)), "evaluate_every"),
            **{name: _common(name, tables[name], code) for name in COMMON_TABLES},
            strategies=strategies,
            title=_text(document.get("title", ""), "title"),
            claim=_text(document.get("claim", ""), "claim"),
            metrics=_names(document.get("metrics"), "metrics"),
            calibrate=_label(document.get("calibrate", False), strategies),
            spread=_spread(document.get("spread", "lanes")),
        )

    def document(self) -> dict[str, Any]:
        """As TOML, with every default; reading it back gives an equal experiment."""
        parts = {name: getattr(self, name).table() for name in COMMON_TABLES if not self._is_quiet(name)}
        texts = {name: text for name in ("title", "claim") if (text := getattr(self, name))}
        counted = self.seeds == tuple(range(len(self.seeds)))
        return (
            texts
            | {"rounds": self.rounds, "seeds": len(self.seeds) if counted else list(self.seeds)}
            | {"evaluate_every": self.evaluate_every}
            | ({} if self.metrics is None else {"metrics": list(self.metrics)})
            | ({} if self.calibrate is None else {"calibrate": self.calibrate})
            | ({} if self.spread == "lanes" else {"spread": self.spread})
            | parts
            | {"strategies": [entrant.table() for entrant in self.strategies]}
        )

    def _is_quiet(self, name: str) -> bool:
        """Whether a table says nothing, as in files of before."""
        return name in OF_TIME and getattr(self, name) == _usual(name)

    def to_toml(self) -> str:
        return toml.write(self.document())


@checked
def read_experiment(source: str | Path, settings: tuple[str, ...] = (), trust: bool = False) -> Experiment:
    """An experiment from a file, or a shipped one by its name, with `key=value` settings applied on top.

    Code that the file names is imported if the file is in the working folder or below it, or with `trust`.
    """
    return Experiment.read(*read_document(source, settings, trust))


def _common(name: str, table: Any, code: Code) -> Part:
    return read_part(KINDS.get(name, name), table, name, code=code)


@functools.cache
def _usual(name: str) -> Part:
    return _common(name, OF_TIME[name], Code.REFUSED)


def _count(value: Any, where: str, most: int = MAX_COUNT) -> int:
    expect(is_whole(value) and 1 <= value <= most, value, where, f"a whole number from 1 to {most:,}")
    return value


def _names(value: Any, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    expect(value != [] and accepts(list[str], value), value, where, "a list of names")
    return tuple(value)


def _label(value: Any, entrants: tuple[Entrant, ...]) -> str | None:
    """The strategy to calibrate by: true is the first, false is none."""
    labels = [entrant.label for entrant in entrants]
    if isinstance(value, bool):
        return labels[0] if value else None
    expect(isinstance(value, str), value, "calibrate", "true or the label of a strategy")
    if value not in labels:
        raise ExperimentError(f"calibrate: no strategy is called {value!r}: {nearest(value, labels)}")
    return value


def _spread(value: Any) -> Spread:
    expect(value in get_args(Spread), value, "spread", " or ".join(map(excerpt, get_args(Spread))))
    return value


def _text(value: Any, where: str) -> str:
    expect(isinstance(value, str), value, where, "text")
    return value


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return tuple(range(_count(value, "seeds", MAX_RUNS)))
    are_seeds = value != [] and all(is_whole(seed) and 0 <= seed < NUM_SEEDS for seed in value)
    differ = are_seeds and len(set(value)) == len(value)
    expect(differ, value, "seeds", "a number, or different whole numbers from 0 to 2³² - 1")
    return tuple(value)


def _local_and_compute(document: dict[str, Any]) -> dict[str, Any]:
    """Undo the short form: `steps` in `local` stands for `compute = { name = "fixed", steps = … }`."""
    local, compute = document.get("local", {}), document.get("compute", "fixed")
    if not isinstance(local, dict) or "steps" not in local:
        return {"local": local, "compute": compute}
    if "compute" in document:
        raise ExperimentError("local.steps: compute is given too, and both say how much local work is done: keep one")
    rest = {key: value for key, value in local.items() if key != "steps"}
    return {"local": rest, "compute": {"name": "fixed", "steps": local["steps"]}}


def _entrants(value: Any, code: Code) -> tuple[Entrant, ...]:
    expect(isinstance(value, list) and value != [], value, "strategies", "a list of one table or more")
    entrants = tuple(_entrant(table, f"strategies[{i}]", code) for i, table in enumerate(value))
    owners: dict[str, str] = {}
    for entrant in entrants:
        where, label = entrant.strategy.where, entrant.label
        if (first := owners.setdefault(label, where)) != where:
            raise ExperimentError(f"{where}.label: {label!r} is also the label of {first}: give each its own")
    return entrants


def _entrant(table: Any, where: str, code: Code) -> Entrant:
    if isinstance(table, str):
        table = {"name": table}
    expect(isinstance(table, dict), table, where, "a table")
    own = {key: table[key] for key in OVERRIDES if key in table}
    if isinstance(own.get("local"), dict) and "steps" in own["local"]:
        raise ExperimentError(f"{where}.local.steps: the amount of local work is the same for all: give it in local")
    rest = {key: value for key, value in table.items() if key not in (*OVERRIDES, "label")}
    strategy = read_part("strategies", rest, where, code=code)
    parts = {
        key: read_part(KINDS.get(key, key), value, f"{where}.{key}", key in NAMED, code) for key, value in own.items()
    }
    return Entrant(strategy, _text(table.get("label", strategy.name), f"{where}.label"), **parts)
