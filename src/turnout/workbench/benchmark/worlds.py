"""The frozen files: worlds with their rates and seeds, the strategies that were run in them, and their scores."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from turnout.files.manifest import MANIFEST, EditedError, Manifest, read_contents, sum_of
from turnout.strategies.base import Strategy
from turnout.workbench.experiment import registry, toml
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.trust import Code
from turnout.workbench.reproduction.claim import Claim, Document, Profile, merge, read_runs, take_profiles

VERSION = "1"  # of the benchmark: scores of different versions cannot be compared
WORLDS, STRATEGIES, SCORES = "worlds.toml", "strategies.toml", "scores.json"
SHOWN = 8  # letters of a digest

Table = dict[str, Any]


def frozen_folder() -> Path:
    """Where the files are, in the package."""
    return Path(str(resources.files("turnout") / "workbench" / "benchmark" / "frozen"))


@dataclass(frozen=True)
class Worlds:
    """The worlds of one size, and how a strategy is tuned and judged in them."""

    size: Profile
    digest: str  # of the file of all sizes
    document: Document  # as of a claim, without strategies
    plain_step: Table  # rates of strategies with a server rate of their own
    score: Table  # a measure

    @classmethod
    def read(cls, size: Profile) -> Worlds:
        """The frozen worlds; an EditedError if their file is not as it was shipped."""
        content = _frozen(WORLDS)
        document = toml.parse(content, WORLDS)
        document = merge(document, take_profiles(document, WORLDS).get(size, {}))
        plain_step, score = document.pop("plain_step"), document.pop("score")
        return cls(size, sum_of(content).partition(":")[2], document, plain_step, score)

    @property
    def names(self) -> list[str]:
        """The worlds, in the order of the file."""
        return list(self.document["panels"])

    @property
    def title(self) -> str:
        """The benchmark with its version, size and digest, as a paper can quote it."""
        return f"turnout benchmark {VERSION}, {self.size} ({self.digest[:SHOWN]})"

    def runs_of(self, entry: Table, code: Code = Code.IMPORTED) -> Claim:
        """What is to be run for one strategy: the search of its rates and the test seeds in every world."""
        own, server = entry, entry.get("server", {})
        if _strategy(entry["name"]).plain_step or isinstance(server.get("learning_rate"), int | float):
            own = entry | {"local": self.plain_step["local"], "server": self.plain_step["server"] | server}
        experiment = self.document["experiment"] | {"strategies": [own]}
        return read_runs(label_of(entry), self.size, self.document | {"experiment": experiment}, code)


def label_of(entry: Table) -> str:
    """What a strategy is called: by its label, as papers do, or by its class."""
    name = entry["name"]
    known = registry.entries("strategies").get(name)
    return entry.get("label") or (name.rpartition(":")[2] if known is None else known.title)


def listed_strategies() -> list[Table]:
    """The strategies whose scores are stored, each as an entry of an experiment with its label."""
    entries = toml.parse(_frozen(STRATEGIES), STRATEGIES)["strategies"]
    return [entry | {"label": label_of(entry)} for entry in entries]


def listed_as(name: str) -> Table | None:
    """The listed strategy of this name or label; of two with one name, the first."""
    return next((entry for entry in listed_strategies() if name in (entry["name"], entry["label"])), None)


def stored_scores(size: Profile) -> dict[str, Table]:
    """The stored record of every strategy by its label; those that have not been run are not there."""
    return json.loads(_frozen(SCORES))[size]


def _strategy(name: str) -> type[Strategy[Any]]:
    found = registry.find("strategies", name, "benchmark")
    if not (inspect.isclass(found) and issubclass(found, Strategy)):
        raise ExperimentError(f"benchmark: {name!r} is no strategy: name a class that derives from Strategy")
    return found


def _frozen(name: str) -> bytes:
    """The content of a frozen file, which is as its manifest says."""
    folder = frozen_folder()
    content = read_contents(folder, [name]).get(name)
    if content is None or Manifest.read(folder) is None:
        raise EditedError(f"{folder}: has no {MANIFEST}: install turnout again")
    return content
