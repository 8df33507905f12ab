"""Durations and paces in experiment files: what is read and written, what is refused, and the runs behind them."""

import copy

import numpy as np
import polars as pl
import pytest

from turnout import Buffered, Rounds
from turnout.simulator import savepoint
from turnout.simulator.attendance import STATES
from turnout.workbench import Experiment, ExperimentError, load, run
from turnout.workbench.experiment import registry
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.tuning import tune
from turnout.workbench.experiment.unfinished import resume_run
from turnout.workbench.report.page.chart import Look
from turnout.workbench.report.run.plots import plot
from turnout.workbench.report.run.run_page import RunReport, Source

TIMED = {
    "rounds": 30,
    "seeds": [4, 1],
    "evaluate_every": 10,
    "task": {"name": "quadratics", "num_clients": 6, "dimension": 2},
    "availability": {"name": "bernoulli", "pi": 0.8},
    "durations": {"name": "lognormal", "median": [1.0, 1.0, 1.0, 5.0, 5.0, 5.0], "tick_seconds": 60},
    "pace": {"name": "buffered", "size": 2, "concurrency": 4},
    "local": {"steps": 2, "learning_rate": 0.1},
    "strategies": ["fedavg"],
}


@pytest.fixture
def timed():
    return copy.deepcopy(TIMED)


def trials(document):
    return [trial for batch in build(points(Experiment.read(document))) for trial in batch.setups[0].trials]


def test_a_file_without_time_is_as_before(tiny):
    document = Experiment.read(tiny).document()
    assert not {"durations", "pace"} & document.keys()
    assert Experiment.read(tiny | {"durations": "instant", "pace": "rounds"}).document() == document
    assert all(trial.pace is None and trial.world.durations is None for trial in trials(tiny))


def test_a_file_with_time_is_written_back(timed):
    timed["pace"]["size"] = [1, 2]
    timed["strategies"].append({"name": "mifa", "pace": {"name": "rounds", "quorum": 0.5, "late": "keep"}})
    experiment = Experiment.read(timed)
    assert Experiment.read(experiment.document()) == experiment
    assert [point.label for point in points(experiment)] == ["fedavg size=1", "fedavg size=2", "mifa"]
    first, _, last = trials(timed)
    assert first.pace == Buffered(size=1, concurrency=4)
    assert last.pace == Rounds(quorum=0.5, late="keep")
    assert first.world is last.world
    assert first.world.durations.tick_seconds == 60


def test_a_pace_alone_makes_a_run_timed(tiny):
    assert all(trial.pace == Buffered(size=2) and trial.timed for trial in trials(tiny | {"pace": BUFFER_OF_TWO}))


BUFFER_OF_TWO = {"name": "buffered", "size": 2}


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"pace": "bufferd"}, "pace: there is no 'bufferd' among the paces: did you mean 'buffered'"),
        ({"pace": {"size": 3}}, "pace.name: given nothing, expected the name of one of the paces"),
        ({"pace": {"name": "buffered", "siz": 3}}, "pace: unknown key 'siz': did you mean 'size'"),
        ({"pace": {"name": "buffered", "size": 9}}, "size must be a whole number from 1 to the 6 clients, not 9"),
        ({"pace": {"name": "buffered", "size": 4, "concurrency": 3}}, "concurrency = 3 is below size = 4"),
        ({"pace": {"name": "rounds", "quorum": 1.5}}, "quorum must be a number above 0 and at most 1"),
        ({"pace": {"name": "rounds", "late": "never"}}, 'expected one of "drop", "keep"'),
        ({"durations": "lognormal"}, "durations: 'median' is missing"),
        ({"durations": {"name": "fixed", "ticks": -1}}, "at least 0"),
        ({"durations": {"name": "fixed", "leaving": "stop"}}, "durations.leaving: given"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(timed, tables, why):
    with pytest.raises(ExperimentError) as error:
        trials(timed | tables)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_both_kinds_are_listed_with_their_arguments():
    assert registry.entries("paces")["buffered"].parameters == {"size": "10", "concurrency": "None"}
    assert set(registry.entries("paces")) == {"rounds", "buffered", "clocked"}
    laws = {"instant", "fixed", "drawn", "lognormal", "timed", "resampled", "recorded"}
    assert set(registry.entries("durations")) == laws


MINE = '''
import jax.numpy as jnp
from turnout.paces import Pace
from turnout.types import Scalar
from turnout.world.durations import fixed


class Patient(Pace):
    """Steps as soon as `most` have arrived, or anybody in every fourth tick."""

    most: Scalar = 3

    def openings(self, state, at_work, num_clients):
        return num_clients - at_work

    def due(self, state, tick, traffic):
        return (traffic.arrived >= jnp.asarray(self.most, jnp.int32)) | ((traffic.arrived > 0) & (tick % 4 == 3))


def staircase(num_clients: int, rise: int = 1):
    """Client k needs k times `rise` ticks beyond the first."""
    return fixed(num_clients, [rise * k for k in range(num_clients)], tick_seconds=3600.0)
'''


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run in time: paces of ours and of one's own, own durations, stopped and gone on with."""
    place = tmp_path_factory.mktemp("time")
    (place / "mine_in_time.py").write_text(MINE)
    document = copy.deepcopy(TIMED) | {"durations": {"name": "mine_in_time:staircase"}, "seeds": [4, 1]}
    document["strategies"] = [
        {"name": "mifa", "server": {"learning_rate": [0.5, 1.0]}},
        {"name": "fedavg", "pace": {"name": "mine_in_time:Patient", "most": 2}},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        patch.setattr(savepoint, "SECONDS", 0.0)
        patch.setattr(savepoint, "COST", 0)
        experiment = Experiment.read(document)

        def stop(share):
            if share > 0.7:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(experiment, place / "stopped", progress=stop)
        with resume_run(place / "stopped", "run", trust=True) as unfinished:
            unfinished.run()
        whole = run(experiment, place / "whole")
        alone = run(Experiment.read(document | {"seeds": [1], "strategies": document["strategies"][:1]}))
    return place, whole, alone


def test_an_interrupted_run_goes_on_to_the_bit(played):
    place, _, _ = played
    for name in ("history", "clients", "attendance", "ages"):
        one, other = (pl.read_parquet(place / folder / f"{name}.parquet") for folder in ("stopped", "whole"))
        assert one.equals(other)
    assert (place / "stopped" / "models.npz").read_bytes() == (place / "whole" / "models.npz").read_bytes()


def test_strategies_and_seeds_side_by_side_equal_single_runs(played):
    _, whole, alone = played
    for outcome in alone.points:
        together = whole[outcome.label].history
        np.testing.assert_array_equal(together.params[1], outcome.history.params[0])
        np.testing.assert_array_equal(together.ages[1], outcome.history.ages[0])
        np.testing.assert_array_equal(together.records["server_steps"][1], outcome.history.records["server_steps"][0])


def test_a_run_folder_keeps_time(played):
    place, whole, _ = played
    for outcome in load(place / "whole").points:
        history, as_run = outcome.history, whole[outcome.label].history
        assert history.timed
        assert history.tick_seconds == 3600
        np.testing.assert_array_equal(history.ages, as_run.ages)
        np.testing.assert_array_equal(history.duration, np.arange(1.0, 7.0))
        assert history.ages.sum() == history.records["used"].sum() > 0
        assert history.frame()["hours"].max() == 30


def test_who_works_is_told_from_who_has_failed(played):
    """Client k of the staircase works for k ticks more; links are perfect, so that nobody fails."""
    _, whole, _ = played
    for outcome in whole.points:
        states = outcome.history.attendance.states
        assert set(np.unique(states)) <= {STATES.index(name) for name in ("away", "excluded", "active", "at work")}
        working = (states == STATES.index("at work")).sum(axis=0)
        assert working[0] < working[-1]
        heard = (states == STATES.index("active")).sum()
        assert heard == outcome.history.records["arrived"][0].sum()


def test_ones_own_pace_steps_when_it_says(played):
    _, whole, _ = played
    records = whole["fedavg"].history.records
    stepped = records["server_steps"] > 0
    assert (records["used"][stepped] >= 1).all()
    assert (records["used"][:, :3][stepped[:, :3]] >= 2).all()
    assert stepped.any()


def test_a_report_compares_after_the_same_time(played):
    place, whole, _ = played
    report = RunReport.of_runs([Source.read(place / "whole")])
    assert "after the same 30 hours" in report.words[0]
    columns = [column.title for column in report.table.columns]
    assert {"Clients at work", "Server steps", "Wasted local steps", "Age: median, 90 %"} <= set(columns)
    assert any(title.startswith("Hours to the end of") for title in columns)
    assert report.table.note.startswith("After 30 ticks (30 hours), mean")
    assert {"at_work", "ages"} <= report.charts.keys()
    choices = list(report.curves["curve-distance"].x.choices)
    assert choices[:2] == ["hours", "round"]
    assert "server_steps" in choices
    page = report.page()
    assert "slow" in page
    assert "How old updates are when they count" in page
    plot(whole, "curves", look=Look(over="server_steps"))
    with pytest.raises(ExperimentError, match="over weeks: this figure is not drawn over that; known: hours, round"):
        plot(whole, "curves", look=Look(over="weeks"))


def test_a_search_keeps_the_pace_of_each_strategy(timed):
    """The chosen points are written with their paces; what is swept in a pace is a choice."""
    timed["strategies"] = [{"name": "fedavg", "uploads": "eight_bit", "pace": {"name": "clocked", "every": [1, 5]}}]
    tuned = tune(Experiment.read(timed | {"rounds": 10, "seeds": 1}), "train_loss")
    (choice,) = tuned.choices
    (point,) = points(tuned.experiment())
    assert set(choice.chosen) == {"pace.every"}
    assert point.pace == choice.best.pace
    assert point.uploads.name == "eight_bit"
