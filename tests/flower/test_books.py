import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import InProcessGrid

from turnout.flower import Files, FlowerStrategy, Waiting, client_app
from turnout.flower.run import checkpoint
from turnout.flower.wire.messages import to_record
from turnout.strategies import FedAvg


def test_a_server_that_dies_at_its_checkpoint_leaves_no_gap_in_the_log(tmp_path, monkeypatch):
    grid = InProcessGrid(client_app(train=lambda arrays, *_: (arrays, {})), lambda _t: ["1", "2"])

    def train():
        files = Files(checkpoint=tmp_path / "state.npz", participation=tmp_path / "log.csv")
        flower = FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01), evaluate_every=0, files=files)
        flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=4, timeout=0.05)

    save, deaths = checkpoint.save, {2: ["before"], 3: ["after"]}

    def die_once(path, driver, *rest):
        when = deaths.get(driver.t, [])
        if "before" in when:
            raise MemoryError(when.pop())
        save(path, driver, *rest)
        if "after" in when:
            raise MemoryError(when.pop())

    monkeypatch.setattr(checkpoint, "save", die_once)
    for moment in ("before", "after"):
        with pytest.raises(MemoryError, match=moment):
            train()
    train()
    rows = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()]
    assert [int(turn) for _, turn, _, event in rows if event == "round"] == [0, 1, 2, 3]
    assert sum(event == "arrived" for *_, event in rows) == 8
