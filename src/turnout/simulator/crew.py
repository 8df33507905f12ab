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

from turnout.server.tally import Tally
from turnout.simulator import loop, mesh
from turnout.simulator.attendance import Roll
from turnout.simulator.programs import once_per_kind
from turnout.simulator.savepoint import Savepoint
from turnout.tasks.base import Task

Latest = dict[str, float]  # the newest value of each metric, mean over the lanes of a crew


@dataclass(frozen=True)
class Pace:
    """How long to run, and when to evaluate and report."""

    rounds: int
    every: int  # rounds between evaluations
    segment: int | None  # rounds between reports of progress
    metrics: tuple[str, ...] | None

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.every < 1:
            raise ValueError(f"rounds and evaluate_every must be 1 or more, not {self.rounds} and {self.every}")

    @property
    def blocks(self) -> int:
        """Evaluations: one before each block of rounds, and one at the end."""
        return -(-self.rounds // self.every) + 1

    @property
    def stride(self) -> int:
        """Blocks of one segment."""
        return self.blocks if self.segment is None else min(self.blocks, max(1, -(-self.segment // self.every)))

    def rounds_of(self, blocks: int) -> int:
        """Rounds that so many blocks have."""
        return min(blocks * self.every, self.rounds)

    def bounds(self, first: int, last: int) -> loop.Bounds:
        return loop.Bounds(*jax.device_put([np.int32(n) for n in (first, last, self.every, self.rounds)]))


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
    """Compiled parts of a run, made before threads share them: jax's configuration contexts do not reach threads."""

    begin: Callable[..., loop.Carry]
    advance: Callable[..., tuple[loop.Carry, loop.Written]]
    finish: Callable[..., tuple[Any, dict[str, Any], Tally, Roll | None]]

    most_bytes: int  # that a call takes, arguments and results included; 0 where the compiler does not say

    @classmethod
    def compiled(cls, inputs: tuple[Any, ...], pace: Pace) -> Programs:
        """Programs for these inputs, or those of an earlier call with inputs of the same kind."""
        return once_per_kind(_compiled, inputs, pace.bounds(0, 0))

    def bytes_needed(self) -> int:
        return self.most_bytes


def _compiled(inputs: tuple[Any, ...], bounds: loop.Bounds) -> Programs:
    with mesh.devices_of(inputs[-1]):  # the roots lie where all the others do
        begin = _begin.lower(*inputs).compile()
        carry = begin(*inputs)
        advance = _advance.lower((*inputs, bounds), carry).compile()
        finish = _finish.lower(inputs, carry).compile()
    return Programs(begin, advance, finish, max(map(_bytes_of, (begin, advance, finish))))


def _bytes_of(program: Any) -> int:
    sizes = program.compiled.memory_analysis()
    if sizes is None:
        return 0
    held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    return held + sizes.temp_size_in_bytes


def run_crew(
    programs: Programs, inputs: tuple[Any, ...], pace: Pace, progress: CrewProgress, savepoint: Savepoint
) -> dict[str, Any]:
    """Metrics, records, sums per client and final models of the lanes of a crew, lanes first."""
    so_far = savepoint.restored(programs.begin(*inputs))
    if so_far.blocks:
        progress.add(pace.rounds_of(so_far.blocks), so_far.joined()[0])
    while so_far.blocks < pace.blocks and not progress.stopped:
        begun, first = time.perf_counter(), so_far.blocks
        last = min(first + pace.stride, pace.blocks)
        carry, written = programs.advance((*inputs, pace.bounds(first, last)), so_far.carry)
        rounds = pace.rounds_of(last) - pace.rounds_of(first)
        written = jax.device_get(written)  # all at once: from a GPU each array by itself is a wait
        metrics = {name: values[:, : last - first] for name, values in written.metrics.items()}
        records = {name: values[:, :rounds] for name, values in written.records.items()}
        so_far.add(last, carry, metrics, records)
        so_far.seconds += time.perf_counter() - begun
        savepoint.save(so_far, now=progress.stopped)
        progress.add(rounds, metrics)
    if so_far.blocks < pace.blocks:
        return {}  # of no use, as another crew has failed or the process ends
    params, by_client, tally, roll = jax.device_get(programs.finish(inputs, so_far.carry))
    metrics, records = so_far.joined()
    clients = jax.tree.map(jnp.asarray, tally).summary(pace.rounds) | by_client
    parts = {"metrics": metrics, "records": records, "clients": clients, "params": params, "states": roll.states}
    arrays = jax.device_get(parts)
    lanes = len(roll.states)
    return arrays | {"seconds": np.full(lanes, so_far.seconds / lanes)}


# What lanes share of the task, what each has of its own, trial, law, plan, root:
_BY_LANE = (None, eqx.if_array(0), eqx.if_array(0), eqx.if_array(0), None, 0)


def _each_lane(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """A function of one lane, for all lanes of a crew; `more` are the axes of further arguments."""

    def of_lane(*inputs: Any) -> Any:
        common, own, *rest = mesh.usual_shapes(inputs)
        return function(common if own is None else eqx.combine(common, own), *rest)

    return eqx.filter_vmap(of_lane, in_axes=(*_BY_LANE, *more))


@eqx.filter_jit
def _begin(*inputs: Any) -> loop.Carry:
    def of_lane(task: Task, *rest: Any) -> loop.Carry:
        return mesh.filled_up(loop.begin(task, *rest), task.num_clients)

    return _each_lane(of_lane)(*inputs)


@eqx.filter_jit(donate="all-except-first")
def _advance(inputs: tuple[Any, ...], carry: loop.Carry) -> tuple[loop.Carry, loop.Written]:
    def of_lane(task: Task, *rest: Any) -> tuple[loop.Carry, loop.Written]:
        after, written = loop.advance(task, *rest)
        return mesh.filled_up(after, task.num_clients), mesh.everywhere(written)

    return _each_lane(of_lane, None, 0)(*inputs, carry)


@eqx.filter_jit
def _finish(inputs: tuple[Any, ...], carry: loop.Carry) -> tuple[Any, dict[str, Any], Tally, Roll | None]:
    def of_lane(*lane: Any) -> tuple[Any, dict[str, Any], Tally, Roll | None]:
        end: loop.Carry = lane[-1]
        return mesh.everywhere((*loop.finish(*lane), end.tally, end.roll))

    return _each_lane(of_lane, 0)(*inputs, carry)
