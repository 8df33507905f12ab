"""Objects of the wrong kind, which are easily given to a simulation, are refused with a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnout import strategies as shipped
from turnout.arguments import check_kind
from turnout.availability.base import Process
from turnout.simulator.local_training import Local
from turnout.strategies.base import Strategy
from turnout.tasks.base import Task
from turnout.types import PyTree
from turnout.world import World


def check_task(task: object) -> None:
    """Raise a TypeError if this is no task."""
    check_kind("task", task, Task, "a Task, such as turnout.tasks.quadratics(num_clients=10)")


def check_world(world: object) -> None:
    """Raise a TypeError if this is no world."""
    if isinstance(world, Process):
        raise TypeError(f"world: given a process, {type(world).__name__}, expected a World: write World(process)")
    check_kind("world", world, World, "a World, such as World(availability.two_classes(10))")


def check_local(local: object) -> None:
    """Raise a TypeError if this is neither None nor a Local."""
    if isinstance(local, int | float):
        raise TypeError(f"local: given the number {local}, expected Local(learning_rate={local})")
    if local is not None:
        check_kind("local", local, Local, "Local(learning_rate=…)")


def check_strategy_kind(strategy: object, name: str = "strategy") -> None:
    """Raise a TypeError if this is no strategy."""
    check_kind(name, strategy, Strategy, f"a strategy, such as {_class_named(strategy)}()")


def labelled_strategies(strategies: Any) -> dict[str, Strategy[PyTree]]:
    """Strategies by their labels: those given, or the names of the classes, numbered where two are the same."""
    labels: dict[str, Any] = dict(strategies) if isinstance(strategies, Mapping) else _by_class(strategies)
    if not labels:
        raise TypeError("strategies: given none, expected one or more")
    for label, strategy in labels.items():
        check_strategy_kind(strategy, f"strategies: {label}")
    return labels


def _by_class(strategies: Any) -> dict[str, Any]:
    """The strategies of a list by the names of their classes, numbered where two are the same."""
    if isinstance(strategies, str) or not isinstance(strategies, Sequence):
        check_kind("strategies", strategies, list, "a list such as [FedAvg(), FedAU()]")
    for place, strategy in enumerate(strategies):
        check_strategy_kind(strategy, f"strategies[{place}]")
    names = [type(strategy).__name__ for strategy in strategies]
    numbered = (
        f"{name} {names[: k + 1].count(name)}" if names.count(name) > 1 else name for k, name in enumerate(names)
    )
    return dict(zip(numbered, strategies, strict=True))


def _class_named(name: object) -> str:
    """The shipped strategy that a text names, as in an experiment file; FedAvg for anything else."""
    letters = str(name).replace("_", "").replace("-", "").lower()
    return next((known for known in shipped.__all__ if known.lower() == letters), "FedAvg")
