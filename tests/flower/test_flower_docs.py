import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from inprocess import InProcessGrid

from turnout.flower import FlowerStrategy
from turnout.flower.messages import to_record
from turnout.strategies import CAFed

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"


def test_the_apps_of_the_page_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server, client = (
        compile(code, str(PAGE), "exec") for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    )
    there, here = {"__name__": "docs"}, {"__name__": "docs"}
    exec(server, there)
    exec(client, here)
    grid = InProcessGrid(here["app"], lambda _t: ["a", "b"])
    there["app"](grid, Context(7, 1, {}, RecordDict(), {}))
    assert (tmp_path / "state.npz").exists()
    assert sum(kind == "evaluate" for _, kind, _ in grid.seen) == 202
    probed = FlowerStrategy(CAFed(), poll=0.01)
    result = probed.start(grid, to_record({"w": np.ones(2, np.float32)}), num_rounds=1, timeout=1.0)
    assert probed.records[0].arrived == ("id:a", "id:b")
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == pytest.approx(0.9)
