"""Strategies whose memory is on the clients: the model of the server-side form, through losses, kills and restarts."""

import jax
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from inprocess import FakeClock, InProcessGrid, grouped

from turnout.flower import FlowerStrategy, Waiting, client_app, greet
from turnout.flower.memory import REMEMBERED
from turnout.flower.server.driver import Driver
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, LastWord
from turnout.uploads import ErrorFeedback, Noise, TopK

MODEL = {"w": np.zeros(3, np.float32), "seen": np.array(5)}
NAMES = ("1", "2", "3", "4", "5")
ROUNDS = 24


def steps_of(name):
    return 1 + int(name) % 3


def train(arrays, config, context):
    """Plain gradient steps towards a point of the client's own, more of them on some clients."""
    name = context.node_config["client-id"]
    own, model = np.float32(name) * np.array([1, -1, 0.5], np.float32), arrays["w"]
    for _ in range(steps_of(name)):
        model = model + np.float32(config["lr"]) * (own - model)
    return {**arrays, "w": model}, {"loss": 1.0, "reach": steps_of(name)}


APP = client_app(train=train)


def somebody_elses():
    """An app as Flower's own examples have it, which knows nothing of memories."""
    app = ClientApp()

    @app.train()
    def work(message: Message, context):
        arrays = dict(to_numpy(message.content["arrays"]))
        model, metrics = train(arrays, message.content["config"], context)
        content = {"arrays": ArrayRecord(to_record(model)), "metrics": MetricRecord({"train_loss": metrics["loss"]})}
        return Message(RecordDict(content), reply_to=message)

    return app


def absences(seed=3):
    """Who is listed in each turn, and whose upload is lost: about half, and a third."""
    draw = np.random.default_rng(seed)
    here, lost = draw.random((400, len(NAMES))) < 0.6, draw.random((400, len(NAMES))) < 0.3

    def behave(name, turn, message):
        is_lost = message.metadata.message_type == "train" and lost[turn, NAMES.index(name)]
        return "lost" if is_lost else "answer"

    return lambda turn: [name for name, is_here in zip(NAMES, here[turn], strict=True) if is_here], behave


def play(strategy, app=APP, *, rounds=ROUNDS, grid=None, **options):
    if grid is None:
        listed, behave = absences()
        grid = InProcessGrid(app, listed, behave)
    flower = FlowerStrategy(
        strategy, **grouped(local=Local(learning_rate=0.1), evaluate_every=0, clock=FakeClock(), guard=None, **options)
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=10.0)
    return flower, to_numpy(result.arrays)["w"]


@pytest.mark.parametrize("kind", [LastWord, MIFA])
def test_the_model_is_that_of_a_memory_on_the_server(kind):
    (_, on_server), (flower, on_clients) = (play(kind(memory=memory)) for memory in ("server", "clients"))
    np.testing.assert_allclose(on_server, on_clients, atol=1e-5)
    assert np.abs(on_server).max() > 0.5
    assert sum(flower.history.records["dropped"][0]) == 0


def test_somebody_elses_app_needs_one_line():
    app = greet(somebody_elses(), reach=lambda metrics: 2.0)
    _, on_server = play(LastWord(), app)
    _, on_clients = play(LastWord(memory="clients"), greet(somebody_elses(), reach=lambda metrics: 2.0))
    np.testing.assert_allclose(on_server, on_clients, atol=1e-5)
    with pytest.raises(ValueError, match=r"LastWord has its memory on the clients.*`app = greet\(app\)`"):
        play(LastWord(memory="clients"), somebody_elses())


def everybody(app, on_turn=lambda grid, turn: None):
    grid = InProcessGrid(app, lambda turn: on_turn(grid, turn) or list(NAMES))
    return grid


def test_a_client_that_loses_its_memory_begins_a_new_epoch():
    def forget(grid, turn):
        if turn == 9:
            del grid.contexts[grid.nodes["2"]].state[REMEMBERED]

    flower, model = play(LastWord(memory="clients"), grid=everybody(APP, forget), rounds=60)
    _, undisturbed = play(LastWord(), grid=everybody(APP), rounds=60)
    assert sum(flower.history.records["dropped"][0]) == 1
    assert flower._require_driver().epoch == 10
    np.testing.assert_allclose(model, undisturbed, atol=0.02)  # with the ghost of its old update it would be far off


def test_a_server_that_falls_back_to_its_checkpoint_agrees_with_its_clients(tmp_path):
    """It loses the rounds since, of which the clients remember every version."""
    app = client_app(train=train, state=lambda context: tmp_path / f"{context.node_config['client-id']}.npz")
    places = {"checkpoint": tmp_path / "state.npz", "every": 4}

    class Killed(BaseException):
        pass

    def kill(grid, turn):
        if turn == 10:  # in round 11, with a checkpoint of round 8
            raise Killed

    with pytest.raises(Killed):
        play(LastWord(memory="clients"), grid=everybody(app, kill), rounds=30, **places)
    flower, model = play(LastWord(memory="clients"), grid=everybody(app), rounds=30, **places)
    _, undisturbed = play(LastWord(), grid=everybody(APP), rounds=30)
    np.testing.assert_allclose(model, undisturbed, atol=1e-5)
    assert sum(flower.history.records["dropped"][0]) == 0
    assert flower._require_driver().epoch == 0


def test_nothing_of_a_client_that_has_left_remains():
    strategy = LastWord(memory="clients")
    flower = FlowerStrategy(
        strategy, local=Local(learning_rate=0.1), evaluate_every=0, waiting=Waiting(clock=FakeClock())
    )

    def leave(grid, turn):
        if turn == 20:
            grid.listed = lambda _turn: list(NAMES[:4])
            flower.retire("5")

    grid = everybody(APP, leave)
    result = flower.start(grid, to_record(MODEL), num_rounds=120, timeout=10.0)
    mean = np.mean([float(name) for name in NAMES[:4]])
    np.testing.assert_allclose(to_numpy(result.arrays)["w"], mean * np.array([1, -1, 0.5]), atol=0.05)


def either(other, *names):
    """An app that is another one on some clients."""
    return lambda message, context: (other if context.node_config["client-id"] in names else APP)(message, context)


def test_a_compressor_goes_inside():
    sparse = client_app(train=train, uploads=TopK(0.34))
    _, model = play(LastWord(memory="clients"), grid=everybody(sparse), rounds=200)
    _, whole = play(LastWord(memory="clients"), grid=everybody(APP), rounds=200)
    np.testing.assert_allclose(model, whole, atol=0.05)


@pytest.mark.parametrize(
    ("uploads", "why"),
    [
        (Noise(0.1), "Noise cannot be used with the server's strategy, whose clients send what has changed"),
        (ErrorFeedback(TopK(0.5)), "ErrorFeedback cannot be used with the server's strategy, whose clients keep"),
    ],
)
def test_a_transform_that_does_not_fit_is_refused_by_the_greeting(uploads, why, caplog):
    app = either(client_app(train=train, uploads=uploads), "2")
    flower, _ = play(LastWord(memory="clients"), grid=everybody(app), rounds=2)
    assert all(record.arrived == ("id:1", "id:3", "id:4", "id:5") for record in flower.records)
    assert why in caplog.text


def test_the_servers_state_knows_nothing_of_one_client():
    """A sum, three numbers and three on what came: as for one client, whatever the number of them."""
    forms = []
    for count in (1, 1000):
        driver = Driver(LastWord(memory="clients"), {"w": np.zeros(5000, np.float32)})
        driver.join({f"id:{number}": 1.0 for number in range(count)})
        state = driver.state
        assert state is not None
        forms.append([leaf.shape for leaf in jax.tree.leaves(state.strategy)])
    assert forms[0] == forms[1]
    assert sorted(forms[0]) == [*[()] * 6, (5000,)]


@pytest.mark.parametrize("target", [{"1": 1.0, "2": 5.0, "3": 0.5, "4": 2.0, "5": 1.0}, "size", "examples"])
@pytest.mark.parametrize("kind", [LastWord, MIFA])
def test_clients_count_as_they_do_with_a_memory_on_the_server(kind, target):
    def sized(arrays, config, context):
        trained, metrics = train(arrays, config, context)
        return trained, {**metrics, "num-examples": 10 * int(context.node_config["client-id"])}

    app = client_app(train=sized, size=lambda context: 10 * int(context.node_config["client-id"]))
    (_, on_server), (_, on_clients) = (
        play(kind(memory=memory), target=target, grid=everybody(app), rounds=12) for memory in ("server", "clients")
    )
    np.testing.assert_allclose(on_server, on_clients, atol=1e-5)
    assert np.abs(on_server).max() > 0.5


def test_numbers_beside_a_vector_that_are_of_no_use_drop_the_answer(caplog):
    def lie(content):
        content["turnout.numbers"] = to_record({"numbers": np.full(3, np.nan, np.float32)})
        return content

    def behave(name, _turn, message):
        return "lie" if name == "2" and message.metadata.message_type == "train" else "answer"

    grid = InProcessGrid(APP, lambda _turn: list(NAMES), behave, lie)
    flower, _ = play(LastWord(memory="clients"), grid=grid, rounds=2)
    assert all(record.arrived == ("id:1", "id:3", "id:4", "id:5") for record in flower.records)
    assert "the numbers beside its upload" in caplog.text
