"""What is easily given instead of an object of ours is refused in one line, with what to write instead."""

import subprocess
import sys

import pytest

from turnout.simulator.kinds import labelled_strategies
from turnout.strategies import CAFed, FedAvg


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["fedavg"], r"strategies\[0\] must be a Strategy, such as FedAvg\(\), not 'fedavg'"),
        ({"mine": FedAvg}, r"strategies\['mine'\] must be a Strategy, .* not the class FedAvg: call it, FedAvg\(\)"),
        (FedAvg(), "strategies must be a list, each a Strategy, .* or a dict"),
        ("fedavg", "strategies must be a list, each a Strategy, .* or a dict"),
        ([], "must be one or more, not none"),
    ],
)
def test_the_wrong_kind_is_refused_with_a_remedy(given, message):
    with pytest.raises(TypeError, match=message) as refused:
        labelled_strategies(given)
    assert "\n" not in str(refused.value)


def test_strategies_have_the_names_of_their_classes():
    assert list(labelled_strategies([FedAvg(), CAFed(), FedAvg()])) == ["FedAvg 1", "CAFed", "FedAvg 2"]
    assert list(labelled_strategies({"mine": FedAvg()})) == ["mine"]


# In a process of its own, since these tests check types before our own checks can speak.
PROGRAM = """
import turnout
from turnout.strategies import FedAvg
task, process = turnout.tasks.quadratics(num_clients=4), turnout.availability.two_classes(4)
world = turnout.World(process)
for call in (
    lambda: turnout.simulate(task, world, "fedavg", rounds=2),
    lambda: turnout.simulate(task, process, FedAvg(), rounds=2),
    lambda: turnout.simulate(task, world, FedAvg(), rounds=2, local=0.1),
    lambda: turnout.simulate("quadratics", world, FedAvg(), rounds=2),
    lambda: turnout.compare(task, world, [FedAvg], rounds=2),
    lambda: turnout.compare(task, process, [FedAvg()], rounds=2),
    lambda: turnout.audit(process, FedAvg()),
    lambda: turnout.audit(world, ["fedavg"]),
):
    try:
        call()
    except TypeError as error:
        print(str(error).partition(" ")[0])
"""


@pytest.mark.slow
def test_every_entrance_checks():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "strategy",
        "world",
        "local",
        "task",
        "strategies[0]",
        "world",
        "world",
        "strategies[0]",
    ]
