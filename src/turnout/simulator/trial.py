"""A trial: one simulation to run, its checks, and which trials run as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from turnout.availability.base import ErgodicProcess
from turnout.declarations import Declared
from turnout.optimizers import check_schedule
from turnout.paces import Pace, Rounds
from turnout.server.facts import Facts, Oracle
from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.simulator.client import Client
from turnout.simulator.client_optimizer import Local
from turnout.simulator.mesh import Spread, num_memories
from turnout.simulator.programs import once_per_kind
from turnout.strategies.base import Strategy
from turnout.strategies.memory_rows import check_memory
from turnout.tasks.base import Task
from turnout.types import Fleet, Law, PyTree
from turnout.uploads import Plain, Upload
from turnout.uploads.base import check_fit
from turnout.world import World


class Trial(Declared):
    """A strategy in a world, with the settings of clients and server. Trials of equal structure can be stacked."""

    strategy: Strategy[PyTree]
    world: World
    local: Local = Local()
    server: ServerSettings = ServerSettings()
    uploads: Upload[PyTree] = Plain()  # transform of an update on its way to the server
    pace: Pace | None = None  # when the server asks and steps; None: in rounds that wait for everybody

    @property
    def kept_pace(self) -> Pace:
        """The pace that the server keeps."""
        return Rounds() if self.pace is None else self.pace

    @property
    def timed(self) -> bool:
        """Whether work takes time or the server keeps another pace than plain rounds; otherwise a tick is a round."""
        pace = self.kept_pace
        return self.world.durations is not None or pace.is_bounded or not isinstance(pace, Rounds)

    @property
    def works_at_once(self) -> bool:
        """Whether work counts even if its upload is lost: it moves the client's optimizer, or its length decides."""
        return self.local.lasting or not self.strategy.admits_all

    @property
    def facts(self) -> Facts[PyTree]:
        """What the server knows: the truth, if nothing else is set."""
        return Oracle() if self.server.facts is None else self.server.facts

    @property
    def client(self) -> Client:
        """How the clients work."""
        side, upload = self.strategy.client_side, None if isinstance(self.uploads, Plain) else self.uploads
        return Client(self.local if side is None else self.local.with_pull(side.pull), side, upload)

    def make_server(self, fleet: Fleet, slots: int) -> Server:
        return Server.of(fleet, self.strategy, self.server, slots)


def check_trial(task: Task, trial: Trial, spread: Spread = "lanes") -> None:
    """Raise an error that says why, if this trial cannot run on this task."""
    if trial.world.num_clients != task.num_clients:
        raise ValueError(
            f"the world has {trial.world.num_clients} clients, but the task {task.num_clients}: they must be as many"
        )
    check_trial_in_fleet(task.fleet, trial)
    shapes = once_per_kind(_state_shapes, task, trial)
    check_memory(trial.strategy, task.fleet, shapes, devices=num_memories(spread))


def _state_shapes(task: Task, trial: Trial) -> PyTree:
    """Shapes of the strategy's state and of its clients'."""

    def state() -> PyTree:
        params = task.init(jr.key(0))
        return trial.strategy.init(task.fleet, params), trial.client.init(params, task.num_clients)

    return eqx.filter_eval_shape(state)


def check_trial_in_fleet(fleet: Fleet, trial: Trial) -> None:
    """Raise an error that says why, if this strategy cannot serve this fleet in this world."""
    trial.strategy.check(fleet)
    trial.server.check(trial.strategy)
    durations = trial.world.durations
    trial.kept_pace.check(fleet.num_clients, 0 if durations is None else durations.shortest)
    for whose, rate in (("local", trial.local.learning_rate), ("the server's", trial.server.learning_rate)):
        check_schedule(f"{whose} learning_rate", rate)
    check_uploads(trial.strategy, trial.uploads)
    wanted = {"pi", "lam"} & set(trial.strategy.needs)
    if wanted and isinstance(trial.facts, Oracle) and not isinstance(trial.world.availability, ErgodicProcess):
        name, process = type(trial.strategy).__name__, type(trial.world.availability).__name__
        raise ValueError(
            f"{name} needs {' and '.join(sorted(wanted))}, but {process} has no stationary law for an oracle: "
            "let the server estimate them (facts = Online())"
        )


def check_length(trial: Trial, rounds: int) -> None:
    """Raise a ValueError if a run is over before any work can be."""
    durations = trial.world.durations
    if durations is not None and durations.shortest >= rounds:
        raise ValueError(
            f"rounds = {rounds:,}: all work takes {durations.shortest + 1:,} ticks or more, so that nobody could "
            "answer: run for more ticks, or let a tick be longer"
        )


def check_uploads(strategy: Strategy[PyTree], uploads: Upload[PyTree]) -> None:
    """Raise a ValueError that says why, if a strategy cannot work with this transform of its updates."""
    side = strategy.client_side
    check_fit(
        type(strategy).__name__,
        uploads,
        by_lengths=not strategy.admits_all,
        keeps=side is not None,
        sends_changes=side is not None and side.sends_changes,
    )


@dataclass(frozen=True)
class TrialGroup:
    """Trials that have the same structure and shapes, so that they stack into one program."""

    members: tuple[int, ...]  # indices among all trials
    draws: tuple[tuple[Trial, ...], ...]  # the trials of the members: once for all seeds, or once per seed
    laws: tuple[tuple[Law | None, ...], ...]  # likewise

    @property
    def all_trials(self) -> list[Trial]:
        return [trial for trials in self.draws for trial in trials]


def group_trials(draws: Sequence[Sequence[Trial]]) -> list[TrialGroup]:
    """All trials, grouped where they differ in numbers only; the law of a shared world is computed once.

    There is one draw of the trials' worlds for all seeds, or one per seed; they differ in numbers only.
    """
    trials = draws[0]
    kinds: list[tuple[object, list[int]]] = []
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
    worlds = {id(trial.world): trial.world for trials in draws for trial in trials}
    laws = {key: world.law() for key, world in worlds.items()}
    groups = []
    for _, members in kinds:
        chosen = tuple(tuple(trials[i] for i in members) for trials in draws)
        groups.append(
            TrialGroup(tuple(members), chosen, tuple(tuple(laws[id(trial.world)] for trial in own) for own in chosen))
        )
    return groups


def as_arrays(trial: Trial) -> Trial:
    """Plain numbers as arrays, so that hyper-parameters are traced rather than compiled in."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, bool | np.bool_):
            return jax.device_put(np.bool_(leaf))
        if isinstance(leaf, int | np.integer) and abs(int(leaf)) < 2**31:  # wider ones are as good as floats
            return jax.device_put(np.int32(leaf))
        return jax.device_put(np.float32(leaf)) if isinstance(leaf, int | float | np.number) else leaf

    return jax.tree.map(convert, trial)
