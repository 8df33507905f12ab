import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from inprocess import InProcessGrid

from turnout.flower import FlowerStrategy, Waiting
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.paces import Buffered
from turnout.simulator.client_optimizer import Local
from turnout.strategies import SCAFFOLD, CAFed, FedAvg, LastWord
from turnout.workbench import load
from turnout.workbench.experiment.registry import entries

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"


def test_the_apps_of_the_page_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server, client, guarded, smaller, steered, leaving, unwaiting = (
        compile(code, str(PAGE), "exec") for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    )
    there, here = {"__name__": "docs"}, {"__name__": "docs"}
    exec(server, there)
    exec(client, here)
    grid = InProcessGrid(here["app"], lambda _t: ["a", "b"])
    there["app"](grid, Context(7, 1, {}, RecordDict(), {}))
    assert (tmp_path / "state.npz").exists()
    assert load(tmp_path / "runs" / "fleet").points[0].history.final("test_accuracy") == pytest.approx(0.9)
    assert sum(kind == "evaluate" for _, kind, _ in grid.seen) == 202
    probed = FlowerStrategy(CAFed(), waiting=Waiting(poll=0.01))
    result = probed.start(grid, to_record({"w": np.ones(2, np.float32)}), num_rounds=1, timeout=1.0)
    assert probed.records[0].arrived == ("id:a", "id:b")
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == pytest.approx(0.9)
    exec(guarded, there)
    assert isinstance(there["strategy"], FlowerStrategy)
    exec(unwaiting, there)
    assert there["strategy"].pace == Buffered(size=10, concurrency=50)
    exec(smaller, here)
    flower, grid = (
        FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01), evaluate_every=0),
        InProcessGrid(here["app"], lambda _t: ["a", "b"]),
    )
    flower.start(grid, to_record({"w": np.ones(1000, np.float32)}), num_rounds=2, timeout=1.0)
    assert [record.arrived for record in flower.records] == [("id:a", "id:b")] * 2
    assert {path.name for path in (tmp_path / "memory").iterdir()} == {"a.npz", "b.npz"}
    assert flower.records[0].bytes_uploaded < 2 * 4 * 1000
    exec(steered, here)
    flower, grid = (
        FlowerStrategy(SCAFFOLD(), local=Local(learning_rate=0.1), waiting=Waiting(poll=0.01), evaluate_every=0),
        InProcessGrid(here["app"], lambda _t: ["one", "four"]),
    )
    trained = flower.start(grid, to_record({"w": np.zeros(2, np.float32)}), num_rounds=30, timeout=1.0)
    np.testing.assert_allclose(to_numpy(trained.arrays)["w"], 3.5, atol=0.01)
    assert {path.name for path in (tmp_path / "memory").iterdir()} >= {"one.npz", "four.npz"}
    exec(leaving, here)
    strategy = FlowerStrategy(LastWord(memory="clients"), waiting=Waiting(poll=0.01), evaluate_every=0)

    def listed(turn):
        if turn == 2:
            (tmp_path / "withdrawn").touch()
        return ["a"]

    grid = InProcessGrid(here["app"], listed)
    strategy.start(grid, to_record({"w": np.ones(2, np.float32)}), num_rounds=4, timeout=1.0)
    assert [record.members for record in strategy.records] == [("id:a",)] * 3 + [()]


def test_the_lines_that_change_are_those_of_the_app():
    page = PAGE.read_text()
    (changes,) = re.findall(r"```diff\n(.*?)```", page, re.S)
    server = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    added = [line[1:] for line in changes.splitlines() if line.startswith("+")]
    assert len(added) == 3
    assert all(line in server.splitlines() for line in added)


def test_every_strategy_has_its_row():
    rows = PAGE.read_text().partition("## What each strategy asks for")[2].partition("## ")[0].lower()
    for name in entries("strategies"):
        assert name.replace("_sampling", "").replace("_", "") in rows.replace("-", "").replace(" ", ""), name
