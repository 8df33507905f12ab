"""The walk to a strategy of docs/choose.md: questions, what the answers lead to, and an experiment to try it in."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from turnout.workbench.experiment import toml


@dataclass(frozen=True)
class Question:
    """A question, and the strategy if the answer is yes."""

    key: str
    text: str
    strategy: dict[str, Any]  # as a table of an experiment
    world: dict[str, Any] = field(default_factory=dict)  # tables of an experiment that have the troubles it asks for


@dataclass(frozen=True)
class Step(Question):
    """A question that ends the walk if the answer is yes; a further one may then choose between two strategies."""

    cost: str = ""
    otherwise: Question | None = None

    @classmethod
    def read(cls, table: dict[str, Any]) -> Step:
        asked: dict[str, Any] = {"otherwise": Question(**table["otherwise"])} if "otherwise" in table else {}
        return cls(**table | asked)


_TABLES = tomllib.loads((resources.files("turnout.workbench.experiment") / "choose.toml").read_text(encoding="utf-8"))
STEPS = tuple(map(Step.read, _TABLES["steps"]))
NOTHING_FITS = Step.read(_TABLES["nothing_fits"])
QUESTIONS = tuple(question for step in STEPS for question in (step, step.otherwise) if question is not None)


@dataclass(frozen=True)
class Advised:
    """Where the walk ended: the last step, and the question that chose its strategy."""

    step: Step
    chosen: Question

    @property
    def strategy(self) -> dict[str, Any]:
        """The strategy as a table of an experiment."""
        return self.chosen.strategy

    def to_toml(self) -> str:
        """The experiment as a file, with what to change first."""
        advice = "# Put your own task and world in the place of these: turnout diagnose fits a world to your log.\n"
        return advice + toml.write(self.document())

    def document(self) -> dict[str, Any]:
        """An experiment that compares the strategy with FedAvg, in a world with the troubles that were named."""
        baseline = [] if self.strategy["name"] == "fedavg" else [{"name": "fedavg"}]
        return {
            "title": f"{self.strategy['name']} beside fedavg" if baseline else "fedavg",
            "rounds": 200,
            "seeds": 5,
            "task": {"name": "synthetic_leaf", "num_clients": 100, "importance": "uniform"},
            **self.step.world,
            **self.chosen.world,
            "local": {"batch_size": 32, "learning_rate": 0.02},
            "strategies": [*baseline, self.strategy],
        }


def choose(ask: Callable[[Question], bool]) -> Advised:
    """Go through the questions and stop at the first yes."""
    for step in STEPS:
        if ask(step):
            return Advised(step, step.otherwise if step.otherwise is not None and ask(step.otherwise) else step)
    return Advised(NOTHING_FITS, NOTHING_FITS)
