"""Client sides over the wire: by name and numbers, only those that both ends know."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from inprocess import InProcessGrid
from test_memory_on_clients import APP, MODEL, NAMES, either, everybody, play, train

from steered import Corrected, Steered
from turnout.files import archive
from turnout.flower import FlowerStrategy, client_app
from turnout.flower.sender import NodeState, answer_of
from turnout.flower.wire import messages, side, side_names
from turnout.flower.wire.messages import to_record
from turnout.server.settings import ServerSettings
from turnout.strategies import FOCUS, MIFA, SCAFFOLD, AmplifiedSCAFFOLD, FedAvg, FedDyn, FedProx, LastWord, Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import LastUpdate, OwnWord
from turnout.types import Work
from turnout.uploads import EightBit, Plain, UploadContext

SIDE = {"turnout.side": "last_update"}


@pytest.mark.parametrize(
    ("strategy", "config"),
    [
        (FedAvg(), {}),
        (MIFA(), {}),
        (MIFA(memory="clients"), {**SIDE, "turnout.fading": 0.0, "turnout.unit": "rate", "turnout.blends": False}),
        (
            LastWord(fading=jnp.asarray(0.25), memory="clients"),
            {**SIDE, "turnout.fading": 0.25, "turnout.unit": "work", "turnout.blends": True},
        ),
        (SCAFFOLD(), {"turnout.side": "control_variate"}),
        (FOCUS(), {"turnout.side": "last_gradient"}),
        (FedProx(mu=0.5), {"turnout.side": "proximal", "turnout.mu": 0.5}),
        (FedDyn(alpha=jnp.asarray(0.25)), {"turnout.side": "tilted", "turnout.alpha": 0.25}),
        (AmplifiedSCAFFOLD(), {"turnout.side": "windowed_control"}),
        (Steered(0.5), {"turnout.side": "Corrected", "turnout.mu": 0.5}),
    ],
)
def test_an_order_tells_the_name_of_a_side_and_its_numbers(strategy, config):
    assert side.to_config(strategy) == config
    built = side.from_config({"lr": 0.1, **config}, [Corrected])
    assert (built is None) == (strategy.client_side is None)
    assert built is None or side.to_config(Sided(built)) == config


def test_numbers_that_are_missing_are_named():
    with pytest.raises(ValueError, match=r"the server sends no 'turnout.unit', which the client side 'last_update'"):
        side.from_config({**SIDE, "turnout.fading": 0.5})


def ask(app, kind, **config):
    numbers = {"lr": 0.5, "seed": 1, "server-round": 1, **config}
    message = Message(RecordDict({"arrays": to_record(MODEL), "config": ConfigRecord(numbers)}), 1, kind)
    message.metadata.__dict__["_message_id"] = "m"
    return app(message, Context(7, 1, {"client-id": "1"}, RecordDict(), {}))


@pytest.mark.parametrize("uploads", [None, EightBit()])
def test_a_side_that_a_node_does_not_know_is_refused_before_any_work(uploads):
    worked = []
    app = client_app(train=lambda *order: worked.append(order) or train(*order), uploads=uploads)
    wanted = {side_names.SIDE: "scaffold"}
    InProcessGrid(app, lambda _turn: [])  # tells Flower who is writing
    with pytest.raises(ValueError, match="wants the client side 'scaffold', but this node knows only last_update"):
        ask(app, "train", **wanted)
    told = messages.problem_in(ask(app, messages.HELLO, **wanted).content)
    assert told is not None
    assert "wants the client side 'scaffold'" in told
    assert not worked


def test_an_old_node_that_knows_no_sides_takes_no_part(caplog):
    """It would take the order for one without a memory."""

    def old(message, context):
        reply = APP(message, context)
        if message.metadata.message_type == messages.HELLO:
            del reply.content.config_records[messages.IDENTITY][side_names.SIDES]
        return reply

    flower, _ = play(LastWord(memory="clients"), grid=everybody(either(old, "3")), rounds=2)
    assert all(record.members == ("id:1", "id:2", "id:4", "id:5") for record in flower.records)
    assert "LastWord has its memory on the clients, which its turnout does not know" in caplog.text
    flower, _ = play(LastWord(), grid=everybody(either(old, "3")), rounds=1)
    assert len(flower.records[0].arrived) == len(NAMES)


class Vector(ClientSide):
    scales: Any


class Function(ClientSide):
    rule: Any = eqx.field(static=True)


class Covered(ClientSide):
    side: str = eqx.field(static=True, default="left")


class Sided(Strategy):
    side: ClientSide

    @property
    def client_side(self):
        return self.side


@pytest.mark.parametrize(
    ("side_of_ones_own", "field"),
    [(Vector(jnp.ones(3)), "scales of Vector"), (Function(max), "rule of Function"), (Covered(), "side of Covered")],
)
def test_fields_that_an_order_cannot_hold_are_refused(side_of_ones_own, field):
    with pytest.raises(ValueError, match=f"^{field}, the client side of Sided, cannot be sent: it must be a number or"):
        FlowerStrategy(Sided(side_of_ones_own))


@pytest.mark.parametrize("reach", [0.0, 2.0])
def test_an_update_of_no_work_says_nothing(reach):
    before = NodeState(algorithm=OwnWord({"w": jnp.array([3.0, -1.0])}, jnp.array([1.0, 2.0]), jnp.asarray(4.0)))
    context = UploadContext(jnp.uint32(1), *(jnp.asarray(number) for number in (0.5, reach, 7.0)))
    work = Work({"w": jnp.array([2.0, 2.0])}, context.lr, context.reach, context.t)
    said, after = answer_of(LastUpdate(), Plain(), work, before, context)
    sent = said.update
    expected = [4.0 - 3.0, 4.0 + 1.0] if reach else [0.0, 0.0]
    np.testing.assert_allclose(sent["w"], expected)
    np.testing.assert_allclose(said.numbers, [0.0, 0.0, 1.0] if reach else [0.0, 0.0, 0.0])
    np.testing.assert_allclose(after.algorithm.word["w"], before.algorithm.word["w"] + sent["w"])
    assert float(after.algorithm.t) == (7.0 if reach else 4.0)


@pytest.mark.parametrize("kind", [LastWord, MIFA])
def test_an_answer_of_no_work_is_as_good_as_none(kind):
    def is_idle(name, t):
        return (int(name) + t) % 3 == 0

    def lazy(arrays, config, context):
        if is_idle(context.node_config["client-id"], config["server-round"]):
            return {**arrays, "w": arrays["w"] + 1.0}, {"loss": 1.0, "reach": 0}
        return train(arrays, config, context)

    def lose(name, _turn, message):
        if message.metadata.message_type != "train":
            return "answer"
        return "lost" if is_idle(name, messages.config_in(message)["server-round"]) else "answer"

    idle, lossy = everybody(client_app(train=lazy)), everybody(APP)
    lossy.behave = lose
    (flower, model), (_, expected) = (play(kind(memory="clients"), grid=grid, rounds=12) for grid in (idle, lossy))
    np.testing.assert_allclose(model, expected, atol=1e-5)
    assert np.abs(model).max() > 0.3
    assert sum(flower.history.records["dropped"][0]) == 0


def to_former(path):
    """Write a file as the version before did: one state, whose rows were called so, and no numbers beside them."""
    header, rows = archive.read_archive(path)
    renamed = {name.replace(".algorithm", "").replace(".word", ".rows"): row for name, row in rows.items()}
    assert renamed.keys() != rows.keys()
    kept = {name: row for name, row in renamed.items() if not name.endswith(".numbers")}
    archive.write_archive(path, header | {"format": 2}, kept)


def test_the_file_of_a_former_version_is_told_and_a_new_epoch_begins(tmp_path):
    """Its words are not weighed, so that they cannot be taken out of the sum."""
    app = client_app(train=train, state=lambda context: tmp_path / f"{context.node_config['client-id']}.npz")

    def age(_grid, turn):
        if turn == 6:
            for name in NAMES:
                to_former(tmp_path / f"{name}.npz")

    flower, model = play(LastWord(memory="clients"), grid=everybody(app, age), rounds=60)
    _, undisturbed = play(LastWord(), grid=everybody(APP), rounds=60)
    np.testing.assert_allclose(model, undisturbed, atol=0.02)
    assert sum(flower.history.records["dropped"][0]) == len(NAMES)
    assert flower._require_driver().epoch == 7


def test_a_server_with_rests_runs_on_nodes():
    flower, _ = play(FedAvg(), grid=everybody(APP), rounds=6, server=ServerSettings(rest=2))
    assert [len(record.asked) for record in flower.records] == [5, 0, 0, 5, 0, 0]
