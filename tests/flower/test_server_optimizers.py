"""Server optimizers by name, on Flower and beside the strategies of these names that Flower has itself."""

import numpy as np
import pytest

pytest.importorskip("flwr")

import jax.numpy as jnp
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as theirs
from inprocess import FakeClock, InProcessGrid, grouped

from turnout.flower import FlowerStrategy, client_app
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.optimizers import fedadagrad, fedadam, fedavgm, fedyogi
from turnout.server.settings import ServerSettings
from turnout.simulator.local_training import Local
from turnout.strategies import FedAvg

RATE, TAU, ROUNDS = 0.05, 1e-3, 6
PULLS = np.random.default_rng(3).normal(size=(ROUNDS, 4)).astype(np.float32)
NAMES = {
    "FedAvgM": (fedavgm(), {"server_learning_rate": RATE, "server_momentum": 0.9}),
    "FedAdagrad": (fedadagrad(), {"eta": RATE}),
    "FedAdam": (fedadam(), {"eta": RATE}),
    "FedYogi": (fedyogi(), {"eta": RATE}),
}


def ours(optimizer):
    """Models after each round, whose direction is the pull less half of the model."""
    model, found = jnp.zeros(4), []
    state = optimizer.init(model)
    for pull in PULLS:
        step, state = optimizer.update(0.5 * model - pull, state, model)
        model = model + RATE * step
        found.append(np.asarray(model))
    return np.stack(found)


def flowers(name, monkeypatch, start=TAU**2):
    """The same by Flower's own strategy, whose squares begin at `start`."""
    averages = []
    monkeypatch.setattr(theirs.FedAvg, "aggregate_train", lambda *_: (averages.pop(), None))
    one, model, found = getattr(theirs, name)(**NAMES[name][1]), np.zeros(4, np.float32), []
    if name != "FedAvgM":
        one.v_t = {"w": np.full(4, start, np.float32)}
    for t, pull in enumerate(PULLS):
        one.current_arrays = {"w": model} if name != "FedAvgM" else ArrayRecord({"w": Array(model)})
        averages.append(ArrayRecord({"w": Array(model + pull - 0.5 * model)}))
        arrays, _ = one.aggregate_train(t + 1, [])
        model = arrays["w"].numpy().astype(np.float32)
        found.append(model)
    return np.stack(found)


@pytest.mark.parametrize("name", ["FedAvgM", "FedAdagrad", "FedYogi"])
def test_steps_are_those_of_flowers_own_strategy(name, monkeypatch):
    np.testing.assert_allclose(ours(NAMES[name][0]), flowers(name, monkeypatch), rtol=1e-5)


def test_flowers_adam_corrects_for_the_start_and_the_paper_does_not(monkeypatch):
    """Deviation of Flower: its first step is √(1 - 0.99²) / (1 - 0.9²) = 0.742 times as long."""
    first, other = ours(fedadam())[0], flowers("FedAdam", monkeypatch)[0]
    np.testing.assert_allclose(other / first, np.sqrt(1 - 0.99**2) / (1 - 0.9**2), rtol=1e-5)


def test_flowers_squares_begin_at_zero_and_the_papers_at_tau_squared(monkeypatch):
    """It hardly matters where updates are longer than τ; where they are not, steps are up to twice as long."""
    found = flowers("FedYogi", monkeypatch, start=0.0)
    np.testing.assert_allclose(ours(fedyogi()), found, rtol=1e-2)
    monkeypatch.setattr("test_server_optimizers.PULLS", PULLS * 1e-4)
    longer = flowers("FedYogi", monkeypatch, start=0.0)[0] / ours(fedyogi())[0]
    assert np.all((longer > 1.8) & (longer < 2.0))


def test_they_work_on_flower_and_an_empty_round_keeps_the_momentum():
    """Two clients, of which one comes at a time, or nobody."""
    centres, there = {"a": 1.0, "b": -3.0}, [["a"], ["b"], [], [], ["b"], ["a"]]

    def train(arrays, config, context):
        return {"w": arrays["w"] + 0.5 * (centres[context.node_config["client-id"]] - arrays["w"])}, {}

    settings = {"local": Local(learning_rate=0.5), "evaluate_every": 0, "clock": FakeClock(), "guard": None}
    server = ServerSettings(optimizer=fedyogi(), learning_rate=RATE)
    strategy = FlowerStrategy(FedAvg(), server=server, **grouped(**settings))
    grid = InProcessGrid(client_app(train=train), lambda turn: there[turn])
    result = strategy.start(grid, to_record({"w": np.zeros(1, np.float32)}), num_rounds=len(there), timeout=10.0)
    w, m, v = 0.0, 0.0, TAU**2
    for here in there:
        for name in here:
            d = 0.5 * (centres[name] - w)
            m, v = 0.9 * m + 0.1 * d, v - 0.01 * d**2 * np.sign(v - d**2)
            w += RATE * m / (np.sqrt(v) + TAU)
    assert to_numpy(result.arrays)["w"][0] == pytest.approx(w, rel=1e-5)
