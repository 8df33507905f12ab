"""One thing to simulate, whether it can be, and which of several run as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.availability.base import ErgodicProcess
from turnout.server.facts import Facts, Oracle
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.simulator.local import Local
from turnout.strategies.base import Strategy
from turnout.strategies.memory import check_memory
from turnout.tasks.base import Task
from turnout.types import Fleet, PerClient
from turnout.world import World

Law = tuple[PerClient, PerClient] | None  # (π, λ) of a world


class Trial(eqx.Module):
    """A strategy in a world, with the clients' and the server's settings. Leaves of equal trials may be stacked."""

    strategy: Strategy
    world: World
    local: Local = Local()
    settings: ServerSettings = ServerSettings()

    @property
    def facts(self) -> Facts:
        """What the server knows: the truth, where nothing else is set."""
        return Oracle() if self.settings.facts is None else self.settings.facts

    def server(self, fleet: Fleet, slots: int) -> Server:
        return Server.of(fleet, self.strategy, self.settings, slots)


def check_trial(task: Task, trial: Trial) -> None:
    """Raise a ValueError that says why, if this trial cannot run on this task."""
    if trial.world.num_clients != task.num_clients:
        raise ValueError(f"the world has {trial.world.num_clients} clients, but the task {task.num_clients}")
    check_trial_in_fleet(task.fleet, trial)
    check_memory(trial.strategy, task.fleet, lambda: task.init(jr.key(0)))


def check_trial_in_fleet(fleet: Fleet, trial: Trial) -> None:
    """Raise a ValueError that says why, if this strategy cannot serve this fleet in this world."""
    trial.strategy.check(fleet)
    wanted = {"pi", "lam"} & set(trial.strategy.needs)
    if wanted and isinstance(trial.facts, Oracle) and not isinstance(trial.world.availability, ErgodicProcess):
        name, process = type(trial.strategy).__name__, type(trial.world.availability).__name__
        raise ValueError(
            f"{name} needs {' and '.join(sorted(wanted))}, but {process} has no stationary law to tell an oracle: "
            "let the server estimate them (facts = Online())"
        )


@dataclass(frozen=True)
class Group:
    """Trials that have the same structure and shapes, so that they stack into one program."""

    members: tuple[int, ...]  # their places among all
    trials: tuple[Trial, ...]
    laws: tuple[Law, ...]


def grouped(trials: Sequence[Trial]) -> list[Group]:
    """All trials, those that differ in numbers only together; a world that several share is asked for its law once."""
    kinds: list[tuple[Any, list[int]]] = []
    for index, trial in enumerate(trials):
        arrays, rest = eqx.partition(as_arrays(trial), eqx.is_array)
        shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)]
        kind = (jax.tree.structure(arrays), shapes, jax.tree.leaves(rest))
        for other, members in kinds:
            if other == kind:
                members.append(index)
                break
        else:
            kinds.append((kind, [index]))
    laws = {key: world.law() for key, world in {id(trial.world): trial.world for trial in trials}.items()}
    return [
        Group(tuple(members), tuple(trials[i] for i in members), tuple(laws[id(trials[i].world)] for i in members))
        for _, members in kinds
    ]


def as_arrays(trial: Trial) -> Trial:
    """Plain numbers as arrays, so that hyper-parameters are traced rather than compiled in."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, bool | np.bool_):
            return jnp.asarray(leaf)
        if isinstance(leaf, int | np.integer):
            return jnp.asarray(leaf, jnp.int32)
        return jnp.asarray(leaf, jnp.float32) if isinstance(leaf, float | np.floating) else leaf

    return jax.tree.map(convert, trial)
