"""Trials that differ in numbers only, run as one program together with the seeds: lanes in crews, on all devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from turnout.metrics import BYTES_UPLOADED, OVERFLOW
from turnout.simulator import loop, mesh, side_by_side
from turnout.simulator.attendance import Attendance
from turnout.simulator.crew import Crew, CrewProgress, CrewResults, Latest, Programs
from turnout.simulator.history import History
from turnout.simulator.lane import Lane
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.programs import CompilerCrashError, count_group, once_per_kind
from turnout.simulator.rehearsal import rehearse
from turnout.simulator.run_plan import RunPlan
from turnout.simulator.savepoint import Savepoint
from turnout.simulator.trial import Trial, TrialGroup, as_arrays
from turnout.tasks.base import Task
from turnout.tasks.models.rewriting.rewrite import say_once
from turnout.types import Law, PerClient, PyTree, RandomKeys, Tree
from turnout.world import World


# Long: the docstring explains many arguments.
def run_group(
    tasks: Sequence[Task],
    group: TrialGroup,
    seeds: tuple[int, ...],
    run_plan: RunPlan,
    report: Callable[[int, Latest], None],
    saved: Path | None = None,
    chosen: Sequence[int] | None = None,
    spread: mesh.Spread = "lanes",
) -> list[History]:
    """One history per trial. There is one task for all seeds, or one per seed.

    A lane is a trial with a seed. A crew is the lanes that run together: on a GPU as many as its memory holds, on a CPU
    as many as its cache holds, with one crew per core. Several devices take the crews in turn. With `spread="clients"`
    lanes run one after another, each on all devices.

    `saved` is a folder of this group alone. The crews save their states there from time to time, and a later call with
    the same arguments goes on from them, to the same numbers.

    `chosen` are the trials to run, by their place in the group; all if not given. A CPU runs them by the program of the
    whole group: so their numbers are the same to the bit, however the group is shared among processes.
    """
    numbers = range(len(group.members)) if chosen is None else chosen
    lanes = np.concatenate([np.arange(len(seeds)) + number * len(seeds) for number in numbers])
    stacks = _place(Stack.of(tasks, group, seeds), tasks[0].num_clients, spread)
    count = len(group.members) * len(seeds) if side_by_side.on_cpu() else len(lanes)
    plan, width = _plan(tasks[0], group.all_trials, count, stacks[0].roots, run_plan, spread)
    record_plan = RecordPlan(_next_power(run_plan.blocks), _next_power(run_plan.rounds), run_plan.metrics)
    try:
        plan, width = _fit(
            count, plan, width, lambda plan, width: stacks[0].programs(plan, width, record_plan, run_plan)
        )
    except (jax.errors.JaxRuntimeError, CompilerCrashError) as error:
        plain = [other for other in (task.as_written() for task in tasks) if other is not None]
        if len(plain) < len(tasks):
            raise
        say_once(f"the rewritten model does not compile here, so it runs as it was written: {error}")
        return run_group(plain, group, seeds, run_plan, report, saved, chosen, spread)
    crews = [
        stacks[place % len(stacks)].crew(lanes[members], plan, record_plan, run_plan, saved)
        for place, members in enumerate(side_by_side.cut_into_crews(len(lanes), width))
    ]
    whole = _run_crews(crews, report, side_by_side.num_workers() if spread == "lanes" else 1).rows(slice(len(lanes)))
    check_overflow(whole.records.pop(OVERFLOW))
    count_group()
    return [
        _history(whole.rows(slice(place * len(seeds), (place + 1) * len(seeds))), tasks, group, number, seeds, run_plan)
        for place, number in enumerate(numbers)
    ]


def _run_crews(crews: Sequence[Crew], report: Callable[[int, Latest], None], num_threads: int) -> CrewResults:
    """The results of all lanes, one crew after another; so many crews run at once."""
    progress = CrewProgress(report, len(crews))
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            parts = list(pool.map(lambda crew: crew.run(progress), crews))
        except BaseException:  # of one crew, or Ctrl-C: the others need not go on to their end
            progress.stop()
            raise
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@dataclass(frozen=True)
class Stack:
    """All lanes of a group, trial by trial and in each seed by seed, before they are cut into crews."""

    shared: Task
    own: Task | None  # one row per seed, where each has a task of its own
    trials: Trial  # stacked: those of the first draw, of the second, …
    laws: Law | None
    roots: RandomKeys  # one per seed
    num_trials: int
    num_draws: int
    cut: Callable[[PyTree], PyTree] = lambda lanes: lanes  # where the rows of a crew are placed anew

    @classmethod
    def of(cls, tasks: Sequence[Task], group: TrialGroup, seeds: tuple[int, ...]) -> Stack:
        trials = _stack([as_arrays(trial) for trial in group.all_trials])
        laws = _stack([law for of_draw in group.laws for law in of_draw])
        shared, own = tasks[0].beside(tasks) if len(tasks) > 1 else (tasks[0], None)
        roots = jax.vmap(jr.key)(jnp.asarray(seeds, jnp.uint32))
        return cls(shared, own, trials, laws, roots, len(group.members), len(group.draws))

    def lanes(self, numbers: np.ndarray, plan: Plan, record_plan: RecordPlan) -> Lane:
        """The lanes of these numbers, side by side."""
        trial, seed = np.divmod(numbers, len(self.roots))
        rows = trial + self.num_trials * (seed if self.num_draws > 1 else 0)
        parts = _rows(self.own, seed), *_rows((self.trials, self.laws), rows), _rows(self.roots, seed)
        own, trials, laws, roots = self.cut(parts)
        return Lane(self.shared, own, trials, laws, roots, plan, record_plan)

    def programs(self, plan: Plan, width: int, record_plan: RecordPlan, run_plan: RunPlan) -> Programs:
        """Programs for so many lanes side by side."""
        return Programs.of(self.lanes(np.arange(width), plan, record_plan), run_plan)

    def crew(
        self, numbers: np.ndarray, plan: Plan, record_plan: RecordPlan, run_plan: RunPlan, saved: Path | None
    ) -> Crew:
        """The crew of the lanes of these numbers; `saved` is the folder of its group."""
        lanes = self.lanes(numbers, plan, record_plan)
        return Crew(Programs.of(lanes, run_plan), lanes, run_plan, Savepoint.of_crew(saved, numbers))


def _place(stack: Stack, num_clients: int, spread: mesh.Spread) -> list[Stack]:
    """The stack on every device; or one of which each lane is spread over all of them."""
    if spread == "clients":
        shared = mesh.over_all_devices(stack.shared, num_clients)
        return [replace(stack, shared=shared, cut=lambda lanes: mesh.over_all_devices(lanes, num_clients, axis=1))]
    arrays = (stack.shared, stack.own, stack.trials, stack.laws, stack.roots)
    names = ("shared", "own", "trials", "laws", "roots")
    return [replace(stack, **dict(zip(names, placed, strict=True))) for placed in side_by_side.on_every_device(arrays)]


def _stack(trees: Sequence[Tree]) -> Tree:
    """One tree, with the given ones as rows of its arrays."""
    arrays, rest = zip(*(eqx.partition(tree, eqx.is_array) for tree in trees), strict=True)
    return eqx.combine(jax.device_put(jax.tree.map(_stack_leaf, *arrays)), rest[0])


def _stack_leaf(*leaves: Array) -> Array | np.ndarray:
    if jnp.issubdtype(leaves[0].dtype, jax.dtypes.prng_key):
        return jnp.stack(leaves)
    return np.stack([np.asarray(leaf) for leaf in leaves])  # on the host: no program for each number of trials


def _rows(tree: Tree, rows: np.ndarray) -> Tree:
    """These rows of all arrays."""
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    if arrays and np.array_equal(rows, np.arange(len(arrays[0]))):
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(_take_rows(arrays, rows), rest)


@jax.jit
def _take_rows(arrays: PyTree, rows: np.ndarray | Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rows], arrays)


def _plan(
    task: Task, trials: Sequence[Trial], lanes: int, roots: RandomKeys, run_plan: RunPlan, spread: mesh.Spread
) -> tuple[Plan, int]:
    """The plan, which fixes shapes, and the number of lanes that should run side by side."""
    num_clients = task.num_clients
    needed = {trial.strategy.capacity(crowd) for trial in trials for crowd in (1, num_clients)}
    crowd = usual = num_clients
    if len(needed) > 1 or trials[0].strategy.needs_losses:
        worlds = {id(trial.world): as_arrays(trial).world for trial in trials}
        # Counted over the whole record_plan, so that every length that fits into it shares the program.
        crowd, usual = crowd_sizes(list(worlds.values()), roots, _next_power(run_plan.rounds))
    slots, often = (max(trial.strategy.capacity(size) for trial in trials) for size in (crowd, usual))
    places = closing = 0
    mean = None
    if trials[0].timed:
        most_steps = max(trial.world.compute.most for trial in trials)
        sizes = rehearse(task.fleet, trials, roots, _next_power(run_plan.rounds), most_steps)
        slots, often, mean = sizes.asked, sizes.usual, sizes.mean
        places, closing = (min(num_clients, side_by_side.slots_for(size)) for size in (sizes.busy, sizes.closing))
    steps = {trial.world.compute.common for trial in trials}
    common = steps.pop() if len(steps) == 1 else None
    slots = min(num_clients, side_by_side.slots_for(slots))
    together = closing or slots  # that train together
    job = once_per_kind(side_by_side.job_floats_of, task, trials[0].local.batch_size)
    alike, devices = common is not None, mesh.num_devices(spread)
    width = 1 if spread == "clients" else side_by_side.lanes_together(lanes, together, job, alike)
    plan = Plan(
        slots=slots,
        most_available=min(num_clients, side_by_side.slots_for(crowd)),
        common_steps=common,
        most_steps=max(trial.world.compute.most for trial in trials),
        chunk=side_by_side.slots_together(task, together, often, width, job, alike and not closing, devices),
        places=places,
        closing=closing,
        first=side_by_side.first_pass(task, mean, closing, devices) if alike and mean is not None else None,
    )
    return plan, width


def crowd_sizes(worlds: list[World], roots: RandomKeys, rounds: int) -> tuple[int, int]:
    """The largest number of clients available at once, and a number that is rarely exceeded."""
    if all(eqx.tree_equal(worlds[0], other) is True for other in worlds[1:]):
        worlds = worlds[:1]
    crowd = jax.device_get(_count_crowd(_stack(worlds), roots, jax.device_put(np.int32(rounds))))
    mean = np.asarray(crowd.total, np.float64) / rounds
    spread = np.sqrt(np.maximum(np.asarray(crowd.squares, np.float64) / rounds - mean**2, 0.0))
    return int(np.max(crowd.most)), int(np.ceil(np.max(mean + spread)))


def _next_power(count: int) -> int:
    """The next power of two, 64 at least, so that runs of similar length share a compiled program."""
    return max(64, 1 << (count - 1).bit_length())


def _fit(lanes: int, plan: Plan, width: int, compile_for: Callable[[Plan, int], Programs]) -> tuple[Plan, int]:
    """A plan and a width that fit on the device: fewer lanes side by side if necessary, and then fewer slots."""
    limit = side_by_side.memory()
    while True:
        need = compile_for(plan, width).most_bytes
        if limit is None or need <= limit or (width == 1 and plan.chunk == 1):
            return plan, width
        if width > 1:
            width = side_by_side.even(lanes, max(1, min(width - 1, int(width * limit / need))))
        else:
            plan = replace(plan, chunk=max(1, min(plan.chunk, plan.slots) // 2))


@eqx.filter_jit
def _count_crowd(worlds: World, roots: RandomKeys, rounds: Array) -> loop.Crowd:
    over_seeds = eqx.filter_vmap(loop.count_crowd, in_axes=(None, 0, None))
    return eqx.filter_vmap(over_seeds, in_axes=(eqx.if_array(0), None, None))(worlds, roots, rounds)


def check_overflow(overflow: np.ndarray) -> None:
    """Refuse a result in which a strategy asked more clients than its capacity."""
    if unplaced := int(np.nansum(overflow)):
        raise RuntimeError(f"{unplaced} asked clients found no slot: the strategy's capacity is below what it asks")


def _history(
    results: CrewResults,
    tasks: Sequence[Task],
    group: TrialGroup,
    number: int,
    seeds: tuple[int, ...],
    run_plan: RunPlan,
) -> History:
    """The history of one trial of a group, from the results of its lanes."""
    stride = _next_power(run_plan.rounds) // results.states.shape[1]
    attendance = Attendance.of(seeds[0], results.states[0], stride, run_plan.rounds, tasks[0].num_clients)
    laws = [of_draw[number] for of_draw in group.laws]
    durations = group.draws[0][number].world.durations
    uploads, model = results.records["uploads"].astype(np.int64), once_per_kind(side_by_side.model_shapes, tasks[0])
    return History(
        seeds,
        run_plan.rounds,
        run_plan.evaluated,
        metrics=results.metrics,
        records=results.records | {BYTES_UPLOADED: uploads * group.draws[0][number].client.num_bytes(model)},
        clients=results.clients,
        params=results.params,
        attendance=attendance,
        ages=results.ages,
        tick_seconds=None if durations is None else durations.tick_seconds,
        seconds=float(results.seconds.mean()),
        target=_by_draw([task.fleet.target for task in tasks]),
        pi=_by_draw([None if law is None else law.pi for law in laws]),
        lam=_by_draw([None if law is None else law.lam for law in laws]),
        duration=_by_draw([of_draw[number].world.mean_ticks() for of_draw in group.draws]),
    )


def _by_draw(values: Sequence[PerClient | np.ndarray | None]) -> np.ndarray | None:
    """One number per client; one row per seed if every seed has a draw of its own; None where there is nothing."""
    if values[0] is None:
        return None
    return np.asarray(values[0]) if len(values) == 1 else np.stack([np.asarray(row) for row in values])
