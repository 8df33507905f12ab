"""The client's side of an algorithm costs nothing where a strategy has none: the compiled program is the same text."""

import equinox as eqx
import numpy as np
import pytest

from every_strategy import ONE_EACH
from turnout import Local, World, availability, compute, links, simulate
from turnout.simulator import crew
from turnout.simulator.client import Client, Sent
from turnout.simulator.local_training import train_locally
from turnout.strategies import SCAFFOLD
from turnout.tasks import synthetic_leaf
from turnout.types import Answer

PLAIN = [name for name, strategy in ONE_EACH.items() if strategy.client_side is None]
USUAL = ("fedavg", "last_word")
COUNT = 7  # as many as settings with one entry per client expect


class LoweredError(Exception):
    """The program is there, so nothing need be compiled."""


def train_and_send(self, task, download, jobs, most, masked):
    """All that a client did before there was a side: training, and sending what came of it."""
    trained = train_locally(self.local, task, download.model, jobs, most, masked)
    return Sent(Answer(trained.updates), trained.losses)


def program(strategy, monkeypatch):
    """Text of the program of a run, before it is compiled."""
    found = []

    def lower(function, *arguments, careful=False):
        if function is not crew._advance:
            return function.lower(*arguments).compile()
        fresh = eqx.filter_jit(lambda *given: function.__wrapped__(*given))  # no earlier trace is used again
        found.append(fresh.lower(*arguments).as_text())
        raise LoweredError

    monkeypatch.setattr(crew, "_compile_for", lower)
    monkeypatch.setattr(crew, "once_per_kind", lambda make, *given: make(*given))
    task = synthetic_leaf(num_clients=COUNT, num_features=4, num_classes=3, samples_per_client=20)
    steps = compute.per_client(COUNT, np.arange(1, COUNT + 1).tolist())
    world = World(availability.bernoulli(COUNT, 0.5), links.bernoulli(COUNT, 0.8), steps)
    with pytest.raises(LoweredError):
        simulate(task, world, strategy, rounds=3, local=Local(learning_rate=0.1, batch_size=4))
    return found[0]


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.variant) for name in PLAIN]
)
def test_a_strategy_without_a_side_has_the_program_of_plain_training(name, monkeypatch):
    with_seam = program(ONE_EACH[name], monkeypatch)
    monkeypatch.setattr(Client, "work", train_and_send)
    assert program(ONE_EACH[name], monkeypatch) == with_seam
    assert len(with_seam) > 10_000


def test_one_with_a_side_has_another(monkeypatch):
    monkeypatch.setattr(Client, "work", train_and_send)
    plain = program(ONE_EACH["fedavg"], monkeypatch)
    monkeypatch.undo()
    assert program(SCAFFOLD(), monkeypatch) != plain
