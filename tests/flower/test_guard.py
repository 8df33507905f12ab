"""Clients that lie within the limits, on the in-process grid."""

import logging
import math

import numpy as np
import pytest
from scipy import optimize

pytest.importorskip("flwr")

from flwr.app import MetricRecord
from inprocess import InProcessGrid, grouped
from test_strategy import MODEL, on_train, pull, run

from turnout.flower import FlowerStrategy, Guard, client_app
from turnout.flower.server.centre import fill_with_centre
from turnout.flower.server.driver import Driver
from turnout.flower.server.inspector import Inspector, Recent, Suspicion, high_quartile
from turnout.flower.server.rollback import Rollback, badness_of, typical
from turnout.flower.wire.client_metrics import OWN_NORM
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.flower.wire.replies import Reply
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, FedAvg, FedAWE, FedNova, FedVARP, LastWord, NormSampling

FLEET = "123456"
LONG = 9e14


def reply(*entries, reach=1.0, size=0):
    update = {"w": np.array(entries, np.float32)}
    return Reply(update, float(np.linalg.norm(update["w"])), None, reach, size)


def corrected(watch, replies, t=1, rates=None):
    watch.look({name: one.norm for name, one in replies.items()}, rates or dict.fromkeys(replies, 1.0))
    return watch.correct(t, replies)


def lying(change):
    """What the last client trains, changed; the others train as they should."""

    def train(arrays, config, context):
        name = context.node_config["client-id"]
        end = {**arrays, "w": arrays["w"] + np.float32(config["lr"]) * (pull(name) - arrays["w"])}
        report = {"loss": 1.0, "reach": 1, "num-examples": 4}
        return change(arrays, end, report) if name == FLEET[-1] else (end, report)

    return client_app(train=train, size=lambda context: 2**53 if context.node_config["client-id"] == "6" else 4)


def long(arrays, end, report):
    return {**end, "w": arrays["w"] + np.float32(LONG / 2)}, report


# Honest clients.


def test_an_honest_fleet_is_not_touched():
    guarded, weight, _ = run(names=FLEET, rounds=6)
    _, plain, _ = run(names=FLEET, rounds=6, guard=None)
    np.testing.assert_array_equal(weight, plain)
    assert guarded.suspects == {}


# Lengths.


@pytest.mark.parametrize("strategy", [FedAvg(), MIFA(), FedNova()], ids=lambda one: type(one).__name__)
def test_one_endless_update_of_six_does_not_ruin_the_model(strategy):
    flower, weight, _ = run(strategy, names=FLEET, rounds=20, app=lying(long))
    assert np.abs(weight - 3.0).max() < 1.0  # 3 is the mean of the five others
    assert flower.suspects["id:6"].clipped == 20
    assert set(flower.suspects) == {"id:6"}
    _, ruined, _ = run(strategy, names=FLEET, rounds=20, app=lying(long), guard=None)
    assert np.abs(ruined).max() > 1e12


def test_too_long_is_beyond_four_upper_quartiles_and_halves_each_time_in_a_row():
    watch = Inspector(Guard(), FedAvg())
    for t, most in enumerate([4.0, 2.0, 1.0]):
        good = corrected(watch, {"a": reply(1.0, 0.0), "b": reply(0.0, 1.0), "c": reply(0.0, 50.0)}, t)
        np.testing.assert_allclose(good["c"].update["w"], [0.0, most], rtol=1e-6)
        assert good["c"].norm == pytest.approx(most)
        np.testing.assert_array_equal(good["a"].update["w"], [1.0, 0.0])
    good = corrected(watch, {"a": reply(1.0), "b": reply(1.0), "c": reply(3.9)})
    assert good["c"].norm == pytest.approx(3.9)  # within the bound again
    assert watch.suspects["c"] == Suspicion(clipped=3)
    assert corrected(watch, {"a": reply(1.0), "b": reply(1.0), "c": reply(9.0)})["c"].norm == pytest.approx(4.0)


def test_lengths_are_compared_per_step_length():
    """A strategy may give every client a step length of its own, as debiased FedAvg does."""
    watch, rates = Inspector(Guard(), FedAvg()), {"a": 0.1, "b": 0.1, "c": 1.0}
    good = corrected(watch, {"a": reply(0.1), "b": reply(0.1), "c": reply(1.0)}, rates=rates)
    assert good["c"].norm == 1.0
    assert not watch.suspects


def test_a_fleet_that_grows_longer_all_at_once_is_left_alone():
    watch = Inspector(Guard(), FedAvg())
    for length in (0.01,) * 10 + (1.0,):
        good = corrected(watch, {name: reply(length) for name in "abc"})
    assert all(one.norm == 1.0 for one in good.values())


def test_before_three_clients_have_replied_there_is_no_bound():
    watch = Inspector(Guard(), FedAvg())
    assert corrected(watch, {"a": reply(1.0), "b": reply(100.0)})["b"].norm == 100.0
    assert corrected(watch, {"c": reply(2.0), "b": reply(100.0)})["b"].norm == pytest.approx(8.0)


def test_where_the_others_stand_still_who_moves_is_believed():
    watch = Inspector(Guard(), FedAvg())
    good = corrected(watch, {"a": reply(0.0), "b": reply(0.0), "c": reply(5.0)})
    assert good["c"].norm == 5.0


@pytest.mark.parametrize("liars", [1, 2])
def test_a_quarter_of_the_clients_does_not_move_the_quartiles(liars):
    recent, honest = Recent(5), {str(number): 1.0 + number for number in range(6)}
    for _ in range(7):
        recent.add(honest | {f"liar {number}": 1e12 for number in range(liars)})
    assert recent.most() <= 6.0
    recent.add(honest | {f"liar {number}": 1e-12 for number in range(liars)})
    assert recent.least() >= 1.0


def test_rounds_beyond_the_window_are_forgotten():
    recent = Recent(2)
    recent.add({"a": 9.0, "b": 9.0, "c": 9.0})
    recent.add({"a": 1.0})
    assert recent.most() == 9.0
    recent.add({"b": 1.0, "d": 1.0})
    assert recent.most() == 1.0
    assert high_quartile(np.array([5.0, 1.0, 2.0])) == 2.0


# Claims.


def test_a_false_reach_does_not_ruin_fednova():
    for reach in (1e-9, 1e9):
        app = lying(lambda arrays, end, report, reach=reach: (end, report | {"reach": reach}))
        flower, weight, _ = run(FedNova(), names=FLEET, rounds=10, app=app)
        _, honest, _ = run(FedNova(), names=FLEET, rounds=10)
        np.testing.assert_allclose(weight, honest, atol=0.3)
        assert flower.suspects["id:6"].doubted == 10
        _, ruined, _ = run(FedNova(), names=FLEET, rounds=10, app=app, guard=None)
        assert np.abs(ruined - honest).max() > 1.0


def test_unequal_work_is_believed():
    watch = Inspector(Guard(), FedNova())
    claims = {"a": reply(1.0, reach=1.0), "b": reply(8.0, reach=10.0), "c": reply(15.0, reach=19.0)}
    assert [one.reach for one in corrected(watch, claims).values()] == [1.0, 10.0, 19.0]
    assert not watch.suspects


def test_a_false_size_does_not_take_over_the_objective():
    """Sizes are 4 for all but the liar: it counts as four of the others, not as all of them."""
    honest = lying(lambda _arrays, end, report: (end, report))
    flower, weight, _ = run(names=FLEET, rounds=30, app=honest, target="size")
    np.testing.assert_allclose(weight, (1 + 2 + 3 + 4 + 5 + 4 * 6) / 9, rtol=1e-4)
    assert flower.suspects["id:6"].doubted == 1
    _, taken, _ = run(names=FLEET, rounds=30, app=honest, target="size", guard=None)
    np.testing.assert_allclose(taken, 6.0, rtol=1e-4)


def test_the_first_to_come_cannot_claim_more_either():
    """Alone it counts as it likes; from the round on in which others are there it does not."""
    flower, _, _ = run(
        rounds=4,
        app=lying(lambda _arrays, end, report: (end, report)),
        target="size",
        listed=lambda t: ["6"] if t < 2 else list(FLEET),
    )
    assert flower._driver.importance == (16.0, 4.0, 4.0, 4.0, 4.0, 4.0)


def test_num_examples_of_replies_are_bounded():
    good = corrected(
        Inspector(Guard(), FedAvg()), {name: reply(1.0, size=2**53 if name == "c" else 10) for name in "abc"}
    )
    assert [one.size for one in good.values()] == [10, 10, 40]


def test_a_false_length_does_not_starve_the_others():
    """It is drawn no more than four of the others would be, and after three dropped uploads it is not asked."""

    def lie(content):
        for record in content.metric_records.values():
            if OWN_NORM in record:
                record[OWN_NORM] = 1e14
        return content

    behave = on_train({"6": "lie"})
    guarded, weight, _ = run(NormSampling(cohort=4), names=FLEET, rounds=20, behave=behave, lie=lie)
    starved, start, _ = run(NormSampling(cohort=4), names=FLEET, rounds=20, behave=behave, lie=lie, guard=None)
    np.testing.assert_array_equal(start, 0.0)
    assert not any(record.arrived for record in starved.records)
    assert 2.0 < weight.mean() < 4.0
    assert guarded.suspects["id:6"].dropped >= 3
    resting = [record for record in guarded.records if "id:6" not in record.asked]
    assert len(resting) >= 10


def test_where_everyone_is_asked_nobody_rests():
    app = lying(lambda _arrays, end, report: ({**end, "w": end["w"] * np.float32(np.nan)}, report))
    flower, weight, _ = run(names=FLEET, rounds=8, app=app)
    assert all("id:6" in record.asked for record in flower.records)
    assert flower.suspects["id:6"] == Suspicion(dropped=8, dropped_in_a_row=8)
    np.testing.assert_allclose(weight, 3.0 * (1 - 0.5**8), rtol=1e-6)


# Centres.

SHAPES = {"w": (3, 4), "b": (2,)}


def rows(count=7):
    draw = np.random.default_rng(0)
    return [{name: draw.normal(size=form).astype(np.float32) for name, form in SHAPES.items()} for _ in range(count)]


def flat(update):
    return np.concatenate([update["w"].ravel(), update["b"]])


@pytest.mark.parametrize("piece", [2**24, 14])
def test_centres_are_what_they_are_called(piece, monkeypatch):
    monkeypatch.setattr("turnout.flower.server.centre._PIECE", piece)
    points = np.stack([flat(update) for update in rows()]).astype(np.float64)
    best = optimize.minimize(lambda z: np.linalg.norm(points - z, axis=1).sum(), points.mean(axis=0), tol=1e-9).x
    ordered = np.sort(points, axis=0)
    expected = {"median": ordered[3], "trimmed": ordered[1:-1].mean(axis=0), "geometric": best}
    for robust, centre in expected.items():
        updates = rows()
        fill_with_centre(updates, [1.0] * 7, robust)
        for update in updates:
            np.testing.assert_allclose(flat(update), centre, atol=1e-3 if robust == "geometric" else 1e-6)


def test_centres_are_per_step_length():
    updates = [{"w": np.array([2.0 * scale], np.float32)} for scale in (1.0, 2.0, 4.0)]
    fill_with_centre(updates, [1.0, 2.0, 4.0], "median")
    assert [float(update["w"][0]) for update in updates] == [2.0, 4.0, 8.0]


def test_few_or_equal_updates_have_a_centre():
    for robust in ("median", "trimmed", "geometric"):
        fill_with_centre([], [], robust)
        alone, pair, same = rows(1), rows(2), [rows(1)[0] for _ in range(4)]
        fill_with_centre(alone, [1.0], robust)
        np.testing.assert_array_equal(flat(alone[0]), flat(rows(1)[0]))
        fill_with_centre(pair, [1.0, 1.0], robust)
        np.testing.assert_allclose(flat(pair[0]), np.mean([flat(update) for update in rows(2)], axis=0), atol=1e-6)
        fill_with_centre(same, [1.0] * 4, robust)
        np.testing.assert_allclose(flat(same[0]), flat(rows(1)[0]), rtol=1e-6)


@pytest.mark.parametrize("robust", ["median", "trimmed", "geometric"])
@pytest.mark.parametrize("strategy", [FedAvg(), FedNova()], ids=lambda one: type(one).__name__)
def test_a_client_that_pulls_the_other_way_counts_little(strategy, robust):
    """Where all clients want the same, one with the opposite sign is outvoted, and the step has its usual length."""

    def train(arrays, config, context):
        gap = np.float32(config["lr"]) * (2.0 - arrays["w"])
        sign = -1 if context.node_config["client-id"] == "6" else 1
        return {**arrays, "w": arrays["w"] + sign * gap}, {"reach": 1 + int(context.node_config["client-id"]) % 2}

    app = client_app(train=train)
    _, weight, _ = run(strategy, names=FLEET, rounds=4, app=app, guard=Guard(robust=robust))
    _, fooled, _ = run(strategy, names=FLEET, rounds=4, app=app)
    np.testing.assert_allclose(weight, 2.0 * (1 - 0.5**4), rtol=1e-3)
    assert fooled.max() < 1.7


def test_no_centre_where_every_update_must_be_a_clients_own():
    for strategy in (MIFA(), FedVARP(), LastWord(), FedAWE()):
        with pytest.raises(ValueError, match=f"{type(strategy).__name__} remembers every client's own update"):
            FlowerStrategy(strategy, guard=Guard(robust="median"))
    with pytest.raises(ValueError, match="NormSampling weighs every update by its own length"):
        FlowerStrategy(NormSampling(), guard=Guard(robust="geometric"))
    FlowerStrategy(FedAvg(), server=ServerSettings(rest=2), guard=Guard(robust="median"))


def test_senseless_settings_are_refused():
    for wrong in ({"clip": 0.5}, {"reach": math.nan}, {"size": -1.0}):
        with pytest.raises(
            ValueError,
            match=f"{next(iter(wrong))} (of a guard must be a factor of 1 or more|must be a number, not nan)",
        ):
            Guard(**wrong)
    with pytest.raises(ValueError, match="window of a guard must be 1 or more, not 0"):
        Guard(window=0)


# The way back.


class Scripted:
    """A fleet that moves the model by one each round, and says what it thinks of it."""

    def __init__(self, losses, liar=None, strategy=None, **options):
        self.losses, self.liar = losses, liar
        app = client_app(train=self.train, evaluate=self.evaluate)
        settings = {"local": Local(learning_rate=1.0), "poll": 0.01, "greeting": 0.05} | options
        self.flower = FlowerStrategy(strategy or FedAvg(), **grouped(**settings))
        self.grid = InProcessGrid(app, lambda _t: list("123"))

    def train(self, arrays, config, context):
        return {**arrays, "w": arrays["w"] + 1}, {}

    def evaluate(self, arrays, config, context):
        if context.node_config["client-id"] == self.liar:
            return {"loss": 1e9}
        return {"loss": self.losses[config["server-round"]]}

    def play(self, evaluate_fn=None, rounds=None):
        count = len(self.losses) - 1 if rounds is None else rounds
        model = self.flower.start(
            self.grid, to_record(MODEL), num_rounds=count, timeout=0.05, evaluate_fn=evaluate_fn
        ).arrays
        return float(to_numpy(model)["w"][0, 0])


GOOD = [1.0, 0.9, 0.8, 0.7]


def test_a_round_that_makes_the_evaluation_collapse_is_thrown_away(caplog):
    fleet = Scripted([*GOOD, 50.0, 0.6, 0.5])
    with caplog.at_level("ERROR", logger="turnout.flower"):
        assert fleet.play() == 5.0  # six rounds, one of them undone
    assert "round 4: the test_loss by the clients has collapsed" in caplog.text
    assert "the server goes back to the model after round 3" in caplog.text
    assert fleet.flower._rollback.happened == [4]


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_a_collapse(broken):
    assert Scripted([*GOOD, broken]).play() == 3.0


def test_a_loss_that_wavers_is_no_collapse():
    assert Scripted([1.0, 0.5, 0.9, 0.6, 1.6, 0.7, 1.5]).play() == 6.0


def test_who_lies_about_the_evaluation_does_not_turn_the_server_back():
    assert Scripted([*GOOD, 0.6, 0.5], liar="1").play() == 5.0


def test_the_servers_own_evaluation_counts_too():
    accuracies = [0.3, 0.5, 0.6, 0.62, 0.1]
    fleet = Scripted([1.0] * 5, evaluate_every=0)
    final = fleet.play(lambda t, _model: MetricRecord({"accuracy": accuracies[t]}))
    assert final == 3.0


def test_a_world_that_has_changed_for_good_is_accepted():
    fleet = Scripted([*GOOD, *[50.0] * 6])
    assert fleet.play() == 6.0  # nine rounds, three of them undone
    assert fleet.flower._rollback.happened == [4, 5, 6]


def test_without_a_guard_nothing_is_undone():
    assert Scripted([*GOOD, 50.0], guard=None).play() == 4.0
    assert Scripted([*GOOD, 50.0], guard=Guard(rollback=False)).play() == 4.0


def test_a_memory_goes_back_only_if_wanted():
    assert Scripted([*GOOD, 50.0], strategy=MIFA()).play() == 4.0
    assert Scripted([*GOOD, 50.0], strategy=MIFA(), guard=Guard(rollback=True)).play() == 3.0


def test_a_fleet_that_has_grown_goes_back_too():
    fleet = Scripted([*GOOD, 50.0], strategy=MIFA(), guard=Guard(rollback=True))
    fleet.grid.listed = lambda t: list("123") if t < 3 else list("1234")
    assert fleet.play() == 3.0
    assert len(fleet.flower._driver.directory) == 4
    assert fleet.play(rounds=6) > 3.0


def test_the_checkpoint_holds_the_model_that_was_gone_back_to(tmp_path):
    saved = tmp_path / "saved.npz"
    assert Scripted([*GOOD, 50.0], checkpoint=saved).play() == 3.0
    assert Scripted([*GOOD, 50.0, 0.6], checkpoint=saved).play() == 4.0


def test_the_typical_client_by_target():
    driver = Driver(FedAvg(), MODEL)
    driver.join({"a": 1.0, "b": 1.0, "c": 5.0})
    losses = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert typical({name: badness_of({"loss": loss, "other": "?"}) for name, loss in losses.items()}, driver) == {
        "test_loss": 3.0
    }
    assert badness_of({"accuracy": 0.75, "loss": math.nan, "mae": 3}) == {"test_accuracy": 0.25, "test_loss": math.inf}
    assert typical({}, driver) == {}
    assert not Rollback(True).judge(driver, "clients", {})


# The memory.


def test_a_restarted_server_remembers_the_liars(tmp_path):
    saved = tmp_path / "saved.npz"
    first, _, _ = run(names=FLEET, rounds=3, app=lying(long), checkpoint=saved)
    second, weight, _ = run(names=FLEET, rounds=6, app=lying(long), checkpoint=saved)
    whole, expected, _ = run(names=FLEET, rounds=6, app=lying(long))
    np.testing.assert_array_equal(weight, expected)
    assert second.suspects == whole.suspects
    assert first.suspects["id:6"].clipped == 3


def test_a_checkpoint_without_a_guard_is_read(tmp_path, caplog):
    saved = tmp_path / "saved.npz"
    run(names=FLEET, rounds=2, checkpoint=saved, guard=None)
    with caplog.at_level(logging.WARNING, logger="turnout.flower"):
        flower, _, _ = run(names=FLEET, rounds=4, app=lying(long), checkpoint=saved, guard=Guard(window=3))
    assert flower.suspects["id:6"].clipped == 2
    assert "the update of id:6 is shortened from 9e+14 to" in caplog.text
