"""Trials that differ in numbers only, run as one program together with the seeds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.metrics import BYTES_UPLOADED, OVERFLOW
from turnout.simulator import loop, mesh
from turnout.simulator import placement as side_by_side
from turnout.simulator.attendance import Attendance
from turnout.simulator.clients import Plan
from turnout.simulator.crew import CrewProgress, Latest, Pace, Programs, run_crew
from turnout.simulator.history import History
from turnout.simulator.programs import group_ran, once_per_kind
from turnout.simulator.savepoint import Savepoint
from turnout.simulator.trial import Trial, TrialGroup, as_arrays
from turnout.tasks.base import Task
from turnout.uploads import Plain
from turnout.world import World


def run_group(
    tasks: Sequence[Task],
    group: TrialGroup,
    seeds: tuple[int, ...],
    pace: Pace,
    report: Callable[[int, Latest], None],
    saved: Path | None = None,
    chosen: Sequence[int] | None = None,
    spread: mesh.Spread = "lanes",
) -> list[History]:
    """One history per trial. There is one task for all seeds, or one per seed.

    Every pair of a trial and a seed is a lane. A GPU runs as many lanes together as its memory holds. A CPU runs as
    many together as its cache holds, and such crews on all cores at once: side by side, large lanes only push each
    other out of the cache. Where there are several devices, the crews take them in turn. With `spread="clients"` lanes
    run one after another, each on all devices.

    `saved` is a folder of this group alone, where the crews leave their states from time to time: a later call with the
    same arguments goes on from there, and ends with the same numbers.

    `chosen` are the trials to run, by their place in the group, all if not given. On a CPU they run by the program of
    the whole group, so that their numbers are the same to the bit whoever runs the others.
    """
    roots = jax.vmap(jr.key)(jnp.asarray(seeds, jnp.uint32))
    num_trials, num_draws = len(group.members), len(group.draws)
    numbers = range(num_trials) if chosen is None else chosen
    lanes = np.concatenate([np.arange(len(seeds)) + number * len(seeds) for number in numbers])
    count = num_trials * len(seeds) if side_by_side.on_cpu() else len(lanes)
    stacked = _stack([as_arrays(trial) for trial in group.all_trials]), _stack(list(itertools.chain(*group.laws)))
    common, own = tasks[0].beside(tasks) if len(tasks) > 1 else (tasks[0], None)

    if spread == "clients":
        placed = [(mesh.over_all_devices(common, tasks[0].num_clients), own, stacked, roots)]
    else:
        placed = side_by_side.on_every_device((common, own, stacked, roots))

    def inputs(plan: Plan, crew: np.ndarray, number: int) -> tuple[Any, ...]:
        trial, seed = np.divmod(crew, len(seeds))
        rows = trial + num_trials * (seed if num_draws > 1 else 0)
        common, own, stacked, roots = placed[number % len(placed)]
        lane = (_rows(own, seed), *_rows(stacked, rows), plan, _rows(roots, seed))
        return common, *(mesh.over_all_devices(lane, tasks[0].num_clients, axis=1) if spread == "clients" else lane)

    def compiled(plan: Plan, width: int, device: int = 0) -> Programs:
        return Programs.compiled(inputs(plan, np.arange(width), device), pace)

    plan, width, first = _fitting(count, *_plan(tasks[0], group.all_trials, count, roots, pace, spread), compiled)
    crews = [lanes[crew] for crew in side_by_side.crews_of(len(lanes), width)]
    programs = [first, *(compiled(plan, width, device) for device in range(1, min(len(placed), len(crews))))]
    progress = CrewProgress(report, len(crews))

    def run(number: int, crew: np.ndarray) -> dict[str, Any]:
        own_programs, saving = programs[number % len(programs)], Savepoint.of_crew(saved, crew)
        return run_crew(own_programs, inputs(plan, crew, number), pace, progress, saving)

    with ThreadPoolExecutor(side_by_side.num_workers() if spread == "lanes" else 1) as pool:
        try:
            parts = list(pool.map(run, range(len(crews)), crews))
        except BaseException:  # of one crew, or Ctrl-C: the others need not go on to their end
            progress.stop()
            raise
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(lanes)], *parts)
    histories = _histories(whole, tasks, group, numbers, seeds, pace, plan)
    group_ran()
    return histories


def _stack(trees: Sequence[Any]) -> Any:
    arrays, rest = zip(*(eqx.partition(tree, eqx.is_array) for tree in trees), strict=True)
    return eqx.combine(jax.device_put(jax.tree.map(_one_above_the_other, *arrays)), rest[0])


def _one_above_the_other(*leaves: Any) -> Any:
    if jnp.issubdtype(leaves[0].dtype, jax.dtypes.prng_key):
        return jnp.stack(leaves)
    return np.stack([np.asarray(leaf) for leaf in leaves])  # on the host: no program for each number of trials


def _rows(tree: Any, rows: np.ndarray) -> Any:
    """These rows of all arrays."""
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    if arrays and np.array_equal(rows, np.arange(len(arrays[0]))):
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(_take_rows(arrays, rows), rest)


@jax.jit
def _take_rows(arrays: Any, rows: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[rows], arrays)


def _plan(
    task: Task, trials: Sequence[Trial], lanes: int, roots: Any, pace: Pace, spread: mesh.Spread
) -> tuple[Plan, int]:
    """The plan, which fixes shapes, and the number of lanes that should run side by side."""
    num_clients = task.num_clients
    needed = {trial.strategy.capacity(crowd) for trial in trials for crowd in (1, num_clients)}
    crowd = usual = num_clients
    if len(needed) > 1 or trials[0].strategy.probes:
        worlds = {id(trial.world): as_arrays(trial).world for trial in trials}
        # Counted over the whole room, so that every length that fits into it shares the program.
        crowd, usual = crowd_sizes(list(worlds.values()), roots, _room(pace.rounds))
    slots, often = (max(trial.strategy.capacity(size) for trial in trials) for size in (crowd, usual))
    steps = {trial.world.compute.common for trial in trials}
    common = steps.pop() if len(steps) == 1 else None
    slots = min(num_clients, side_by_side.slots_for(slots))
    job = once_per_kind(side_by_side.job_floats_of, task, trials[0].local.batch_size)
    alike, devices = common is not None, mesh.num_devices(spread)
    width = 1 if spread == "clients" else side_by_side.lanes_together(lanes, slots, job, alike)
    plan = Plan(
        slots=slots,
        most_available=min(num_clients, side_by_side.slots_for(crowd)),
        room=_room(pace.blocks),
        round_room=_room(pace.rounds),
        common_steps=common,
        most_steps=max(trial.world.compute.most for trial in trials),
        chunk=side_by_side.slots_together(task, slots, often, width, job, alike, devices),
        metrics=pace.metrics,
    )
    return plan, width


def crowd_sizes(worlds: list[World], roots: Any, rounds: int) -> tuple[int, int]:
    """The largest number of clients available at once, and a number that is rarely exceeded."""
    if all(eqx.tree_equal(worlds[0], other) is True for other in worlds[1:]):
        worlds = worlds[:1]
    crowd = jax.device_get(_count_crowd(_stack(worlds), roots, jax.device_put(np.int32(rounds))))
    mean = np.asarray(crowd.total, np.float64) / rounds
    spread = np.sqrt(np.maximum(np.asarray(crowd.squares, np.float64) / rounds - mean**2, 0.0))
    return int(np.max(crowd.most)), int(np.ceil(np.max(mean + spread)))


def _room(count: int) -> int:
    """The next power of two, 64 at least, so that runs of similar length share a compiled program."""
    return max(64, 1 << (count - 1).bit_length())


def _fitting(
    lanes: int, plan: Plan, width: int, compiled: Callable[[Plan, int], Programs]
) -> tuple[Plan, int, Programs]:
    """Programs that fit on the device: with fewer lanes side by side if necessary, and then with fewer slots."""
    limit = side_by_side.memory()
    while True:
        programs = compiled(plan, width)
        need = programs.bytes_needed()
        if limit is None or need <= limit or (width == 1 and plan.chunk == 1):
            return plan, width, programs
        if width > 1:
            width = side_by_side.even(lanes, max(1, min(width - 1, int(width * limit / need))))
        else:
            plan = replace(plan, chunk=max(1, min(plan.chunk, plan.slots) // 2))


@eqx.filter_jit
def _count_crowd(worlds: World, roots: Any, rounds: Any) -> loop.Crowd:
    over_seeds = eqx.filter_vmap(loop.count_crowd, in_axes=(None, 0, None))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), None, None))(worlds, roots, rounds)


def check_overflow(overflow: np.ndarray) -> None:
    """Refuse a result in which a strategy asked more clients than its capacity."""
    if unplaced := int(np.nansum(overflow)):
        raise RuntimeError(f"{unplaced} asked clients found no slot: the strategy's capacity is below what it asks")


def _histories(
    whole: dict[str, Any],
    tasks: Sequence[Task],
    group: TrialGroup,
    numbers: Sequence[int],
    seeds: tuple[int, ...],
    pace: Pace,
    plan: Plan,
) -> list[History]:
    """One history per trial of these numbers, from the results of their lanes."""
    check_overflow(whole["records"].pop(OVERFLOW))
    evaluated = np.minimum(np.arange(pace.blocks) * pace.every, pace.rounds)
    params, target = once_per_kind(side_by_side.model_shapes, tasks[0]), _by_draw([task.fleet.target for task in tasks])

    def history(place: int, number: int) -> History:
        rows = slice(place * len(seeds), (place + 1) * len(seeds))
        results = jax.tree.map(lambda leaf: leaf[rows], whole)
        states, seconds = results.pop("states")[0], float(results.pop("seconds").mean())
        stride = plan.round_room // len(states)
        attendance = Attendance.of(seeds[0], states, stride, pace.rounds, tasks[0].num_clients)
        uploads, upload = results["records"]["uploads"], group.draws[0][number].upload or Plain()
        results["records"][BYTES_UPLOADED] = uploads.astype(np.int64) * upload.num_bytes(params)
        laws = [of_draw[number] for of_draw in group.laws]
        pi, lam = (None, None) if laws[0] is None else map(_by_draw, zip(*laws, strict=True))
        fleet = {"target": target, "pi": pi, "lam": lam}
        return History(seeds, pace.rounds, evaluated, **results, attendance=attendance, seconds=seconds, **fleet)

    return [history(place, number) for place, number in enumerate(numbers)]


def _by_draw(values: Sequence[Any]) -> np.ndarray:
    """One number per client; one row per seed if every seed has a draw of its own."""
    return np.asarray(values[0]) if len(values) == 1 else np.stack([np.asarray(row) for row in values])
