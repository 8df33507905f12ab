"""Strategies compared from Python: the same tables, charts and page as `turnout run` makes, from objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnout.declarations import NumRounds, checked
from turnout.files.whole import whole_file
from turnout.paces import Pace
from turnout.presented import Tabular
from turnout.server.settings import ServerSettings
from turnout.simulator import simulate_trials
from turnout.simulator.client_optimizer import Local
from turnout.simulator.history import History
from turnout.simulator.kinds import Strategies, labelled_strategies
from turnout.simulator.mesh import Spread
from turnout.simulator.simulate import Seeds
from turnout.simulator.trial import Trial
from turnout.tasks.base import Task
from turnout.uploads import Plain, Upload
from turnout.workbench.experiment.experiment_file import usual_interval
from turnout.workbench.experiment.run import Outcome
from turnout.workbench.report.page.chart import Look
from turnout.workbench.report.page.labels import strategy_name
from turnout.workbench.report.page.table import Table
from turnout.workbench.report.run.compared import Compared, relabel_points
from turnout.workbench.report.run.plots import plot
from turnout.workbench.report.run.run_page import RunReport
from turnout.workbench.report.run.run_table import run_summary
from turnout.world import World

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


@dataclass(frozen=True, repr=False)
class StrategyComparison(Tabular):
    """Strategies that met the same absences; the first is the one that others are compared with."""

    points: Compared

    def __getitem__(self, label: str) -> History:
        for outcome in self.points.points:
            if outcome.label == label:
                return outcome.history
        raise KeyError(f"no {label!r}; compared were {', '.join(self.labels)}")

    @property
    def labels(self) -> list[str]:
        return [outcome.label for outcome in self.points.points]

    @cached_property
    def shown(self) -> RunReport:
        """Table, words, charts and page, with strategies as papers call them."""
        return RunReport(relabel_points(self.points))

    @property
    def table(self) -> Table:
        """Final metrics of every strategy, with paired differences from the first."""
        return self.shown.table

    def frame(self) -> pl.DataFrame:
        """A tidy table: label, seed, round, kind, name, value."""
        import polars as pl

        frames = (
            outcome.history.frame().select(pl.lit(outcome.label).alias("label"), pl.all())
            for outcome in self.points.points
        )
        return pl.concat(frames, how="diagonal")

    def plot(self, kind: str = "curves", metric: str | None = None, **look: Any) -> alt.TopLevelMixin:
        """One figure, of the kinds that `turnout plot` has; `look`: fields of `Look`, such as `size=(300, 200)`."""
        return plot(self.points, kind, metric, Look(**look))

    def report(self, path: str | Path) -> Path:
        """Write the page about this comparison; it works offline."""
        out = Path(path)
        with whole_file(out) as draft:
            draft.write_text(self.shown.page(), encoding="utf-8")
        return out

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(self.labels)}. {' '.join(self.shown.words)}".strip()

    def to_json(self) -> dict[str, Any]:
        """Final metrics and costs of every strategy, as `turnout run --json` prints them."""
        return run_summary(self.points)


@checked
def compare(  # noqa: PLR0913 (those of `simulate`)
    task: Task,
    world: World,
    strategies: Strategies,
    *,
    rounds: NumRounds,
    seeds: Seeds = 1,
    local: Local | None = None,
    uploads: Upload | None = None,
    evaluate_every: NumRounds | None = None,
    metrics: Sequence[str] | None = None,
    title: str = "",
    spread: Spread = "lanes",
    pace: Pace | None = None,
    **server: Any,
) -> StrategyComparison:
    """Train several strategies on one task in one world, and put them side by side.

    All meet the same absences, so differences are paired by seed. `strategies` is a list, or a dict by the labels to
    show. The other arguments are those of `turnout.simulate`; the model is evaluated forty times if `evaluate_every` is
    not given.
    """
    named = labelled_strategies(strategies)
    settings, transform = ServerSettings.of(server), Plain() if uploads is None else uploads
    trials = [
        Trial(strategy, world, Local() if local is None else local, settings, transform, pace)
        for strategy in named.values()
    ]
    every = usual_interval(rounds) if evaluate_every is None else evaluate_every
    histories = simulate_trials(
        task, trials, rounds=rounds, seeds=seeds, evaluate_every=every, metrics=metrics, spread=spread
    )
    outcomes = (
        Outcome(label, strategy_name(strategy), {}, history, names=task.names)
        for (label, strategy), history in zip(named.items(), histories, strict=True)
    )
    return StrategyComparison(Compared(title, tuple(outcomes)))
