"""The PyTorch client of the docs, run as it stands there; wherever PyTorch is installed."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from inprocess import InProcessGrid

from turnout.flower import FlowerStrategy, Waiting
from turnout.flower.wire.messages import to_numpy
from turnout.simulator.client_optimizer import Local
from turnout.strategies import SCAFFOLD, CAFed, FedAU

PAGE = Path(__file__).parents[2] / "docs" / "flower_pytorch.md"


@pytest.fixture(scope="module")
def page():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    torch.manual_seed(0)
    told = {"__name__": "docs"}
    exec(compile(code, str(PAGE), "exec"), told)
    return told


@pytest.mark.parametrize("strategy", [FedAU(), CAFed(), SCAFFOLD()], ids=["fedau", "ca_fed", "scaffold"])
def test_the_client_of_the_page_learns(page, strategy):
    grid = InProcessGrid(page["app"], lambda _t: ["a", "b", "c"])
    flower = FlowerStrategy(
        strategy, local=Local(learning_rate=0.1), target="size", waiting=Waiting(poll=0.01), evaluate_every=1
    )
    result = flower.start(grid, page["first_model"], num_rounds=8, timeout=5.0)
    measured = result.evaluate_metrics_clientapp
    assert all(record.steady for record in flower.records)
    assert measured[8]["loss"] < 0.8 * measured[1]["loss"]
    assert measured[8]["accuracy"] > 0.85
    trained, first = to_numpy(result.arrays), to_numpy(page["first_model"])
    assert {name: trained[name].dtype for name in trained} == {name: first[name].dtype for name in first}
    page["network"]().load_state_dict({name: torch.tensor(array) for name, array in trained.items()})
    np.testing.assert_array_equal(trained["1.num_batches_tracked"], 0)
