import logging
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import stage

from every_strategy import SETTINGS
from turnout import tree
from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Reply, ReplyRules, check_reply
from turnout.server.facts import Online, Oracle
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, CAFed, FedAvg, FedAWE, OptimalSampling, Strategy, Unbiased
from turnout.types import Move


def reply_of(update, **told):
    rows = {name: np.asarray(part, np.float32) for name, part in update.items()}
    norm = float(np.sqrt(sum(np.sum(part**2) for part in rows.values())))
    return Reply(rows, norm, told.get("loss", 0.0), told.get("reach", 1.0), 1)


def driver_of(*names, strategy=None, **options):
    driver = Driver(strategy or FedAvg(), {"x": np.zeros(2, np.float32)}, **options)
    driver.join(dict.fromkeys(names, 1.0))
    return driver


def play(driver, world):
    """The whole run by hand: numpy replies, checked, uploads lost as the world says."""
    for available, delivers, steps in stage.natures(world):
        there = [name for name, here in zip(stage.NAMES, available, strict=True) if here]
        losses = None
        if driver.demands.losses:
            seeds = driver.probe_seeds(there)
            losses = {
                name: stage.probe(driver.directory.place(name), driver.arrays()["x"], seeds[name]) for name in there
            }
        orders = driver.open_round(there, losses)
        replies = {}
        for order in orders:
            place = driver.directory.place(order.client)
            end, loss = stage.work(place, order.start["x"], steps[place], order.rate, order.seed)
            told = {"loss": loss, "reach": int(steps[place]), "turnout.round": driver.t}
            rules = ReplyRules(driver.layout, driver.t)
            replies[order.client] = check_reply({"x": end}, told, order.start, rules)
        if not driver.strategy.admits_all:
            driver.admit_round({name: reply.norm for name, reply in replies.items()})
        driver.close_round({name: reply for name, reply in replies.items() if delivers[driver.directory.place(name)]})
    return driver.model()["x"]


@pytest.mark.parametrize("name", ["unbiased", "fedawe", "ca_fed", "optimal_sampling", "last_word blend"])
def test_numpy_replies_give_the_model_of_the_simulator(name):
    driver = Driver(SETTINGS[name], stage.START, local=stage.LOCAL)
    driver.join(stage.IMPORTANCE)
    expected = stage.simulated(SETTINGS[name], "lossy")
    np.testing.assert_allclose(play(driver, "lossy"), expected, atol=1e-5)


def test_fedavg_by_hand():
    driver = driver_of("a", "b", "c", local=Local(learning_rate=0.5))
    orders = driver.open_round(["c", "a"])
    assert [order.client for order in orders] == ["a", "c"]
    assert [(order.rate, order.scale) for order in orders] == [(0.5, 1.0)] * 2
    assert orders[0].seed != orders[1].seed
    record = driver.close_round({"a": reply_of({"x": [1.0, 0.0]}), "c": reply_of({"x": [0.0, 3.0]})})
    np.testing.assert_allclose(driver.arrays()["x"], [0.5, 1.5])
    assert record.available == record.asked == record.uploads == record.arrived == ("a", "c")
    assert record.weights == {"a": 0.5, "c": 0.5}
    assert (record.t, driver.t) == (0, 1)


def test_rounds_with_nobody_pass():
    driver = Driver(FedAvg(), {"x": np.ones(2, np.float32)})
    assert driver.open_round([]) == []
    driver.close_round({})
    driver.join({"a": 1.0})
    assert driver.open_round([]) == []
    assert driver.close_round({}).available == ()
    assert driver.t == 2
    np.testing.assert_array_equal(driver.arrays()["x"], 1.0)
    np.testing.assert_array_equal(driver.model()["x"], 1.0)


def test_late_joiners_keep_what_was_known_of_the_others():
    driver = driver_of("a", "b", strategy=MIFA())
    driver.open_round(["a", "b"])
    driver.close_round({"a": reply_of({"x": [1.0, 0.0]}), "b": reply_of({"x": [0.0, 1.0]})})
    before = driver.state
    assert driver.join({"a": 9.0, "late": 2.0}) == ("a", "late")
    assert driver.importance == (1.0, 1.0, 2.0)
    np.testing.assert_array_equal(driver.state.facts.on, [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(driver.state.strategy.rows["x"][:2], before.strategy.rows["x"])
    assert [order.client for order in driver.open_round(["late", "a"])] == ["a", "late"]
    driver.close_round({"late": reply_of({"x": [4.0, 0.0]})})
    # (1 · [1, 0] + 1 · [0, 1] + 2 · [4, 0]) / 4 on top of the first round's [0.5, 0.5]
    np.testing.assert_allclose(driver.arrays()["x"], [0.5 + 9 / 4, 0.5 + 1 / 4], rtol=1e-6)


def test_a_fleet_too_small_for_the_strategy_waits(caplog):
    driver = driver_of("a", strategy=FedAvg(cohort=2))
    assert "1 clients cannot join the fleet of 0 yet: cohort must be between 1 and the 1 clients" in caplog.text
    assert driver.state is None
    assert driver.join({"a": 1.0, "b": 1.0}) == ("a", "b")
    assert len(driver.open_round(["a", "b"])) == 2


def test_the_silent_count_as_absent_and_the_failed_as_lost():
    driver = driver_of("silent", "failed", "good")
    driver.open_round(["silent", "failed", "good"])
    record = driver.close_round({"good": reply_of({"x": [1.0, 1.0]})}, absent=["silent"])
    facts = driver.state.facts
    np.testing.assert_array_equal(facts.on[:3], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(facts.asked[:3], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(facts.arrived[:3], [0.0, 0.0, 1.0])
    assert record.available == ("failed", "good")
    assert record.asked == ("silent", "failed", "good")
    assert record.uploads == ("failed", "good")


def test_whoever_does_not_answer_a_probe_is_not_available():
    driver = driver_of("a", "b", strategy=CAFed())
    with pytest.raises(ValueError, match="CAFed needs the loss of every available client"):
        driver.open_round(["a", "b"])
    orders = driver.open_round(["a", "b"], {"a": 0.5})
    assert [order.client for order in orders] == ["a"]


def test_without_lengths_told_before_the_upload_they_are_taken_from_it():
    driver = driver_of("a", "b", "c", strategy=OptimalSampling(cohort=3))
    driver.open_round(["a", "b", "c"])
    record = driver.close_round({"a": reply_of({"x": [1.0, 0.0]}), "b": reply_of({"x": [2.0, 0.0]})})
    assert record.arrived == ("a", "b")
    np.testing.assert_allclose(driver.arrays()["x"], [1.0, 0.0], rtol=1e-6)


class Keeper(Strategy[dict]):
    """Keeps the updates of the last round as they came."""

    def init(self, fleet, params):
        return tree.repeat(tree.zeros_like(params), fleet.num_clients)

    def aggregate(self, state, params, view, cohort, reports):
        direction, _ = Strategy.aggregate(self, state, params, view, cohort, reports)
        return direction, reports.updates


def test_what_a_strategy_keeps_is_its_own():
    """Updates come together in one place, round after round; nobody's memory may be a view of it."""
    driver = driver_of("a", "b", strategy=Keeper())
    for value in (1.0, 2.0):
        driver.open_round(["a", "b"])
        driver.room_for("a")["x"][...] = -9.0
        if value > 1.0:
            np.testing.assert_array_equal(driver.state.strategy["x"], [[1.0, 1.0], [0.0, 0.0]])
        driver.close_round({"a": reply_of({"x": [value, value]})})
    np.testing.assert_array_equal(driver.state.strategy["x"], [[2.0, 2.0], [0.0, 0.0]])


def test_a_single_number_is_trained_like_any_array():
    start = {"temperature": np.array(1.0, np.float32)}
    driver = Driver(FedAvg(), start)
    driver.join({"a": 1.0})
    driver.open_round(["a"])
    end = {"temperature": np.array(3.0, np.float32)}
    rules = ReplyRules(driver.layout, 0, row=driver.room_for("a"))
    driver.close_round({"a": check_reply(end, {}, start, rules)})
    np.testing.assert_array_equal(driver.arrays()["temperature"], 3.0)


def test_an_update_that_was_dropped_leaves_nothing_behind():
    driver = driver_of("a", "b")
    driver.open_round(["a", "b"])
    driver.room_for("b")["x"][...] = np.nan
    driver.close_round({"a": reply_of({"x": [1.0, 0.0]})})
    np.testing.assert_array_equal(driver.arrays()["x"], [1.0, 0.0])


def test_clients_with_models_of_their_own_start_from_them():
    driver = driver_of("a", "b", strategy=FedAWE())
    driver.open_round(["a"])
    driver.close_round({"a": reply_of({"x": [2.0, 0.0]})})
    starts = {order.client: order.start["x"] for order in driver.open_round(["a", "b"])}
    np.testing.assert_allclose(starts["a"], [2.0, 0.0])
    np.testing.assert_allclose(starts["b"], [0.0, 0.0])


def test_what_would_make_the_model_infinite_is_dropped(caplog):
    driver = driver_of("a", "b", settings=ServerSettings(learning_rate=1e30))
    for _ in range(2):
        driver.open_round(["a", "b"])
        record = driver.close_round({"a": reply_of({"x": [1e12, 0.0]})})
        assert not record.steady
    assert "round 0 would make the model infinite: all its 1 replies are dropped" in caplog.text
    np.testing.assert_array_equal(driver.arrays()["x"], 0.0)
    assert driver.t == 2


def test_a_reply_that_nobody_asked_for_is_dropped(caplog):
    driver = driver_of("a", "b")
    driver.open_round(["a"])
    with caplog.at_level(logging.WARNING):
        driver.close_round({"b": reply_of({"x": [1.0, 1.0]})})
    assert "b was not asked" in caplog.text
    np.testing.assert_array_equal(driver.arrays()["x"], 0.0)


def test_estimates_come_from_the_rounds_seen():
    driver = driver_of("a", "b", strategy=Unbiased())
    for there in (["a"], ["a", "b"], ["a"]):
        driver.open_round(there)
        driver.close_round({name: reply_of({"x": [0.0, 0.0]}, reach=4.0) for name in there})
    known = Online().read(driver.state.facts, None)
    np.testing.assert_allclose(known.pi, [4 / 5, 2 / 5], rtol=1e-6)
    np.testing.assert_allclose(known.reach, 4.0)


@pytest.mark.parametrize("worth", [0.0, -1.0, float("nan"), float("inf")])
def test_importance_must_be_positive(worth):
    with pytest.raises(ValueError, match="client 'a' should count for"):
        driver_of().join({"a": worth})


def test_mistakes_of_the_caller_are_named():
    driver = driver_of("a")
    with pytest.raises(RuntimeError, match="round 0 is not open"):
        driver.admit_round({})
    driver.open_round(["a"])
    with pytest.raises(RuntimeError, match="round 0 is still open"):
        driver.open_round(["a"])
    with pytest.raises(ValueError, match="use Online"):
        Driver(FedAvg(), stage.START, settings=ServerSettings(facts=Oracle()))
    with pytest.raises(ValueError, match="FedAWE sets the model itself, so the server's learning_rate must be 1"):
        Driver(FedAWE(), stage.START, settings=ServerSettings(learning_rate=0.5))


def test_a_state_goes_on_elsewhere():
    first, second = (Driver(MIFA(), {"x": np.zeros(2, np.float32)}) for _ in range(2))
    first.join({"a": 1.0, "b": 3.0})
    first.open_round(["a", "b"])
    first.close_round({"a": reply_of({"x": [1.0, 2.0]})})
    second.restore(first.t, list(zip(first.directory.names, first.importance, strict=True)), first.named_leaves())
    for driver in (first, second):
        driver.open_round(["b"])
        driver.close_round({"b": reply_of({"x": [0.5, 0.0]})})
    np.testing.assert_array_equal(first.arrays()["x"], second.arrays()["x"])
    assert jnp.array_equal(first.state.facts.on, second.state.facts.on)
    leaves = first.named_leaves()
    other = Driver(FedAvg(), {"x": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="arrays of state, but this strategy and server have"):
        other.restore(1, [("a", 1.0), ("b", 3.0)], leaves)
    with pytest.raises(ValueError, match=r"is float32\(3, 2\), but it holds float32\(2, 2\)"):
        Driver(MIFA(), {"x": np.zeros(2, np.float32)}).restore(1, [("a", 1.0), ("b", 3.0), ("c", 1.0)], leaves)


class Ages(Strategy):
    """Remembers the age and the rate of every update that it was given."""

    def init(self, fleet, params):
        return {"age": jnp.zeros_like(fleet.importance), "lr": jnp.zeros_like(fleet.importance)}

    def aggregate(self, state, params, view, cohort, reports):
        return Move(cohort.factors), {"age": cohort.put(cohort.age), "lr": cohort.put(cohort.lr)}


def test_a_strategy_is_told_the_age_of_an_update_and_the_rate_of_its_round():
    driver = driver_of("a", "b", strategy=Ages(), local=Local(learning_rate=0.25))
    driver.open_round(["a", "b"])
    fresh = reply_of({"x": [1.0, 0.0]})
    driver.close_round({"a": fresh, "b": replace(fresh, age=3, lr=0.5)})
    np.testing.assert_allclose(driver.state.strategy["age"], [0.0, 3.0])
    np.testing.assert_allclose(driver.state.strategy["lr"], [0.25, 0.5])
