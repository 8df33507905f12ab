"""One thing to simulate, and whether it can be."""

from __future__ import annotations

import equinox as eqx
import jax.random as jr

from turnout.server.facts import Facts, Oracle
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.simulator.local import Local
from turnout.strategies.base import Strategy
from turnout.strategies.memory import check_memory
from turnout.tasks.base import Task
from turnout.types import Fleet
from turnout.world import World


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
    trial.settings.check(trial.strategy)
    wanted = {"pi", "lam"} & set(trial.strategy.needs)
    if wanted and isinstance(trial.facts, Oracle) and trial.world.law() is None:
        name, process = type(trial.strategy).__name__, type(trial.world.availability).__name__
        raise ValueError(
            f"{name} needs {' and '.join(sorted(wanted))}, but {process} has no stationary law to tell an oracle: "
            "let the server estimate them (facts = Online())"
        )
