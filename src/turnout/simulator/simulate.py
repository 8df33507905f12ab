"""Train strategies in worlds: the two calls, and what they check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import equinox as eqx
import jax.random as jr

from turnout.declarations import MAX_RUNS, Count, Numbers, NumRounds, Seed, checked, hold
from turnout.paces import Pace
from turnout.server.settings import ServerSettings
from turnout.simulator.batching import run_group
from turnout.simulator.client_optimizer import Local
from turnout.simulator.crew import Latest
from turnout.simulator.history import History
from turnout.simulator.mesh import Spread
from turnout.simulator.programs import once_per_kind
from turnout.simulator.run_plan import RunPlan
from turnout.simulator.trial import Trial, check_length, check_trial, group_trials
from turnout.strategies.base import Strategy
from turnout.tasks.base import Task
from turnout.types import PyTree
from turnout.uploads import Plain, Upload
from turnout.world import World

Progress = Callable[[int, int], None]  # called with rounds done and rounds in all
Seeds = Annotated[int, Numbers(1, MAX_RUNS)] | Sequence[Seed]  # how many, 0, 1, …, or which ones
Watcher = Callable[[Latest], None]  # called with the newest value of each metric


# Long: the docstring explains many arguments.
@checked
def simulate(  # noqa: PLR0913 (the user's settings, all but three by name)
    task: Task,
    world: World,
    strategy: Strategy[PyTree],
    *,
    rounds: NumRounds,
    seeds: Seeds = 1,
    local: Local | None = None,
    uploads: Upload[PyTree] | None = None,
    pace: Pace | None = None,
    evaluate_every: NumRounds = 1,
    metrics: Sequence[str] | None = None,
    segment: Count | None = None,
    progress: Progress | None = None,
    spread: Spread = "lanes",
    **server: Any,
) -> History:
    """Train one strategy in one world, once per seed, and return the histories.

    Args:
        task: the clients' data and model.
        world: which clients are available, whose uploads arrive, how much local work is done.
        strategy: the server's algorithm.
        rounds: T, the number of rounds; of ticks, where work takes time or the server keeps another pace.
        seeds: how many seeds (0, 1, …), or which ones; a seed determines the world, the selection and the training.
        local: the clients' optimizer.
        uploads: what happens to an update on its way to the server; nothing if not given.
        pace: when the server asks and steps: `Rounds`, `Buffered` or `Clocked`; rounds that wait for all if not given.
        evaluate_every: rounds between evaluations; the first and the last model are always evaluated.
        metrics: names of the metrics to compute; all that the task has if not given.
        segment: rounds between calls of `progress`, rounded up to whole evaluations.
        progress: called with rounds done and rounds in all.
        spread: what several devices share: "lanes", whole trainings, or "clients", those of one training after another.
        server: the server's `learning_rate`, `optimizer`, `radius`, `rest` and `facts`, as in `ServerSettings`.

    """
    trial = Trial(
        strategy=strategy,
        world=world,
        local=Local() if local is None else local,
        server=ServerSettings.of(server),
        uploads=Plain() if uploads is None else uploads,
        pace=pace,
    )
    return simulate_trials(
        task,
        [trial],
        rounds=rounds,
        seeds=seeds,
        evaluate_every=evaluate_every,
        metrics=metrics,
        segment=segment,
        progress=progress,
        spread=spread,
    )[0]


@checked
def simulate_trials(  # noqa: PLR0913 (the user's settings, all but two by name)
    task: Task,
    trials: Sequence[Trial],
    *,
    rounds: NumRounds,
    seeds: Seeds = 1,
    evaluate_every: NumRounds = 1,
    metrics: Sequence[str] | None = None,
    segment: Count | None = None,
    progress: Progress | None = None,
    watch: Watcher | None = None,
    spread: Spread = "lanes",
) -> list[History]:
    """Train several trials on one task; those that differ in numbers only run as one program, side by side.

    `watch` is called together with `progress`, with the newest mean of each metric over the lanes that moved on.
    """
    chosen = check_seeds(seeds)
    run_plan = RunPlan(rounds, evaluate_every, segment, None if metrics is None else tuple(metrics))
    for trial in trials:
        check_trial(task, trial, spread)
        check_length(trial, rounds)
    check_metrics(task, run_plan.metrics)
    groups = group_trials([trials])
    histories: dict[int, History] = {}
    for number, group in enumerate(groups):
        report = report_share(progress, watch, number, len(groups), rounds)
        finished = run_group([task], group, chosen, run_plan, report, spread=spread)
        histories.update(zip(group.members, finished, strict=True))
    return [histories[i] for i in range(len(trials))]


def check_seeds(seeds: Seeds) -> tuple[int, ...]:
    """Seeds 0, 1, … for a number, or the given ones, checked."""
    seeds = hold("seeds", seeds, Seeds)
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"seeds must be one or more different whole numbers from 0 to 2³² - 1, not {seeds!r}")
    return chosen


def check_metrics(task: Task, metrics: Sequence[str] | None) -> None:
    """Refuse names of metrics that a task does not have."""
    if metrics is None:
        return
    names = once_per_kind(_metric_names, task)
    if unknown := [name for name in metrics if name not in names]:
        raise ValueError(f"this task has no metric {unknown[0]!r}; it has {', '.join(sorted(names))}")


def _metric_names(task: Task) -> list[str]:
    return list(eqx.filter_eval_shape(lambda key: task.evaluate(task.init(key)), jr.key(0)))


def report_share(
    progress: Progress | None, watch: Watcher | None, number: int, count: int, rounds: int
) -> Callable[[int, Latest], None]:
    """A function that reports the progress of one group as that of all groups."""

    def report(done: int, latest: Latest) -> None:
        if watch is not None:
            watch(latest)
        if progress is not None:
            progress(number * rounds + done, count * rounds)

    return report
