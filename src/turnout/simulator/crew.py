"""A crew: the lanes that one program runs side by side, segment after segment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from turnout.server.tally import Tally
from turnout.simulator import loop, mesh
from turnout.simulator.ages import Ages
from turnout.simulator.attendance import Roll
from turnout.simulator.carry import Carry
from turnout.simulator.lane import Lane
from turnout.simulator.programs import in_turn, once_per_kind
from turnout.simulator.run_plan import Bounds, RunPlan
from turnout.simulator.savepoint import Savepoint, SoFar
from turnout.strategies.memory_rows import GIB, bytes_of, device_memory
from turnout.types import Params, PyTree, Tree

Latest = dict[str, float]  # the newest value of each metric, mean over the lanes of a crew


class CrewProgress:
    """Reports the mean number of finished rounds over the crews, with the metrics of the crew that moved on last."""

    def __init__(self, report: Callable[[int, Latest], None], crews: int) -> None:
        self._report, self._crews, self._done = report, crews, 0
        self._lock = threading.Lock()
        self.stopped = False

    def stop(self) -> None:
        """Let every crew end after its segment."""
        self.stopped = True

    def add(self, rounds: int, metrics: dict[str, np.ndarray]) -> None:
        latest = {name: float(values[:, -1].mean()) for name, values in metrics.items()}
        with self._lock:
            self._done += rounds
            self._report(self._done // self._crews, latest)


class Programs(NamedTuple):
    """Compiled parts of a run. They are made before threads start, which do not see jax's settings of the caller."""

    begin: Callable[[Lane], Carry]
    advance: Callable[[tuple[Lane, Bounds], Carry], tuple[Carry, loop.Written]]
    finish: Callable[[Lane, Carry], Finished]

    most_bytes: int  # memory of the largest call, arguments and results included; 0 if unknown

    @classmethod
    def of(cls, lanes: Lane, run_plan: RunPlan) -> Programs:
        """Programs for these lanes, or those of an earlier call with lanes of the same kind."""
        return once_per_kind(_compile, lanes, run_plan.bounds(0, 0))


def _compile(lanes: Lane, bounds: Bounds) -> Programs:
    with mesh.devices_of(lanes.root):  # all arrays of a lane lie where its root lies
        _check_places(lanes)
        begin = _compile_for(_begin, lanes)
        carry = begin(lanes)
        advance = _compile_for(_advance, (lanes, bounds), carry)
        finish = _compile_for(_finish, lanes, carry)
    return Programs(begin, advance, finish, max(map(_bytes_of, (begin, advance, finish))))


def _check_places(lanes: Lane) -> None:
    """Refuse work under way that does not fit on the device, with all that was sent, before it is allocated."""
    if not lanes.trial.timed:
        return
    needed, room = bytes_of(eqx.filter_eval_shape(_begin, lanes).time) / lanes.root.size, device_memory()
    if room is not None and needed > room:
        raise ValueError(
            f"work under way holds {needed / GIB:.1f} GiB for {lanes.plan.places} clients at once, each seed as "
            f"much again, but the device has {room / GIB:.1f} GiB: give the pace a `concurrency`, or take a "
            "smaller model"
        )


def _compile_for(function: Any, *arguments: PyTree) -> Any:
    """A jitted function, which equinox types as a plain one, compiled for arguments of these kinds."""
    return in_turn(function.lower(*arguments).compile())


def _bytes_of(program: Any) -> int:
    sizes = program.compiled.memory_analysis()
    if sizes is None:
        return 0
    held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    return held + sizes.temp_size_in_bytes


class Finished(NamedTuple):
    """What a program gives at the end of a run, lanes first."""

    params: Params
    by_client: dict[str, Array]  # metrics
    tally: Tally
    roll: Roll | None
    ages: Ages | None


class CrewResults(NamedTuple):
    """Results of the lanes of a crew, lanes first."""

    metrics: dict[str, np.ndarray]
    records: dict[str, np.ndarray]
    clients: dict[str, np.ndarray]
    params: Params
    states: np.ndarray  # of the clients, as in `Roll`
    ages: np.ndarray | None  # how many updates of each age were used, where work takes time
    seconds: np.ndarray  # that the lane took

    def rows(self, rows: slice) -> CrewResults:
        """The results of these lanes."""
        return jax.tree.map(lambda leaf: leaf[rows], self)


@dataclass(frozen=True)
class Crew:
    """Lanes that one program runs side by side."""

    programs: Programs
    lanes: Lane
    run_plan: RunPlan
    savepoint: Savepoint

    def run(self, progress: CrewProgress) -> CrewResults:
        """Play all segments that are left."""
        plan, so_far = self.run_plan, self.savepoint.restore(self.programs.begin(self.lanes))
        if so_far.blocks:
            progress.add(plan.rounds_of(so_far.blocks), so_far.join()[0])
        while so_far.blocks < plan.blocks and not progress.stopped:
            started, first = time.perf_counter(), so_far.blocks
            last = min(first + plan.stride, plan.blocks)
            carry, written = self.programs.advance((self.lanes, plan.bounds(first, last)), so_far.carry)
            rounds = plan.rounds_of(last) - plan.rounds_of(first)
            written = jax.device_get(written)  # all at once: a GPU makes us wait for each transfer
            metrics = {name: values[:, : last - first] for name, values in written.metrics.items()}
            records = {name: values[:, :rounds] for name, values in written.records.items()}
            so_far.add(last, carry, metrics, records)
            so_far.seconds += time.perf_counter() - started
            self.savepoint.save(so_far, now=progress.stopped)
            progress.add(rounds, metrics)
        if so_far.blocks < plan.blocks:
            raise StoppedError
        return self._results(so_far)

    def _results(self, so_far: SoFar) -> CrewResults:
        params, by_client, tally, roll, ages = jax.device_get(self.programs.finish(self.lanes, so_far.carry))
        metrics, records = so_far.join()
        clients = jax.tree.map(jnp.asarray, tally).summary(self.run_plan.rounds) | by_client
        if ages is not None:
            clients |= jax.tree.map(jnp.asarray, ages).summary()
        seconds = np.full(len(roll.states), so_far.seconds / len(roll.states))
        bins = None if ages is None else ages.bins
        return jax.device_get(CrewResults(metrics, records, clients, params, roll.states, bins, seconds))


class StoppedError(Exception):
    """A crew has ended early, since another one has failed or the process ends."""


def _each_lane(function: Callable[..., Tree], lanes: Lane, *more: int | None) -> Callable[..., Tree]:
    """A function of one lane, for all lanes of a crew; `more` are the axes of further arguments."""

    def of_lane(lane: Lane, *rest: PyTree) -> Tree:
        return function(mesh.usual_shapes(lane), *mesh.usual_shapes(rest))

    return eqx.filter_vmap(of_lane, in_axes=(lanes.axes, *more))


@eqx.filter_jit
def _begin(lanes: Lane) -> Carry:
    def of_lane(lane: Lane) -> Carry:
        return mesh.fill_up(loop.begin(lane), lane.task.num_clients)

    return _each_lane(of_lane, lanes)(lanes)


@eqx.filter_jit(donate="all-except-first")
def _advance(inputs: tuple[Lane, Bounds], carry: Carry) -> tuple[Carry, loop.Written]:
    def of_lane(lane: Lane, bounds: Bounds, carry: Carry) -> tuple[Carry, loop.Written]:
        after, written = loop.advance(lane, bounds, carry)
        return mesh.fill_up(after, lane.task.num_clients), mesh.everywhere(written)

    lanes, bounds = inputs
    return _each_lane(of_lane, lanes, None, 0)(lanes, bounds, carry)


@eqx.filter_jit
def _finish(lanes: Lane, carry: Carry) -> Finished:
    def of_lane(lane: Lane, end: Carry) -> Finished:
        ages = None if end.time is None else end.time.ages
        return mesh.everywhere(Finished(*loop.finish(lane, end), end.tally, end.roll, ages))

    return _each_lane(of_lane, lanes, 0)(lanes, carry)
