"""Strategies that steer local steps: what server and clients keep agrees, whatever is lost, killed or wrong."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from inprocess import InProcessGrid, grouped
from test_memory_on_clients import MODEL, NAMES, absences, play

from steered import Corrected, Steered
from turnout import tree
from turnout.files import archive
from turnout.flower import FlowerStrategy, Guard, Limits, client_app, greet, leave, steer
from turnout.flower.memory import REMEMBERED
from turnout.flower.server.driver import Driver
from turnout.flower.wire import side_names
from turnout.flower.wire.messages import SECOND, to_numpy, to_record
from turnout.server.places import words_in
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FOCUS, SCAFFOLD, AmplifiedSCAFFOLD, FedAvg, FedDyn, FedProx, Strategy
from turnout.types import Move

KEEPING = {"scaffold": SCAFFOLD(), "focus": FOCUS(), "feddyn": FedDyn(), "amplified": AmplifiedSCAFFOLD(window=3)}
WORD = {"amplified": ".mean"}  # of what a client keeps, where that is more than one vector


def own_gradient(name, model):
    return np.float32(1.0 + 0.1 * int(name)) * (model - np.float32(name) * np.array([1, -1, 0.5], np.float32))


def train(arrays, config, context):
    """A user's own loop; numbers of steps differ."""
    name, model = context.node_config["client-id"], arrays["w"]
    steps = 1 + int(name) % 3
    for _ in range(steps):
        along = config["steer"]({"w": own_gradient(name, model)}, {"w": model})
        model = model - np.float32(config["lr"]) * along["w"]
    return {**arrays, "w": model}, {"loss": 1.0, "reach": steps}


def on_disk(folder):
    return client_app(train=train, state=lambda context: folder / f"{context.node_config['client-id']}.npz")


def in_train(names, rounds, manner):
    """What these clients do with their orders of these rounds, counted from 1."""

    def behave(name, _turn, message):
        config = message.content.config_records.get("config", {})
        chosen = message.metadata.message_type == "train" and config["server-round"] in rounds
        return manner if chosen and name.removesuffix(" again") in names else "answer"

    return behave


def kept_by(grid, name):
    """What a client keeps, by round and path: in its file, or in the state of its node."""
    context = grid.contexts[grid.nodes.get(f"{name} again", grid.nodes[name])]
    place = grid.app._place
    found = archive.read_archive(place(context))[1] if place else _in_state(context)
    return {path.replace(" .algorithm", " ", 1): rows for path, rows in found.items()}


def _in_state(context):
    return archive.from_bytes(context.state[REMEMBERED]["npz"], "the state of the node")[1]


def difference(flower, grid, kind):
    """The server's mean of all words, less the mean of what the clients keep; relative to the largest of these."""
    driver = flower._require_driver()
    (words,) = words_in(driver.state.strategy)
    acknowledged, kept, worth = driver.acknowledged_rounds(), {}, 0.0
    for name in driver.directory.names:
        place, short = driver.directory.place(name), name.removeprefix("id:")
        worth += driver.importance[place]
        if t := int(acknowledged[place]):
            kept[place] = kept_by(grid, short)[f"{t} {WORD.get(kind, '')}['w']"]
    total = sum(driver.importance[place] * row.astype(float) for place, row in kept.items())
    largest = max(np.abs(row).max() for row in kept.values())
    assert largest > 0.1
    return np.abs(np.asarray(words.total["w"], float) - total).max() / worth / largest


def everybody(app, on_turn=lambda grid, turn: None):
    grid = InProcessGrid(app, lambda turn: on_turn(grid, turn) or list(NAMES))
    return grid


def dropped(flower):
    return int(sum(flower.history.records["dropped"][0]))


@pytest.mark.parametrize("kind", KEEPING)
def test_the_servers_mean_is_that_of_the_clients_though_uploads_are_lost(kind):
    grid = InProcessGrid(client_app(train=train), *absences())
    flower, model = play(KEEPING[kind], grid=grid, target=dict(zip(NAMES, (1.0, 2.0, 1.0, 3.0, 1.0), strict=True)))
    assert difference(flower, grid, kind) < 1e-6
    assert np.abs(model).max() > 0.5
    assert dropped(flower) == 0


@pytest.mark.parametrize("manner", ["answer", "lost", "late"])
@pytest.mark.parametrize("kind", KEEPING)
def test_a_node_is_killed_between_upload_and_acknowledgement(kind, manner, tmp_path):
    """Its upload of round 6 has arrived, is lost, or comes too late; what it kept is in its file when it is back."""
    behave = in_train({"2"}, {6}, manner)

    def back(grid, turn):
        if turn >= 6:
            return [name if name != "2" else "2 again" for name in NAMES]

    killed, calm = everybody(on_disk(tmp_path), back), everybody(client_app(train=train))
    killed.behave, calm.behave = behave, behave
    (flower, model), (_, expected) = (play(KEEPING[kind], grid=grid, rounds=12) for grid in (killed, calm))
    assert difference(flower, killed, kind) < 1e-6
    np.testing.assert_allclose(model, expected, rtol=1e-6)
    assert flower._require_driver().epoch == 0
    assert ("id:2" in flower.records[5].arrived) is (manner == "answer")
    assert "id:2" in flower.records[6].arrived


@pytest.mark.parametrize("kind", ["scaffold", "feddyn"])
def test_a_node_without_a_file_that_is_killed_begins_a_new_epoch(kind):
    def back(grid, turn):
        if turn >= 6:
            return [name if name != "2" else "2 again" for name in NAMES]

    grid = everybody(client_app(train=train), back)
    flower, _ = play(KEEPING[kind], grid=grid, rounds=12)
    assert flower._require_driver().epoch == 7
    assert dropped(flower) == 1
    assert difference(flower, grid, kind) < 1e-6


@pytest.mark.parametrize("kind", KEEPING)
def test_a_server_that_falls_back_to_its_checkpoint_agrees_with_its_clients(kind, tmp_path):
    class Killed(BaseException):
        pass

    def kill(grid, turn):
        if turn == 7:  # in round 8, with a checkpoint of round 4
            raise Killed

    places = {"checkpoint": tmp_path / "state.npz", "every": 4}
    with pytest.raises(Killed):
        play(KEEPING[kind], grid=everybody(on_disk(tmp_path), kill), rounds=12, **places)
    grid, calm = everybody(on_disk(tmp_path)), everybody(client_app(train=train))
    flower, model = play(KEEPING[kind], grid=grid, rounds=12, **places)
    assert flower.records[0].t == 4
    assert difference(flower, grid, kind) < 1e-6
    np.testing.assert_allclose(model, play(KEEPING[kind], grid=calm, rounds=12)[1], rtol=1e-6)


def without(content):
    del content[SECOND]
    return content


def replaced(**parts):
    def lie(content):
        content[SECOND] = to_record(parts)
        return content

    return lie


def of_strange_bytes(content):
    content[SECOND] = ArrayRecord({"values": Array("float32", (3,), "numpy.ndarray", b"no array")})
    return content


def a_third(content):
    content["more"] = to_record({"values": np.zeros(3, np.float32)})
    return content


WRONG = {
    "missing": (without, "it holds no 'turnout.second', the second vector that SCAFFOLD has clients send"),
    "other": (replaced(v=np.zeros(3, np.float32)), "its second vector is of no use: array 'v' is not part of"),
    "short": (replaced(values=np.zeros(2, np.float32)), "its upload has 2 entries, but the model 3"),
    "large": (replaced(values=np.zeros(9000, np.float32)), "'values' takes 36128 bytes, more than the model's"),
    "nan": (replaced(values=np.array([0, np.nan, 0], np.float32)), "'values' of its upload hold a value that is not"),
    "long": (replaced(values=np.full(3, 90, np.float32)), "its second vector has length 155.9, beyond the limit of 50"),
    "longest": (replaced(values=np.full(3, 1e30, np.float32)), "its second vector has length inf"),
    "bytes": (of_strange_bytes, "its second vector is of no use: array 'values' cannot be read"),
    "third": (a_third, "it holds 2 array records, not one"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_with_a_wrong_second_vector_is_dropped_as_a_whole(wrong, caplog):
    lie, why = WRONG[wrong]
    grid = everybody(client_app(train=train))
    grid.behave, grid.lie = in_train({"3"}, {3}, "lie"), lie
    flower, model = play(SCAFFOLD(), grid=grid, rounds=5, limits=Limits(second=None if wrong == "longest" else 50.0))
    assert why in caplog.text
    assert dropped(flower) == 1
    assert flower.records[2].arrived == ("id:1", "id:2", "id:4", "id:5")
    assert len(flower.records[3].arrived) == 5
    assert difference(flower, grid, "scaffold") < 1e-6
    lossy = everybody(client_app(train=train))
    lossy.behave = in_train({"3"}, {3}, "lost")
    np.testing.assert_allclose(model, play(SCAFFOLD(), grid=lossy, rounds=5)[1], rtol=1e-6)


def test_a_second_vector_where_none_is_wanted_is_refused(caplog):
    grid = everybody(client_app(train=train))
    grid.behave, grid.lie = in_train({"3"}, {2}, "lie"), replaced(values=np.zeros(3, np.float32))
    flower, _ = play(FOCUS(), grid=grid, rounds=3)
    assert "it holds 2 array records, not one" in caplog.text
    assert dropped(flower) == 1


@pytest.mark.parametrize("kind", KEEPING)
def test_gradients_that_are_not_finite_are_lost_and_nothing_of_them_is_kept(kind):
    def broken(arrays, config, context):
        if context.node_config["client-id"] == "4" and config["server-round"] == 3:
            config = {**config, "steer": lambda gradients, model: steer({"w": gradients["w"] * np.nan}, model)}
        return train(arrays, config, context)

    grid, lossy = everybody(client_app(train=broken)), everybody(client_app(train=train))
    lossy.behave = in_train({"4"}, {3}, "lost")
    (flower, model), (_, expected) = (play(KEEPING[kind], grid=grid, rounds=6) for grid in (grid, lossy))
    assert dropped(flower) == 1
    assert difference(flower, grid, kind) < 1e-6
    np.testing.assert_allclose(model, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("strategy", "told"),
    [(SCAFFOLD(), {"reach": 2}), (SCAFFOLD(), {}), (FedProx(), {})],
    ids=["scaffold", "reach unknown", "fedprox"],
)
def test_a_loop_that_does_not_steer_is_refused_in_one_line(strategy, told, caplog):
    def plain(arrays, config, context):
        if context.node_config["client-id"] == "2":
            return {**arrays, "w": 0.9 * arrays["w"] + 1.0}, {"loss": 1.0, **told}
        return train(arrays, config, context)

    flower, _ = play(strategy, client_app(train=plain), grid=everybody(client_app(train=plain)), rounds=1)
    assert flower.records[0].arrived == ("id:1", "id:3", "id:4", "id:5")
    (line,) = [line for line in caplog.text.splitlines() if "has not called config['steer']" in line]
    assert "gradients = steer(gradients, model) in every step, or steer(net) in PyTorch" in line


def test_no_work_needs_no_gradient_and_says_nothing():
    def lazy(arrays, config, context):
        if context.node_config["client-id"] == "2":
            return arrays, {"loss": 1.0, "reach": 0}
        return train(arrays, config, context)

    grid = everybody(client_app(train=lazy))
    flower, _ = play(SCAFFOLD(), grid=grid, rounds=4)
    assert all(len(record.arrived) == 5 for record in flower.records)
    assert difference(flower, grid, "scaffold") < 1e-6
    np.testing.assert_array_equal(kept_by(grid, "2")["4 ['w']"], 0.0)


@pytest.mark.parametrize("reported", [True, False])
def test_steps_are_counted_and_a_pull_makes_their_reach_less(reported):
    def quiet(arrays, config, context):
        trained, metrics = train(arrays, config, context)
        return trained, metrics if reported else {"loss": 1.0}

    for strategy, each in ((SCAFFOLD(), 0.0), (FedProx(mu=2.0), 0.1 * 2.0)):
        flower, _ = play(strategy, grid=everybody(client_app(train=quiet)), rounds=1)
        steps = [1 + int(name) % 3 for name in NAMES]
        expected = sum((1 - (1 - each) ** K) / each if each else K for K in steps)
        assert flower.records[0].steps == pytest.approx(expected)


def counting(arrays, config, context):
    """A model with an array of running statistics, which has no gradient."""
    trained, metrics = train({"w": arrays["w"]}, config, context)
    return {"w": trained["w"], "mean": 0.5 * (arrays["mean"] + 1.0)}, metrics


@pytest.mark.parametrize("kind", KEEPING)
def test_what_moves_without_a_gradient_is_averaged_or_refused(kind, caplog):
    refused = kind in ("focus", "feddyn")
    flower = FlowerStrategy(KEEPING[kind], **grouped(local=Local(learning_rate=0.1), evaluate_every=0, poll=0.01))
    start = {"w": MODEL["w"], "mean": np.zeros(1, np.float32)}
    result = flower.start(everybody(client_app(train=counting)), to_record(start), num_rounds=1, timeout=1.0)
    assert bool(flower.records[0].arrived) is not refused
    assert ("array 'mean' has changed in the training, but steer was given no gradient of it" in caplog.text) is refused
    np.testing.assert_allclose(to_numpy(result.arrays)["mean"], 0.0 if refused else 0.5)


def test_bytes_of_both_vectors_are_counted():
    sizes = {}
    for strategy in (FedAvg(), FOCUS(), SCAFFOLD()):
        flower = FlowerStrategy(strategy, **grouped(local=Local(learning_rate=0.1), evaluate_every=0, poll=0.01))
        model = {"w": np.zeros(3 * 4000, np.float32)}

        def long(arrays, config, context):
            own = np.random.default_rng(config["seed"]).normal(size=12_000).astype(np.float32)
            along = config["steer"]({"w": arrays["w"] - own}, arrays)
            return {"w": arrays["w"] - np.float32(0.1) * along["w"]}, {"reach": 1}

        flower.start(everybody(client_app(train=long)), to_record(model), num_rounds=1, timeout=1.0)
        sizes[type(strategy)] = flower.records[0].bytes_uploaded
        assert flower.history.records["bytes_uploaded"][0, 0] == sizes[type(strategy)]
    assert sizes[FedAvg] == pytest.approx(5 * 4 * 12_000, rel=0.01)
    assert sizes[FOCUS] == pytest.approx(sizes[FedAvg], rel=0.01)
    assert sizes[SCAFFOLD] == pytest.approx(2 * sizes[FedAvg], rel=0.01)


def test_nothing_is_shortened_where_something_is_kept():
    def long(arrays, config, context):
        trained, metrics = train(arrays, config, context)
        return {**arrays, "w": trained["w"] * (1000.0 if context.node_config["client-id"] == "3" else 1.0)}, metrics

    for strategy, clipped in ((SCAFFOLD(), False), (FedProx(), True)):
        flower = FlowerStrategy(strategy, **grouped(local=Local(learning_rate=0.1), evaluate_every=0, poll=0.01))
        flower.start(everybody(client_app(train=long)), to_record(MODEL), num_rounds=3, timeout=1.0)
        assert bool(sum(suspect.clipped for suspect in flower.suspects.values())) is clipped
    with pytest.raises(ValueError, match="SCAFFOLD remembers every client's own update, for which no centre can stand"):
        FlowerStrategy(SCAFFOLD(), guard=Guard(robust="median"))


def test_a_node_that_does_not_know_the_side_takes_no_part(caplog):
    app = client_app(train=train)

    def old(message, context):
        reply = app(message, context)
        if message.metadata.message_type == "query.hello" and context.node_config["client-id"] == "3":
            reply.content.config_records["identity"][side_names.SIDES] = ["last_update"]
        return reply

    flower, _ = play(SCAFFOLD(), grid=everybody(old), rounds=2)
    assert all(record.members == ("id:1", "id:2", "id:4", "id:5") for record in flower.records)
    why = "SCAFFOLD steers the local steps of its clients, which its turnout does not know: it needs the client side"
    assert why in caplog.text


def somebody_elses():
    app = ClientApp()

    @app.train()
    def work(message, context):
        arrays = to_numpy(next(iter(message.content.array_records.values())))
        assert list(message.content.array_records) == ["arrays"]
        trained, metrics = train(arrays, {**message.content["config"], "steer": steer}, context)
        return Message(
            RecordDict({"model": to_record(trained), "told": MetricRecord({"train_loss": metrics["loss"]})}),
            reply_to=message,
        )

    return app


def test_an_app_of_somebody_else_imports_what_steers():
    grid = everybody(greet(somebody_elses()))
    flower, model = play(SCAFFOLD(), grid=grid, rounds=6)
    np.testing.assert_allclose(model, play(SCAFFOLD(), grid=everybody(client_app(train=train)), rounds=6)[1], rtol=1e-6)
    assert difference(flower, grid, "scaffold") < 1e-6
    with pytest.raises(ValueError, match=r"SCAFFOLD steers the local steps.*`app = greet\(app\)`"):
        play(SCAFFOLD(), grid=everybody(somebody_elses()), rounds=1)


def test_a_side_of_ones_own_is_given_to_the_app(caplog):
    grid = everybody(client_app(train=train, side=Corrected))
    flower, model = play(Steered(0.3), grid=grid, rounds=6)
    assert difference(flower, grid, "own") < 1e-6
    assert np.abs(model).max() > 0.1
    known, unknown = client_app(train=train, side=Corrected), client_app(train=train)

    def mixed(message, context):
        return (unknown if context.node_config["client-id"] == "2" else known)(message, context)

    flower, _ = play(Steered(0.3), grid=everybody(mixed), rounds=1)
    assert flower.records[0].members == ("id:1", "id:3", "id:4", "id:5")
    assert "this node knows only last_update, control_variate" in caplog.text
    assert "greet(app, side=…)" in caplog.text
    with pytest.raises(TypeError, match="side must be a class derived from ClientSide, not"):
        client_app(train=train, side=Corrected(0.3))


def test_what_is_shared_must_have_the_form_that_the_side_reads():
    class Silent(Corrected):
        def receives(self, params):
            return None

    class Mistaken(Steered):
        @property
        def client_side(self):
            return Silent(self.mu)

    driver = Driver(Mistaken(), {"w": np.zeros(3, np.float32)})
    driver.join({"a": 1.0})
    with pytest.raises(ValueError, match=r"Silent.receives must have the form of what Mistaken shares, .* not \{\}$"):
        driver.open_round(["a"])


class Choosy(Steered):
    """Asks for the lengths of updates first, and then for all of them."""

    def admit(self, state, view, cohort, norms, key):
        return cohort


def test_both_vectors_are_kept_until_they_are_asked_for():
    app = client_app(train=train, side=Corrected)
    (flower, model), (_, expected) = (play(kind(0.3), grid=everybody(app), rounds=5) for kind in (Choosy, Steered))
    np.testing.assert_allclose(model, expected, rtol=1e-6)
    assert dropped(flower) == 0


LEAVER, SAYS_SO = "5", 5


def leaving(arrays, config, context):
    if context.node_config["client-id"] == LEAVER and config["server-round"] == SAYS_SO:
        leave(context)
    return train(arrays, config, context)


@pytest.mark.parametrize("manner", ["answer", "lost", "twice"])
@pytest.mark.parametrize("kind", KEEPING)
def test_who_leaves_takes_its_word_out_of_the_mean(kind, manner):
    grid = everybody(client_app(train=leaving))
    grid.behave = in_train({LEAVER}, {SAYS_SO}, manner)
    flower, _ = play(KEEPING[kind], grid=grid, rounds=8)
    assert len(flower.records[-1].members) == 4
    assert flower._require_driver().epoch == 0
    assert difference(flower, grid, kind) < 1e-6


def test_who_keeps_nothing_leaves_without_a_word():
    flower, _ = play(FedProx(), grid=everybody(client_app(train=leaving)), rounds=8)
    assert [len(record.members) for record in flower.records] == [5] * SAYS_SO + [4] * 3
    assert dropped(flower) == 0


class Summing(Strategy):
    """The server's sum of words is a plain vector, from which no goodbye takes anything out."""

    @property
    def client_side(self):
        return Corrected(0.1)

    def init(self, fleet, params):
        return tree.zeros_like(params)

    def shared(self, state, view):
        return state

    def aggregate(self, state, params, view, cohort, reports):
        weight = jnp.where(cohort.arrived, cohort.factors, 0.0)
        return Move(weight), tree.add(state, tree.weighted_sum(reports.second, weight))


def test_a_sum_of_another_kind_begins_anew_where_somebody_leaves():
    grid = everybody(client_app(train=leaving, side=Corrected))
    flower, _ = play(Summing(), grid=grid, rounds=8)
    assert len(flower.records[-1].members) == 4
    assert flower._require_driver().epoch == SAYS_SO
