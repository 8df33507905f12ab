"""The table of Flower's arguments in the docs names what the installed Flower has, with its defaults and ours."""

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAvg, Strategy

from turnout.flower import FlowerStrategy

PAGE = Path(__file__).parents[2] / "docs" / "flower_vocabulary.md"
PARTS = {"The strategy": (FedAvg.__init__, FlowerStrategy.__init__), "`start`": (Strategy.start, FlowerStrategy.start)}


def arguments(function):
    named = dict(inspect.signature(function).parameters)
    del named["self"]
    return {name: parameter.default for name, parameter in named.items()}


def rows(part):
    """Defaults as the table of a part gives them, by argument."""
    text = PAGE.read_text().partition(f"## {part}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))


@pytest.mark.parametrize("part", PARTS)
def test_every_argument_of_flowers_is_in_the_table_and_is_taken_here(part):
    theirs, ours = (arguments(function) for function in PARTS[part])
    assert rows(part).keys() == theirs.keys()
    assert theirs.keys() <= ours.keys()


@pytest.mark.parametrize("part", PARTS)
def test_the_table_has_the_defaults(part):
    theirs, ours = (arguments(function) for function in PARTS[part])
    for name, shown in rows(part).items():
        flowers, _, own = shown.partition(", ours ")
        if isinstance(theirs[name], float | int | str):
            assert eval(flowers.strip("`")) == theirs[name], name
            assert eval((own or flowers).strip("`")) == ours[name], name
        else:
            assert not own
            assert ours[name] is theirs[name], name
