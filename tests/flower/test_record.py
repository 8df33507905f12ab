"""A training on real nodes leaves what a simulation leaves."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest
import stage

from every_strategy import SETTINGS

pytest.importorskip("flwr")

from inprocess import FakeClock, InProcessGrid, grouped
from test_parity import APP, TARGET, listed_in, losing_in
from typer.testing import CliRunner

from turnout import simulate
from turnout.errors import FolderError
from turnout.flower import Files, FlowerStrategy, Members, Waiting, client_app
from turnout.flower.run.chronicle import Chronicle, ParticipationLog
from turnout.flower.run.estimates import Estimate
from turnout.flower.wire.messages import to_record
from turnout.metrics import BYTES_UPLOADED
from turnout.server.facts import Online
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, FedAU, Strategy
from turnout.workbench import ExperimentError, load, read_experiment
from turnout.workbench.cli import app as command
from turnout.workbench.experiment.run import run as simulate_experiment
from turnout.workbench.report.run.run_table import run_summary, run_table

MODEL = {"w": np.zeros(2, np.float32)}


def train(arrays, config, context):
    gap = float(context.node_config["client-id"]) - arrays["w"]
    return {"w": arrays["w"] + np.float32(0.5) * gap}, {"loss": float(np.mean(gap**2)), "reach": 2, "num-examples": 4}


def evaluate(arrays, _config, context):
    name = float(context.node_config["client-id"])
    return {"accuracy": name / 10, "loss": float(np.mean((name - arrays["w"]) ** 2))}


SMALL = client_app(train=train, evaluate=evaluate)


def play(folder=None, *, strategy=None, rounds=3, names=("1", "2", "3"), app=SMALL, **options):
    grid = InProcessGrid(app, names if callable(names) else lambda _t: list(names))
    flower = FlowerStrategy(
        strategy or FedAU(), **grouped(record=folder, local=Local(learning_rate=0.5), poll=0.01, **options)
    )
    flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=0.05)
    return flower


@pytest.mark.parametrize("name", ["fedau", "fedlaavg", "ca_fed", "optimal_sampling"])
def test_a_simulation_of_the_same_world_has_the_same_history(name):
    strategy, world = SETTINGS[name], "sure"
    simulated = simulate(
        stage.TASK, stage.WORLDS[world], strategy, rounds=stage.ROUNDS, local=stage.LOCAL, facts=Online()
    )
    grid = InProcessGrid(APP, listed_in(world), losing_in(world))
    flower = FlowerStrategy(strategy, target=TARGET, local=stage.LOCAL, evaluate_every=0)
    flower.start(grid, to_record(stage.START), num_rounds=stage.ROUNDS, timeout=5.0)
    real = flower.history
    assert (real.seeds, real.rounds) == (simulated.seeds, simulated.rounds)
    assert set(simulated.records) < set(real.records)
    headers = 128 * simulated.records["uploads"].astype(np.int64)  # of numpy's format, one per array
    expected = simulated.records | {BYTES_UPLOADED: simulated.records[BYTES_UPLOADED] + headers}
    for record, values in expected.items():
        np.testing.assert_allclose(real.records[record], values, rtol=1e-5, err_msg=record)
    for by_client in ("available", "asked", "arrived", "weight", "stalest"):
        np.testing.assert_allclose(real.clients[by_client], simulated.clients[by_client], rtol=1e-5, err_msg=by_client)
    np.testing.assert_allclose(real.params["x"], simulated.params, atol=1e-5)
    assert np.isfinite(real.metrics["train_loss"]).all()


def test_the_folder_is_one_of_a_run(tmp_path):
    flower = play(tmp_path / "run", evaluate_every=2)
    run = load(tmp_path / "run")
    (outcome,) = run.points
    assert (outcome.label, outcome.strategy) == ("fedau", "fedau")
    assert outcome.names == ("id:1", "id:2", "id:3")
    np.testing.assert_allclose(outcome.target, 1 / 3)
    history = outcome.history
    assert (history.rounds, history.seeds, list(history.evaluated)) == (3, (0,), [0, 2, 3])
    np.testing.assert_allclose(history.metrics["test_accuracy"], 0.2)
    np.testing.assert_allclose(history.metrics["worst_decile_accuracy"], 0.1)
    assert history.metrics["test_loss"][0, 0] == pytest.approx(14 / 3)
    np.testing.assert_allclose(history.clients["test_accuracy"], [[0.1, 0.2, 0.3]], rtol=1e-6)
    np.testing.assert_array_equal(history.records["local_steps"], 6.0)
    np.testing.assert_allclose(history.params["w"], flower.history.params["w"])
    assert not history.diverged.any()
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["deployed"]
    assert about["versions"]["flwr"]
    assert run_table(run).row_count == 1
    assert run_summary(run)["points"][0]["uploads"] == 9
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *(
            "experiment.toml",
            "history.parquet",
            "clients.parquet",
            "models.npz",
            "run.json",
            "manifest.json",
            "participation.csv",
        )
    }


def test_the_folder_holds_the_estimates_with_their_intervals(tmp_path):
    """Client 1 leaves for good: its place is vacant, and the rows of the others are still their own."""
    clock = FakeClock(end=1e5)
    takes = lambda _name, _turn, message: 100.0 if message.metadata.message_type == "train" else 1.0  # noqa: E731
    grid = InProcessGrid(SMALL, lambda t: ["1", "2", "3"] if t < 4 else ["2", "3"], clock=clock, takes=takes)
    grid.behave = lambda name, t, message: (
        "silent" if name == "3" and t % 2 and message.metadata.message_type == "train" else "answer"
    )
    flower = FlowerStrategy(
        FedAU(),
        files=Files(record=tmp_path / "run"),
        waiting=Waiting(clock=clock),
        members=Members(retire_after=300.0),
        evaluate_every=0,
    )
    flower.start(grid, to_record(MODEL), num_rounds=12, timeout=200.0)
    assert flower._driver.directory.by_place == (None, "id:2", "id:3")
    table = load(tmp_path / "run").clients_frame()
    assert table["name"].to_list() == ["id:2", "id:3"]
    assert table["target"].to_list() == [0.5, 0.5]
    often, seldom = flower.estimates
    assert often.pi > 0.8 > 0.7 > seldom.pi
    for field in fields(Estimate)[1:]:
        assert table[field.name].to_list() == [getattr(often, field.name), getattr(seldom, field.name)], field.name
    written = CliRunner().invoke(command, ["report", str(tmp_path / "run"), "--quiet"])
    assert written.exit_code == 0, written.output
    assert "available at least" in (tmp_path / "run" / "report.html").read_text()


def test_what_was_deployed_is_not_simulated(tmp_path):
    play(tmp_path / "run", rounds=1, evaluate_every=0)
    with pytest.raises(ExperimentError, match="task: these were the data of 3 real clients"):
        simulate_experiment(read_experiment(tmp_path / "run" / "experiment.toml"))


def test_diagnose_reads_the_folder(tmp_path):
    play(tmp_path / "run", rounds=4, evaluate_every=0)
    told = CliRunner().invoke(
        command, ["diagnose", str(tmp_path / "run"), "--audit", "0", "--json", "--out", f"{tmp_path}/d"]
    )
    assert told.exit_code == 0, told.output
    assert (tmp_path / "d" / "diagnosis.html").exists()


def test_report_shows_the_folder(tmp_path):
    play(tmp_path / "run", rounds=4)
    told = CliRunner().invoke(command, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html")])
    assert told.exit_code == 0, told.output
    page = (tmp_path / "report.html").read_text()
    assert "fedau" in page
    assert "Worst tenth of clients" in page
    states = load(tmp_path / "run").points[0].history.attendance.states
    np.testing.assert_array_equal(states, 3)


def test_a_restarted_server_has_one_history(tmp_path):
    for cut, rounds in (("whole", (6,)), ("cut", (3, 6))):
        for count in rounds:
            options = {"checkpoint": tmp_path / f"{cut}.npz", "every": 2, "evaluate_every": 2}
            flower = play(tmp_path / cut, strategy=MIFA(), rounds=count, **options)
        assert len(flower.records) == rounds[-1] - sum(rounds[:-1])
    whole, cut = (load(tmp_path / name).points[0].history for name in ("whole", "cut"))
    assert cut.rounds == 6
    for name, values in whole.records.items():
        if name != "seconds":
            np.testing.assert_array_equal(cut.records[name], values, err_msg=name)
    for name, values in whole.clients.items():
        if not name.startswith(("pi_", "lam_")):  # they hold λ̂, and nothing is known of the time between two servers
            np.testing.assert_array_equal(cut.clients[name], values, err_msg=name)
    np.testing.assert_array_equal(cut.pi, whole.pi)
    np.testing.assert_array_equal(cut.metrics["test_loss"][:, -1], whole.metrics["test_loss"][:, -1])
    logs = [(tmp_path / name / "participation.csv").read_text() for name in ("whole", "cut")]
    assert len({tuple(line.partition(",")[2] for line in log.splitlines()) for log in logs}) == 1


def test_a_checkpoint_that_lacks_a_newer_record_is_read():
    chronicle, again = play(rounds=2, evaluate_every=0)._books.chronicle, Chronicle()
    plain, arrays = chronicle.state()
    del arrays["dropped"]
    again.restore(json.loads(json.dumps(plain)), arrays)
    assert again.records["arrived"] == chronicle.records["arrived"] == [3, 3]
    assert np.isnan(again.records["dropped"]).tolist() == [True, True]


def test_a_crash_keeps_what_was_written(tmp_path, monkeypatch):
    """The server dies in round 5; checkpoint and folder hold the first 4, and the next server plays on from there."""
    options = {"checkpoint": tmp_path / "state.npz", "every": 2, "evaluate_every": 0}
    with monkeypatch.context() as patch:
        add = ParticipationLog.add

        def die(log, record):
            if record.t == 4:
                raise KeyboardInterrupt
            add(log, record)

        patch.setattr(ParticipationLog, "add", die)
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path / "run", rounds=6, **options)
    assert load(tmp_path / "run").points[0].history.rounds == 4
    flower = play(tmp_path / "run", rounds=6, **options)
    assert [record.t for record in flower.records] == [4, 5]
    assert load(tmp_path / "run").points[0].history.rounds == 6


def test_a_folder_in_the_way_is_refused_before_anything_is_asked(tmp_path):
    play(tmp_path / "run", rounds=1, evaluate_every=0)
    with pytest.raises(FolderError, match="exists already"):
        play(tmp_path / "run", rounds=1)
    play(None, rounds=1, checkpoint=tmp_path / "other.npz")
    with pytest.raises(ExperimentError, match="holds another run than the checkpoint's"):
        play(tmp_path / "run", rounds=2, checkpoint=tmp_path / "other.npz")


class OwnStrategy(Strategy[None]):
    """Not one of the library's."""


def test_a_strategy_of_ones_own_is_told_by_its_name(tmp_path):
    play(tmp_path / "run", strategy=OwnStrategy(), rounds=1, evaluate_every=0)
    assert load(tmp_path / "run").points[0].label == "OwnStrategy"


def test_it_has_a_report_with_who_was_there(tmp_path):
    play(tmp_path / "run", evaluate_every=2, names=lambda t: ["1", "2", "3"] if t != 1 else ["1", "2"])
    result = CliRunner().invoke(command, ["report", str(tmp_path / "run"), "--quiet"])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "run" / "report.html").read_text()
    for heading in ("How well the models do", "Who was there", "Whom they serve", "Cite"):
        assert f"<h2>{heading}</h2>" in page
    (data,) = re.findall(r'id="data">(.*?)</script>', page)
    charts = json.loads(data)
    assert sorted(charts["availability"]["series"][0]["clients"]) == ["id:1", "id:2", "id:3"]
    assert charts["curve-test_loss"]["series"][0]["over"]["seconds"][-1] > 0
