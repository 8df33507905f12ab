"""An experiment audited: its worlds and strategies, without its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnout.arguments import MAX_COUNT, at_least
from turnout.auditor import Audit, audit_trials
from turnout.auditor.auditing import ROUNDS
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.config import Experiment
from turnout.workbench.experiment.errors import mistakes_at
from turnout.workbench.experiment.sweep import points


def audit_experiment(
    experiment: Experiment,
    rounds: int = ROUNDS,
    seeds: int | Sequence[int] = 1,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """Audit every point of the experiment, under its label, with the rounds and seeds given here.

    Where every run has a draw of its own, the audit is that of the first run's.
    """
    with mistakes_at(""):
        at_least("rounds", rounds, 1, MAX_COUNT)
    grid = points(experiment)
    batches = build(grid, experiment.seeds[:1])
    total = sum(len(batch.points) for batch in batches)
    parts: list[Audit] = []
    for batch in batches:
        before = sum(len(part.entries) for part in parts)

        def report(done: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress((before + done) / total)

        (setup,) = batch.setups
        trials = {point.label: trial for point, trial in zip(batch.points, setup.trials, strict=True)}
        with mistakes_at("audit"):
            task, names = setup.task, setup.task.names
            parts.append(audit_trials(task.fleet, trials, rounds=rounds, seeds=seeds, progress=report, names=names))
    entries = {entry.label: entry for part in parts for entry in part.entries}
    return Audit(tuple(entries[point.label] for point in grid), parts[0].rounds, parts[0].seeds)
