"""The walk to a strategy of docs/choose.md: questions, what the answers lead to, and an experiment to try it in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnout.workbench.experiment import toml


@dataclass(frozen=True)
class Question:
    """A question whose answer is yes or no."""

    key: str
    text: str


@dataclass(frozen=True)
class Step(Question):
    """A question that ends the walk if the answer is yes; a further one may then choose between two strategies."""

    strategy: dict[str, Any]
    cost: str
    further: Question | None = None
    otherwise: dict[str, Any] | None = None  # the strategy if the answer to the further question is yes


Answerer = Callable[[Question], bool]

STEPS = (
    Step(
        "memory",
        "Can the server hold one model per client, or every client its own?",
        {"name": "last_word"},
        "one model per client, and clients report their number of steps",
        Question("private", "Must the server not see single updates, or has it no room for one model per client?"),
        {"name": "last_word", "memory": "clients"},
    ),
    Step(
        "alike",
        "Are all clients alike: equally available, with equal links and equal work?",
        {"name": "fedavg"},
        "nothing; no other strategy will be much better",
    ),
    Step(
        "uploads_fail",
        "Is everybody available when asked, and only uploads fail?",
        {"name": "c_a_fedavg"},
        "the success of the links must be known or estimated",
        Question("steps_too", "Do local steps differ as well?"),
        {"name": "fedacs"},
    ),
    Step(
        "steps_differ",
        "Do only local steps differ, with nobody more absent than others?",
        {"name": "fednova"},
        "clients report their number of steps",
    ),
    Step(
        "rates_known",
        "Are the rates known, and absences short?",
        {"name": "unbiased"},
        "steps of uneven length, or with AdaFed some bias, less with more clients",
        Question("steady", "Does steadiness matter more than the target?"),
        {"name": "adafed"},
    ),
    Step(
        "counts",
        "Is nothing known, and one number per client affordable?",
        {"name": "fedau"},
        "the first rounds, until participation has been counted",
        Question("few", "May only few clients be asked per round?"),
        {"name": "f3ast", "cohort": 10},
    ),
)
QUESTIONS = tuple(question for step in STEPS for question in (step, step.further) if question is not None)
NOTHING_FITS = Step("", "", {"name": "fedavg"}, "whoever comes most counts most: no strategy here mends that")


@dataclass(frozen=True)
class Advised:
    """Where the walk ended: the last step, and the strategy as a table of an experiment."""

    step: Step
    strategy: dict[str, Any]
    is_alternative: bool = False

    def document(self) -> dict[str, Any]:
        """An experiment that compares the strategy with FedAvg, in a world with the troubles that were named."""
        baseline = [] if self.strategy["name"] == "fedavg" else [{"name": "fedavg"}]
        return {
            "title": f"{self.strategy['name']} beside fedavg" if baseline else "fedavg",
            "rounds": 200,
            "seeds": 5,
            "task": {"name": "synthetic_leaf", "num_clients": 100, "importance": "uniform"},
            **_world(self),
            "local": {"batch_size": 32, "learning_rate": 0.02},
            "strategies": [*baseline, self.strategy],
        }

    def to_toml(self) -> str:
        """The experiment as a file, with what to change first."""
        advice = "# Put your own task and world in the place of these: turnout diagnose fits a world to your log.\n"
        return advice + toml.write(self.document())


def choose(ask: Answerer) -> Advised:
    """Go through the questions and stop at the first yes."""
    for step in STEPS:
        if ask(step):
            if step.further is not None and step.otherwise is not None and ask(step.further):
                return Advised(step, step.otherwise, is_alternative=True)
            return Advised(step, step.strategy)
    return Advised(NOTHING_FITS, NOTHING_FITS.strategy)


def _world(choice: Advised) -> dict[str, Any]:
    """Availability, links and compute with the trouble that the answers name; all of it where they name none."""
    everybody: dict[str, Any] = {"name": "bernoulli", "pi": 1.0}
    absence = {"name": "two_classes", "mean": 0.5, "gap": 0.4, "lam": 0.9}
    lossy: dict[str, Any] = {"name": "drawn", "low": 0.4, "high": 1.0}
    equal, unequal = {"name": "fixed", "steps": 5}, {"name": "drawn", "low": 1, "high": 9}
    match choice.step.key:
        case "memory":
            return {"availability": absence, "links": lossy, "compute": unequal}
        case "alike":
            return {"availability": {"name": "bernoulli", "pi": 0.5}, "compute": equal}
        case "uploads_fail":
            work = unequal if choice.is_alternative else equal
            return {"availability": everybody, "links": lossy, "compute": work}
        case "steps_differ":
            return {"availability": {"name": "bernoulli", "pi": 0.5}, "compute": unequal}
        case "rates_known":
            return {"availability": absence | {"lam": 0.0}, "compute": equal}
        case _:
            return {"availability": absence, "compute": equal}
