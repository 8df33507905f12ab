import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

import stage
from inprocess import InProcessGrid

from turnout.availability import markov
from turnout.flower import FlowerStrategy, ImposedGrid, Waiting, client_app
from turnout.flower.wire.messages import to_record
from turnout.strategies import FedAvg

PAGE = Path(__file__).parents[2] / "docs" / "flower_deploy.md"
NAMES = ["a", "b", "c", "d"]


def grid():
    app = client_app(train=lambda arrays, *_: (arrays, {"loss": 1.0}), evaluate=lambda *_: {"loss": 1.0})
    return InProcessGrid(app, lambda _t: NAMES)


def test_only_those_that_the_process_has_there_take_part():
    inner, process = grid(), markov(4, pi=[1.0, 0.5, 0.5, 0.1])
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(poll=0.01))
    flower.start(ImposedGrid(inner, process, seed=3), to_record({"w": np.zeros(1)}), num_rounds=40, timeout=0.05)
    rates = [np.mean([f"id:{name}" in record.arrived for record in flower.records]) for name in NAMES]
    assert rates[0] == 1.0
    assert rates[3] < 0.3 < rates[1] < 0.7
    trained, measured = (
        Counter(name for name, kind, _ in inner.seen if kind == what) for what in ("train", "evaluate")
    )
    first = Counter(name.removeprefix("id:") for name in flower.records[0].available)
    assert measured == trained + first  # the first model is evaluated, too


def seen(imposed, t):
    imposed.begin_round(t + 1)
    return tuple(node.node_id for node in imposed.get_nodes())


def test_absences_are_those_of_a_simulation():
    inner = InProcessGrid(None, lambda _t: list(stage.NAMES))
    imposed = ImposedGrid(inner, stage.WORLDS["sure"].availability, seed=0)
    for t, (available, *_) in enumerate(stage.natures("sure")):
        assert seen(imposed, t) == seen(imposed, t) == tuple(np.array([*map(inner.node, stage.NAMES)])[available])


def test_absences_are_a_matter_of_the_seed():
    def rounds(seed):
        imposed = ImposedGrid(grid(), markov(4, pi=0.5), seed=seed)
        return [seen(imposed, t) for t in range(20)]

    assert rounds(1) == rounds(1) != rounds(2)


def test_more_nodes_than_the_process_knows_are_an_error():
    with pytest.raises(ValueError, match="the process has 3 clients, but there are 4 nodes"):
        ImposedGrid(grid(), markov(3, pi=0.5)).get_nodes()


def test_the_code_of_the_page():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    told = {"grid": grid()}
    exec(compile(code, str(PAGE), "exec"), told)
    assert [len(seen(told["grid"], t)) for t in range(3)] != [4, 4, 4]
