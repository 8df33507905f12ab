import logging

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import InProcessGrid

from turnout.flower import Files, FlowerStrategy, Waiting, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import FedAvg


def test_what_is_trained_and_where_it_goes_on_stands_in_flowers_log(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="flwr")
    grid = InProcessGrid(client_app(train=lambda arrays, *_: (arrays, {})), lambda _t: ["1", "2"])
    for rounds in (2, 3):
        flower = FlowerStrategy(
            FedAvg(), files=Files(checkpoint=tmp_path / "state.npz"), waiting=Waiting(poll=0.01), evaluate_every=0
        )
        flower.start(grid, to_record({"w": np.zeros(1)}), num_rounds=rounds, timeout=0.05)
    said = [record.getMessage() for record in caplog.records if record.name == "flwr"]
    assert "Going on after round 2 with 2 clients" in said
    assert sum("FedAvg; target: uniform; identity: declared" in line for line in said) == 2
