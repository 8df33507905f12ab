"""What is easily given instead of an object of ours is refused in one line, with what to write instead."""

import subprocess
import sys

import pytest

import turnout
from turnout.simulator.kinds import check_local, check_strategy_kind, check_task, check_world, labelled_strategies
from turnout.strategies import CAFed, FedAU, FedAvg


@pytest.mark.parametrize(
    ("check", "given", "message"),
    [
        (check_strategy_kind, "ca_fed", r"strategy: given str 'ca_fed', expected a strategy, such as CAFed\(\)"),
        (check_strategy_kind, "CA-Fed", r"such as CAFed\(\)"),
        (check_strategy_kind, 3, r"strategy: given int '3', expected a strategy, such as FedAvg\(\)"),
        (check_strategy_kind, FedAU, r"FedAU is a class; call it: FedAU\(\)"),
        (check_world, turnout.availability.two_classes(4), r"given a process, \w+, expected a World: write World\("),
        (check_world, "markov", r"world: given str 'markov', expected a World, such as World\("),
        (check_local, 0.1, r"local: given the number 0.1, expected Local\(learning_rate=0.1\)"),
        (check_local, turnout.Local, r"local: Local is a class; call it"),
        (check_task, "quadratics", "task: given str 'quadratics', expected a Task"),
        (labelled_strategies, ["fedavg"], r"strategies\[0\]: given str 'fedavg'"),
        (labelled_strategies, {"mine": FedAvg}, "strategies: mine: FedAvg is a class; call it"),
        (labelled_strategies, FedAvg(), "expected a list such as"),
        (labelled_strategies, "fedavg", "expected a list such as"),
        (labelled_strategies, [], "given none"),
    ],
)
def test_the_wrong_kind_is_refused_with_a_remedy(check, given, message):
    with pytest.raises(TypeError, match=message) as refused:
        check(given)
    assert "\n" not in str(refused.value)


def test_what_is_right_passes():
    check_world(turnout.World(turnout.availability.two_classes(4)))
    check_local(None)
    check_local(turnout.Local())
    check_task(turnout.tasks.quadratics(num_clients=4))
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
        print(str(error).partition(":")[0])
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
