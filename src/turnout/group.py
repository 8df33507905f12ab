"""Trials that differ in numbers only, run as one program, vmapped together with the seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout import loop
from turnout.history import History
from turnout.loop import Plan, Trial
from turnout.tasks.base import Task
from turnout.world import World


@dataclass(frozen=True)
class Pace:
    """How long to run, and when to look."""

    rounds: int
    every: int  # rounds between evaluations
    segment: int | None  # rounds between reports of progress
    metrics: tuple[str, ...] | None

    @property
    def blocks(self) -> int:
        """Evaluations: one before each block of rounds, and one at the end."""
        return -(-self.rounds // self.every) + 1

    @property
    def stride(self) -> int:
        """Blocks of one segment."""
        return self.blocks if self.segment is None else min(self.blocks, max(1, -(-self.segment // self.every)))


def alike(trials: Sequence[Trial]) -> list[list[int]]:
    """Indices of trials that have the same structure and shapes, so that they stack into one."""
    found: list[tuple[Any, list[int]]] = []
    for index, trial in enumerate(trials):
        arrays, rest = eqx.partition(_as_arrays(trial), eqx.is_array)
        shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)]
        kind = (jax.tree.structure(arrays), shapes, jax.tree.leaves(rest))
        for other, members in found:
            if other == kind:
                members.append(index)
                break
        else:
            found.append((kind, [index]))
    return [members for _, members in found]


def _as_arrays(trial: Trial) -> Trial:
    """Plain numbers as arrays, so that hyper-parameters are traced rather than compiled in."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, bool | np.bool_):
            return jnp.asarray(leaf)
        if isinstance(leaf, int | np.integer):
            return jnp.asarray(leaf, jnp.int32)
        return jnp.asarray(leaf, jnp.float32) if isinstance(leaf, float | np.floating) else leaf

    return jax.tree.map(convert, trial)


def run_group(
    task: Task, trials: list[Trial], seeds: tuple[int, ...], pace: Pace, report: Callable[[int], None]
) -> list[History]:
    """One history a trial. Segments only pace the reports; the program is the same for every cut."""
    arrays, rest = zip(*(eqx.partition(_as_arrays(trial), eqx.is_array) for trial in trials), strict=True)
    stacked = eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])
    laws = [trial.world.law() for trial in trials]
    law = None if laws[0] is None else jax.tree.map(lambda *leaves: jnp.stack(leaves), *laws)
    roots = jax.vmap(jr.key)(jnp.asarray(seeds, jnp.uint32))
    plan = _plan(task, trials, stacked, roots, pace)
    carry = _begin(task, stacked, roots, plan.slots)
    metrics, records = [], []
    for first in range(0, pace.blocks, pace.stride):
        last = min(first + pace.stride, pace.blocks)
        bounds = loop.Bounds(*(jnp.asarray(n, jnp.int32) for n in (first, last, pace.every, pace.rounds)))
        carry, written = _advance((task, stacked, law, plan, roots, bounds), carry)
        done = min(last * pace.every, pace.rounds)
        metrics.append({name: np.asarray(v)[..., : last - first] for name, v in written.metrics.items()})
        records.append({name: np.asarray(v)[..., : done - first * pace.every] for name, v in written.records.items()})
        report(done)
    return _histories(task, stacked, carry, _joined(metrics), _joined(records), plan.slots, seeds, pace)


def _plan(task: Task, trials: list[Trial], stacked: Trial, roots: Any, pace: Pace) -> Plan:
    num_clients = task.num_clients
    needed = {trial.strategy.capacity(crowd) for trial in trials for crowd in (1, num_clients)}
    crowd = num_clients
    if len(needed) > 1 or trials[0].strategy.probes:
        crowd = int(jnp.max(_most_available(stacked.world, roots, jnp.asarray(pace.rounds, jnp.int32))))
    common = {trial.world.compute.common for trial in trials}
    return Plan(
        slots=min(num_clients, _rounded(max(trial.strategy.capacity(crowd) for trial in trials))),
        most_available=min(num_clients, _rounded(crowd)),
        room=_room(pace.blocks),
        round_room=_room(pace.rounds),
        common_steps=common.pop() if len(common) == 1 else None,
        most_steps=max(trial.world.compute.most for trial in trials),
        chunk=8 if jax.default_backend() == "cpu" else 32,
        metrics=pace.metrics,
    )


def _rounded(count: int) -> int:
    """Up to a multiple of eight, so that nearby sizes share a compiled program."""
    return max(8, -(-count // 8) * 8)


def _room(count: int) -> int:
    """Up to a power of two, so that runs of similar length share a compiled program."""
    return max(64, 1 << (count - 1).bit_length())


@eqx.filter_jit
def _most_available(worlds: World, roots: Any, rounds: Any) -> Any:
    over_seeds = eqx.filter_vmap(loop.most_available, in_axes=(None, 0, None))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), None, None))(worlds, roots, rounds)


@eqx.filter_jit
def _begin(task: Task, stacked: Trial, roots: Any, slots: int) -> loop.Carry:
    over_seeds = eqx.filter_vmap(loop.begin, in_axes=(None, None, 0, None))
    return eqx.filter_vmap(over_seeds, in_axes=(None, eqx.if_array(0), None, None))(task, stacked, roots, slots)


@eqx.filter_jit(donate="all-except-first")
def _advance(inputs: tuple[Any, ...], carry: loop.Carry) -> tuple[loop.Carry, loop.Written]:
    over_seeds = eqx.filter_vmap(loop.advance, in_axes=(None, None, None, None, 0, None, 0))
    over_trials = eqx.filter_vmap(over_seeds, in_axes=(None, eqx.if_array(0), 0, None, None, None, 0))
    return over_trials(*inputs, carry)


@eqx.filter_jit
def _final(task: Task, stacked: Trial, carry: loop.Carry, slots: int, metrics: Any) -> tuple[Any, dict[str, Any]]:
    """The models to ship, and how they fare on each client."""

    def one(trial: Trial, now: loop.Carry) -> tuple[Any, dict[str, Any]]:
        params = trial.server(task, slots).model(now.server)
        found = task.per_client(params)
        return params, {name: found[name] for name in found if metrics is None or name in metrics}

    over_seeds = eqx.filter_vmap(one, in_axes=(None, 0))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), 0))(stacked, carry)


def _joined(pieces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([piece[name] for piece in pieces], axis=-1) for name in pieces[0]}


def _histories(
    task: Task,
    stacked: Trial,
    carry: loop.Carry,
    metrics: dict[str, np.ndarray],
    records: dict[str, np.ndarray],
    slots: int,
    seeds: tuple[int, ...],
    pace: Pace,
) -> list[History]:
    """What a group wrote, unstacked."""
    if overflow := int(np.nansum(records.pop("overflow"))):
        raise RuntimeError(f"{overflow} asked clients found no slot: the strategy's capacity is below what it asks")
    params, by_client = _final(task, stacked, carry, slots, pace.metrics)
    clients = carry.tally.summary(pace.rounds) | by_client
    evaluated = np.minimum(np.arange(pace.blocks) * pace.every, pace.rounds)

    def pick(tree: Any, trial: int) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf[trial]), tree)

    parts = (metrics, records, clients, params)
    count = next(iter(records.values())).shape[0]
    return [History(seeds, pace.rounds, evaluated, *(pick(part, i) for part in parts)) for i in range(count)]
