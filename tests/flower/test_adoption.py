"""What a user of Flower meets first: an app of one's own, nodes that restart, long rounds, slow clients."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from inprocess import FakeClock, InProcessGrid, TimeIsUp, grouped

from turnout.flower import Files, FlowerStrategy, Members, Waiting, client_app, greet
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.simulator.client_optimizer import Local
from turnout.strategies import F3AST, MIFA, CAFed, FedAU, FedAvg, FedLaAvg, FedNova, FedVARP, LastWord, OptimalSampling

MODEL = {"w": np.zeros(2, np.float32)}


def own_app():
    """An app in somebody else's style: its own record names, metrics and step length."""
    app = ClientApp()

    @app.train()
    def fit(message, context):
        arrays = to_numpy(next(iter(message.content.array_records.values())))
        number = float(context.node_config["client-id"])
        trained = {"w": arrays["w"] + np.float32(0.5) * (number - arrays["w"])}
        metrics = MetricRecord({"train_loss": 0.5, "num-examples": int(number), "batches": 3, "extra": number})
        return Message(RecordDict({"weights": to_record(trained), "numbers": metrics}), reply_to=message)

    @app.evaluate()
    def rate(message, context):
        gap = to_numpy(message.content["arrays"])["w"] - float(context.node_config["client-id"])
        metrics = MetricRecord({"eval_loss": float(np.mean(gap**2)), "num-examples": 5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def play(
    app,
    strategy=None,
    *,
    names=("1", "2", "3"),
    rounds=4,
    listed=None,
    timeout=100.0,
    clock=None,
    takes=None,
    **options,
):
    """A run on a clock of its own, with messages that expire; returns the strategy, the final weight and the clock."""
    clock = clock or FakeClock(end=1e5)
    grid = InProcessGrid(app, listed or (lambda _t: list(names)), clock=clock)
    grid.takes = takes or grid.takes
    settings = {"local": Local(learning_rate=0.5), "evaluate_every": 0} | options
    flower = FlowerStrategy(strategy or FedAvg(), **grouped(clock=clock, **settings))
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=timeout)
    flower.grid = grid
    return flower, to_numpy(result.arrays)["w"][0], clock


@pytest.mark.parametrize(
    "strategy", [FedAvg(), FedAU(), MIFA(), FedVARP(), LastWord(), FedLaAvg(cohort=None), F3AST(cohort=2), FedNova()]
)
def test_one_line_in_the_server_is_enough_for_an_unchanged_app(strategy, caplog):
    flower, weight, _ = play(own_app(), strategy, rounds=3)
    assert weight > 0.5
    assert all(record.arrived for record in flower.records)
    assert caplog.text.count("app = greet(app)") == 1


@pytest.mark.parametrize(("strategy", "options"), [(CAFed(), {}), (FedAvg(), {"target": "size"})])
def test_what_an_unchanged_app_cannot_give_is_an_error_that_names_the_line(strategy, options):
    with pytest.raises(ValueError, match=r"answers no greetings. Add one line below it: `app = greet\(app\)`"):
        play(own_app(), strategy, **options)


def test_a_strategy_that_probes_says_so_if_no_client_can_tell_its_loss():
    app = greet(ClientApp())
    app.train()(lambda message, context: message)
    with pytest.raises(ValueError, match="CAFed needs the loss of the model on every client, but all 3 clients fail"):
        play(app, CAFed())


def test_greet_gives_an_app_a_name_a_size_a_loss_and_a_reach():
    app = greet(own_app(), size=lambda context: int(context.node_config["client-id"]), reach="batches")
    flower, weight, _ = play(app, CAFed(), target="size", rounds=2)
    assert flower.records[-1].available == ("id:1", "id:2", "id:3")
    assert weight > 0.5
    flower, weight, _ = play(app, FedAvg(), target="size", rounds=20)
    assert weight == pytest.approx(14 / 6, rel=1e-3)
    assert flower.records[0].steps == 9.0


def test_functions_may_be_registered_after_greeting():
    app = greet(ClientApp(), name=lambda context: f"pump {context.node_config['client-id']}")

    @app.train()
    def fit(message, context):
        return Message(RecordDict({"a": message.content["arrays"], "m": MetricRecord({"x": 1})}), reply_to=message)

    flower, _, _ = play(app, rounds=1)
    assert flower.records[0].arrived == ("id:pump 1", "id:pump 2", "id:pump 3")


def test_a_greeted_app_keeps_its_update_until_it_is_asked_for():
    flower, _, _ = play(greet(own_app()), OptimalSampling(cohort=1), rounds=4)
    kinds = [kind for _, kind, _ in flower.grid.seen]
    assert kinds.count("train") == 12
    assert 0 < kinds.count("query.upload") < 12


@pytest.mark.parametrize("reach", ["steps", None])
def test_a_reach_that_is_not_there_is_the_clients_fault(reach, caplog):
    flower, _, _ = play(greet(own_app(), reach=reach), FedNova(), rounds=1)
    assert bool(flower.records[0].arrived) is (reach is None)
    assert ("reach is the metric 'steps', but training reports only" in caplog.text) is (reach is not None)


def app_of_numbers():
    def train(arrays, config, context):
        number = float(context.node_config["client-id"])
        return {"w": arrays["w"] + np.float32(config["lr"]) * (number - arrays["w"])}, {"loss": 1.0, "num-examples": 1}

    return client_app(train=train, loss=lambda arrays, _c, _x: float(arrays["w"].mean() ** 2))


def on_train(seconds):
    """Seconds of each client for training; everything else takes one."""
    return lambda name, _t, message: seconds.get(name, 45.0) if message.metadata.message_type == "train" else 1.0


@pytest.mark.parametrize("strategy", [FedAvg(), CAFed()])
def test_a_newcomer_joins_in_the_next_round_or_the_one_after_though_rounds_are_long(strategy):
    clock = FakeClock(end=1e5)
    begun = []

    def listed(_t):
        begun.append(clock.time)
        return ["1", "2"] if clock.time < 60 else ["1", "2", "3"]

    flower, _, _ = play(app_of_numbers(), strategy, listed=listed, clock=clock, rounds=6, takes=on_train({}))
    came = [record.t for record in flower.records if "id:3" in record.available]
    assert came[:1] == [2]  # it appeared in round 1, counted from 0


@pytest.mark.parametrize("strategy", [FedAvg(), MIFA(), CAFed()])
def test_a_client_that_restarts_is_not_locked_out_while_its_old_node_is_listed(strategy):
    """Client 2 is killed in the second round; the link lists its old node to the end."""
    clock = FakeClock(end=1e5)
    killed = lambda: clock.time > 50  # noqa: E731
    names = lambda _t: ["1", "2", "2 again"] if clock.time > 60 else ["1", "2"]  # noqa: E731
    grid = InProcessGrid(app_of_numbers(), names, clock=clock, takes=on_train({"1": 20.0, "2": 20.0, "2 again": 20.0}))
    grid.behave = lambda name, _t, _m: "silent" if name == "2" and killed() else "answer"
    flower = FlowerStrategy(strategy, waiting=Waiting(clock=clock), evaluate_every=0, local=Local(learning_rate=0.5))
    flower.start(grid, to_record(MODEL), num_rounds=10, timeout=100.0)
    missed = [record.t for record in flower.records if "id:2" not in record.arrived]
    assert len(missed) <= 2, missed
    assert flower._driver.directory.names == ("id:1", "id:2")


def test_a_memory_of_nodes_without_names_forgets_those_that_are_gone():
    """Client 3 restarts eight times at a new node; MIFA must not remember nine of it."""
    app = own_app()
    visits = iter(range(1000))

    def listed(t):
        return ["1", f"3{' again' * (t // 4)}"]

    class Nodes(InProcessGrid):
        def _call(self, name, message):
            from flwr.app import Context

            place = message.metadata.dst_node_id
            config = {"client-id": name.split()[0]}
            context = self.contexts.setdefault(place, Context(7, place, config, RecordDict(), {}))
            try:
                return self.app(message, context)
            except ValueError as error:
                from flwr.app import Error

                return Message(Error(2, str(error)), reply_to=message)

    clock = FakeClock(end=1e5)
    flower = FlowerStrategy(MIFA(), waiting=Waiting(clock=clock), evaluate_every=0, local=Local(learning_rate=0.5))
    grid = Nodes(app, listed, clock=clock)
    result = flower.start(grid, to_record(MODEL), num_rounds=36, timeout=100.0)
    assert to_numpy(result.arrays)["w"][0] == pytest.approx(2.0, abs=0.05)
    assert next(visits) == 0


def test_clients_can_leave_for_good():
    flower, _, _ = play(app_of_numbers(), MIFA(), listed=lambda t: ["1", "2"] if t < 3 else ["1"], rounds=2)
    clock = FakeClock(end=1e5)
    grid = InProcessGrid(app_of_numbers(), lambda t: ["1", "3"] if t < 3 else ["1"], clock=clock)
    flower = FlowerStrategy(
        MIFA(),
        waiting=Waiting(clock=clock),
        evaluate_every=0,
        local=Local(learning_rate=0.5),
        members=Members(retire_after=500.0),
    )
    grid.takes = on_train({"1": 100.0, "3": 100.0})
    result = flower.start(grid, to_record(MODEL), num_rounds=30, timeout=200.0)
    assert to_numpy(result.arrays)["w"][0] == pytest.approx(1.0, abs=0.05)
    flower.retire("1")
    flower.start(grid, to_record(MODEL), num_rounds=1, timeout=200.0)


def test_unasked_is_unknown_and_not_available():
    """Half of the listed clients are not running; two of ten are asked in a round."""
    draw = np.random.default_rng(3)
    names = [str(number) for number in range(1, 11)]
    grid = InProcessGrid(app_of_numbers(), lambda _t: names)
    grid.behave = lambda name, _t, message: (
        "silent" if message.metadata.message_type == "train" and draw.random() < 0.5 else "answer"
    )
    clock = FakeClock(end=1e6)
    flower = FlowerStrategy(
        F3AST(cohort=4), waiting=Waiting(clock=clock, greeting=0.1), evaluate_every=0, local=Local(learning_rate=0.1)
    )
    flower.start(grid, to_record(MODEL), num_rounds=150, timeout=1.0)
    estimates = flower.estimates
    assert np.mean([estimate.pi for estimate in estimates]) == pytest.approx(0.5, abs=0.08)
    assert all(estimate.pi_low < estimate.pi < estimate.pi_high for estimate in estimates)
    assert sum(estimate.pi_low < 0.5 < estimate.pi_high for estimate in estimates) >= 8
    assert flower.records[-1].unknown


def test_a_slow_client_does_not_set_the_pace():
    takes = on_train({"1": 10.0, "2": 10.0, "3": 11.0, "4": 9.0, "5": 10.0, "6": 400.0})
    names = ("1", "2", "3", "4", "5", "6")
    flower, _, clock = play(
        app_of_numbers(), FedAvg(), names=names, rounds=10, takes=takes, stretch=1.5, timeout=1000.0
    )
    assert clock.time < 10 * 15 + 40
    assert all(len(record.arrived) == 5 for record in flower.records)
    _, _, clock = play(app_of_numbers(), FedAvg(), names=names, rounds=3, takes=takes, timeout=1000.0)
    assert clock.time > 3 * 400


def test_a_slow_client_that_told_its_loss_was_there():
    takes = on_train({"1": 10.0, "2": 10.0, "3": 400.0})
    flower, _, _ = play(app_of_numbers(), CAFed(), rounds=1, takes=takes, stretch=1.5, timeout=1000.0)
    assert flower.records[0].available == ("id:1", "id:2", "id:3")
    assert flower.records[0].unknown == ()


def test_a_memory_takes_late_updates():
    takes = on_train({"1": 10.0, "2": 10.0, "3": 10.0, "4": 45.0})
    late = {}
    for name, strategy in {"fedavg": FedAvg(), "mifa": MIFA(), "last word": LastWord()}.items():
        flower, weight, _ = play(
            app_of_numbers(), strategy, names=("1", "2", "3", "4"), rounds=40, takes=takes, stretch=1.5, timeout=1000.0
        )
        late[name] = weight, sum(len(record.late) for record in flower.records)
        assert flower.grid.seen.count(("4", "train", "answer")) < 15  # it gets no other order while it is at work
    assert late["fedavg"] == (pytest.approx(2.0, abs=0.01), 0)
    for name in ("mifa", "last word"):
        assert late[name][0] == pytest.approx(2.5, abs=0.2)
        assert late[name][1] >= 8


def test_a_late_update_is_about_the_round_in_which_it_was_asked_for():
    """It is divided by the rate of that round, which was higher."""

    def work(arrays, config, context):
        return {"w": arrays["w"] + np.float32(config["lr"] * int(context.node_config["client-id"]))}, {}

    takes, falling = (
        on_train({"1": 10.0, "2": 10.0, "3": 10.0, "4": 45.0}),
        Local(learning_rate=lambda t: 0.5 / (1.0 + jnp.asarray(t, jnp.float32))),
    )
    flower, _, _ = play(
        client_app(train=work), MIFA(), names=("1", "2", "3", "4"), rounds=12, takes=takes, stretch=1.5, local=falling
    )
    assert "id:4" in flower._require_driver().directory.names
    assert sum(len(record.late) for record in flower.records) >= 2
    rows = np.asarray(flower._require_driver().state.strategy.rows["w"])[:4, 0]
    np.testing.assert_allclose(rows, [1.0, 2.0, 3.0, 4.0], rtol=1e-4)


def test_a_quorum_closes_a_round():
    takes = on_train({"1": 10.0, "2": 20.0, "3": 30.0, "4": 400.0})
    flower, _, clock = play(
        app_of_numbers(), FedAvg(), names=("1", "2", "3", "4"), rounds=1, takes=takes, quorum=0.75, timeout=1000.0
    )
    assert flower.records[0].arrived == ("id:1", "id:2", "id:3")
    assert clock.time < 40


def test_a_client_that_is_silent_again_and_again_is_left_alone_for_a_while():
    clock = FakeClock(end=1e5)
    grid = InProcessGrid(app_of_numbers(), lambda _t: ["1", "2"], clock=clock)
    grid.behave = lambda name, _t, m: "silent" if name == "2" and m.metadata.message_type == "train" else "answer"
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(clock=clock), evaluate_every=0)
    flower.start(grid, to_record(MODEL), num_rounds=16, timeout=100.0)
    asked = [record.t for record in flower.records if "id:2" in record.asked]
    assert asked == [0, 1, 3, 6, 11]
    assert len(flower.records[2].unknown) == 1


def test_evaluation_leaves_out_who_was_just_silent():
    app = client_app(train=lambda arrays, *_: (arrays, {}), evaluate=lambda *_: {"accuracy": 1.0})
    clock = FakeClock(end=1e5)
    grid = InProcessGrid(app, lambda _t: ["1", "2"], clock=clock)
    grid.behave = lambda name, _t, m: "silent" if name == "2" and m.metadata.message_type != "query.hello" else "answer"
    flower = FlowerStrategy(FedAvg(), waiting=Waiting(clock=clock))
    flower.start(grid, to_record(MODEL), num_rounds=2, timeout=100.0)
    assert grid.seen.count(("2", "evaluate", "silent")) == 1  # before the first round, when nothing was known of it


@pytest.mark.parametrize("options", [{}, {"checkpoint": True}])
def test_rounds_have_the_same_numbers_everywhere(tmp_path, options):
    rounds = []

    class Decaying(FlowerStrategy):
        def configure_train(self, server_round, arrays, config, grid):
            rounds.append(server_round)
            config["lr"] = 0.5 / server_round
            return super().configure_train(server_round, arrays, config, grid)

    sent, grid = [], InProcessGrid(app_of_numbers(), lambda _t: ["1"])
    grid.behave = lambda _n, _t, m: sent.append(m.content.config_records["config"].get("lr")) or "answer"
    checkpoint = tmp_path / "state.npz" if options else None
    flower = Decaying(FedAvg(), files=Files(checkpoint=checkpoint), evaluate_every=0, waiting=Waiting(poll=0.01))
    flower.start(grid, to_record(MODEL), num_rounds=2, timeout=5.0)
    other = (
        Decaying(FedAvg(), files=Files(checkpoint=checkpoint), evaluate_every=0, waiting=Waiting(poll=0.01))
        if options
        else flower
    )
    result = other.start(grid, to_record(MODEL), num_rounds=3, timeout=5.0, train_config=ConfigRecord({"lr": 1.0}))
    again = [3] if options else [1, 2, 3]
    assert rounds == [1, 2, *again]
    assert [rate for rate in sent if rate] == pytest.approx([0.5 / t for t in rounds])
    assert list(result.train_metrics_clientapp) == again


class Refusing(InProcessGrid):
    """A link that takes at most two messages of so many bytes at once, and none above."""

    most = 100

    def push_messages(self, messages):
        size = sum(len(a.data) for m in messages for r in m.content.array_records.values() for a in r.values())
        return super().push_messages(messages) if size <= self.most else []


def test_a_push_that_is_too_large_is_cut_up_or_an_error():
    size = len(to_record(MODEL)["w"].data)
    for most, fits in ((2 * size, True), (size - 1, False)):
        clock = FakeClock(end=1e5)
        grid = Refusing(app_of_numbers(), lambda _t: ["1", "2", "3"], clock=clock)
        grid.most = most
        flower = FlowerStrategy(FedAvg(), waiting=Waiting(clock=clock), evaluate_every=0)
        if fits:
            flower.start(grid, to_record(MODEL), num_rounds=1, timeout=50.0)
            assert len(flower.records[0].arrived) == 3
        else:
            with pytest.raises(ValueError, match=r"refuses a message with .* most likely as too large"):
                flower.start(grid, to_record(MODEL), num_rounds=1, timeout=50.0)


def test_the_model_of_flowers_own_fedavg():
    """Same app, everybody there, weights by examples: the same model and the same mean metrics."""
    grid = InProcessGrid(own_app(), lambda _t: ["1", "2", "3"])
    theirs = FlowerFedAvg().start(grid, to_record(MODEL), num_rounds=3)
    ours = FlowerStrategy(FedAvg(), target="examples", waiting=Waiting(poll=0.01)).start(
        grid, to_record(MODEL), num_rounds=3
    )
    np.testing.assert_allclose(to_numpy(ours.arrays)["w"], to_numpy(theirs.arrays)["w"], rtol=1e-6)
    for t in (1, 2, 3):
        for metric, value in theirs.train_metrics_clientapp[t].items():
            assert ours.train_metrics_clientapp[t][metric] == pytest.approx(value, rel=1e-6)


def test_a_users_own_function_combines_the_metrics():
    def combine(contents, key):
        values = [next(iter(content.metric_records.values())) for content in contents]
        assert not any(name.startswith("turnout.") for value in values for name in value)
        return MetricRecord({"largest": max(value["extra"] for value in values), "by": float(len(key))})

    flower = FlowerStrategy(
        FedAvg(), waiting=Waiting(poll=0.01), train_metrics_aggr_fn=combine, weighted_by_key="batches"
    )
    grid = InProcessGrid(greet(own_app()), lambda _t: ["1", "2"])
    metrics = flower.start(grid, to_record(MODEL), num_rounds=1).train_metrics_clientapp[1]
    assert (metrics["largest"], metrics["by"], metrics["arrived"]) == (2.0, 7.0, 2)


def test_shares_of_the_fleet_train_and_evaluate():
    names = [str(number) for number in range(1, 11)]
    grid = InProcessGrid(greet(own_app()), lambda _t: names)
    flower = FlowerStrategy(
        FedAvg(), waiting=Waiting(poll=0.01), fraction_train=0.3, fraction_evaluate=0.1, min_evaluate_nodes=2
    )
    flower.start(grid, to_record(MODEL), num_rounds=5)
    assert [len(record.asked) for record in flower.records] == [3] * 5
    assert len({name for record in flower.records for name in record.asked}) > 5
    assert len(flower.records[0].unknown) == 7
    assert sum(kind == "evaluate" for _, kind, _ in grid.seen) == 6 * 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quorum": 0.0}, "quorum must be a share"),
        ({"stretch": 0.5}, "stretch must be 1 or more"),
        ({"fraction_train": 1.5}, "fraction_train must be a share"),
        ({"min_available_nodes": -1}, "min_available_nodes must be 0 or more"),
        ({"retire_after": -1.0}, "retire_after must be 0 seconds or more"),
    ],
)
def test_arguments_must_make_sense(wrong, message):
    with pytest.raises(ValueError, match=message):
        FlowerStrategy(FedAvg(), **grouped(**wrong))


def test_a_server_whose_clients_are_all_refused_waits():
    with pytest.raises(TimeIsUp):
        play(app_of_numbers(), target={"9": 1.0}, clock=FakeClock(end=500.0))
