"""Places of clients at the server: spare ones for newcomers, and those that clients leave for good."""

from concurrent.futures import wait

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from every_strategy import SETTINGS
from turnout.flower.run import checkpoint
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Reply
from turnout.server.places import has_rows
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import F3AST, MIFA, FedAU, FedAvg, FedLaAvg, FedVARP, ImportanceSampling, LastWord

START = {"x": np.zeros(2, np.float32)}


def reply_of(*entries):
    update = np.array(entries, np.float32)
    return Reply({"x": update}, float(np.linalg.norm(update)), 0.5, 2.0, 1)


def driver_of(strategy, *names, rest=None):
    driver = Driver(strategy, START, settings=ServerSettings(rest=rest))
    driver.join(dict.fromkeys(names, 1.0))
    return driver


def play(driver, **updates):
    driver.open_round(list(updates), dict.fromkeys(updates, 0.5) if driver.demands.losses else None)
    return driver.close_round({name: reply_of(*update) for name, update in updates.items()})


class Compilations:
    """Counts the programs that are compiled while it is entered, single operations included."""

    def __enter__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._add)
        return self

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self._add)

    def _add(self, event, seconds, **_):
        self.count += event == "/jax/core/compile/backend_compile_duration"


@pytest.mark.parametrize(
    "name", ["fedavg", "mifa", "last_word", "fedawe", "ca_fed", "optimal_sampling", "fedavg draws"]
)
def test_newcomers_that_fit_compile_nothing(name):
    names = list("abcdefgh")
    driver = driver_of(SETTINGS[name], *names[:4])
    play(driver, a=(1.0, 0.0), b=(0.0, 1.0))
    with Compilations() as growth:
        driver.join({"e": 1.0})
        play(driver, a=(1.0, 0.0), e=(0.0, 1.0))
        driver.model()
    assert growth.count > 0  # the counter works
    with Compilations() as joining:
        for newcomer in names[5:]:
            driver.join({newcomer: 2.0})
            play(driver, **{"b": (1.0, 0.0), newcomer: (0.0, 1.0)})
            driver.model()
    assert joining.count == 0
    assert len(driver.directory) == 8


def test_the_end_of_a_round_is_compiled_while_the_clients_work():
    driver = Driver(FedAvg(), {"x": np.zeros(37, np.float32)})  # a shape that no other test has
    driver.join({"a": 1.0, "b": 1.0})
    driver.open_round(["a", "b"])
    wait([driver._compiling])
    with Compilations() as closing:
        driver.close_round({"a": reply_of(*np.ones(37))})
    assert closing.count == 0


def test_a_strategy_with_one_entry_per_client_has_no_spare_places():
    driver = driver_of(ImportanceSampling(cohort=2, odds=[1.0, 2.0, 3.0]), "a", "b", "c")
    play(driver, a=(1.0, 0.0), b=(0.0, 1.0))
    assert driver.state.facts.on.shape == (3,)


@pytest.mark.parametrize(
    ("strategy", "rest"),
    [
        (MIFA(), None),
        (FedAU(), None),
        (FedLaAvg(), None),
        (FedVARP(), None),
        (LastWord(), None),
        (F3AST(cohort=1), None),
        (MIFA(), 2),
    ],
)
def test_a_newcomer_on_a_spare_place_is_as_new_as_one_that_makes_the_fleet_larger(strategy, rest):
    spare, small = (driver_of(strategy, *names, rest=rest) for names in ("abc", "ab"))
    small.join({"c": 1.0})
    for driver in (spare, small):
        play(driver, a=(1.0, 0.0), b=(0.0, 1.0))
        play(driver, c=(0.0, 2.0))
    spare.join({"d": 2.0})  # on the fourth place, vacant so far
    fresh = driver_of(strategy, "a", "b", "c", rest=rest)
    fresh.join({"d": 2.0})
    for leaf, new, with_row in zip(
        jax.tree.leaves((spare.state.strategy, spare.state.facts, spare.state.rest)),
        jax.tree.leaves((fresh.state.strategy, fresh.state.facts, fresh.state.rest)),
        jax.tree.leaves(has_rows(spare._server, spare.state.params)),
        strict=True,
    ):
        assert not with_row or jnp.array_equal(leaf[3], new[3])
    np.testing.assert_array_equal(spare.sums()["stalest"][3], 0)


def test_who_leaves_for_good_counts_no_more():
    driver = driver_of(MIFA(), "a", "b", "c")
    play(driver, a=(1.0, 0.0), b=(0.0, 8.0), c=(1.0, 1.0))
    before = driver.arrays()["x"]
    driver.retire(["b"])
    assert (driver.directory.names, driver.directory.by_place) == (("a", "c"), ("a", None, "c"))
    assert driver.importance == (1.0, 0.0, 1.0)
    play(driver, a=(1.0, 0.0))
    np.testing.assert_allclose(driver.arrays()["x"] - before, [1.0, 0.5], rtol=1e-6)  # without the 8 of b
    np.testing.assert_array_equal(driver.sums()["arrived"], [2.0, 1.0])
    driver.join({"late": 2.0})
    assert driver.directory.place("late") == 1
    np.testing.assert_array_equal(driver.state.strategy.rows["x"][1], 0.0)
    np.testing.assert_array_equal(driver.state.facts.rounds[:3], [2.0, 0.0, 2.0])
    assert driver.importance == (1.0, 2.0, 1.0)
    with pytest.raises(KeyError, match="no client 'b' in the fleet of 3"):
        driver.retire(["b"])
    driver.open_round(["a"])
    with pytest.raises(RuntimeError, match="round 2 is still open: clients can leave once it is closed"):
        driver.retire(["a"])


@pytest.mark.parametrize("name", ["mifa", "fedawe", "f3ast", "fedavg"])
def test_a_fleet_that_everybody_has_left_goes_on_with_newcomers(name):
    driver = driver_of(SETTINGS[name], "a", "b", "c")
    play(driver, a=(1.0, 0.0), b=(0.0, 1.0))
    driver.retire(["a", "b", "c"])
    model = driver.model()["x"]
    assert np.isfinite(model).all()
    assert driver.open_round([]) == []
    driver.close_round({})
    driver.join({"d": 1.0, "e": 1.0, "f": 1.0})
    play(driver, d=(1.0, 0.0))
    assert np.isfinite(driver.model()["x"]).all()
    assert driver.directory.by_place == ("d", "e", "f")


def pulled(driver, centres):
    """One round in which every client moves a fifth of the way to its centre."""
    orders = driver.open_round(list(centres))
    moves = {order.client: 0.2 * (centres[order.client] - order.start["x"]) for order in orders}
    driver.close_round({name: reply_of(*move) for name, move in moves.items()})


@pytest.mark.parametrize("retires", [True, False])
def test_a_client_under_eight_names_is_one_if_the_former_ones_are_retired(retires):
    """Client b wants 4 and gets a new name with each restart; a wants 0. The ghosts of b go on pushing."""
    driver = Driver(MIFA(), START, local=Local(learning_rate=0.2))
    driver.join({"a": 1.0, "b0": 1.0})
    for life in range(8):
        if life:
            driver.join({f"b{life}": 1.0})
            if retires:
                driver.retire([f"b{life - 1}"])
        for _ in range(30):
            pulled(driver, {"a": 0.0, f"b{life}": 4.0})
    gap = np.abs(driver.arrays()["x"] - 2.0).max()
    assert gap < 0.005 if retires else gap > 0.5
    assert len(driver.directory) == (2 if retires else 9)


def test_vacant_places_outlive_a_restart(tmp_path):
    first, second = driver_of(MIFA(), "a", "b", "c", "d", "e"), Driver(MIFA(), START)
    play(first, a=(1.0, 0.0), b=(0.0, 8.0), e=(1.0, 1.0))
    first.retire(["b", "d"])
    checkpoint.save(tmp_path / "state.npz", first, Chronicle())
    assert checkpoint.resume(tmp_path / "state.npz", second, Chronicle())
    assert second.directory.by_place == ("a", None, "c", None, "e")
    assert second.importance == (1.0, 0.0, 1.0, 0.0, 1.0)
    for driver in (first, second):
        driver.join({"late": 3.0})
        play(driver, late=(4.0, 0.0), c=(1.0, 0.0))
        assert driver.directory.place("late") == 1
    for leaf, other in zip(first.named_leaves().values(), second.named_leaves().values(), strict=True):
        np.testing.assert_array_equal(leaf, other)


def test_a_checkpoint_holds_no_rows_of_spare_places():
    driver = driver_of(FedAvg(), "a", "b", "c", "d", "e")
    assert {leaf.shape for leaf in driver.named_leaves().values()} == {(5,), (5, 3), (2,)}


def asked(driver, *names):
    """Who of these is asked in a round in which all answer."""
    orders = driver.open_round(list(names))
    driver.close_round({order.client: reply_of(1.0, 0.0) for order in orders})
    return [order.client for order in orders]


def test_rests_go_on_while_clients_join_and_leave():
    driver = driver_of(FedAvg(), "a", "b", rest=3)
    assert asked(driver, "a", "b") == ["a", "b"]
    driver.join({"c": 1.0})  # the fleet becomes larger
    assert asked(driver, "a", "b", "c") == ["c"]
    driver.retire(["b"])
    driver.join({"d": 1.0})  # at the place of b, whose rest it must not have
    assert driver.directory.place("d") == 1
    assert asked(driver, "a", "c", "d") == ["d"]
    assert asked(driver, "a", "c", "d") == []
    assert asked(driver, "a", "c", "d") == ["a"]
    assert asked(driver, "a", "c", "d") == ["c"]


def test_rests_outlive_a_restart_and_a_way_back(tmp_path):
    first, second = (driver_of(MIFA(), *names, rest=2) for names in ("abc", ""))
    kept = first.keep()
    assert asked(first, "a") == ["a"]
    checkpoint.save(tmp_path / "state.npz", first, Chronicle())
    assert checkpoint.resume(tmp_path / "state.npz", second, Chronicle())
    first.go_back(kept)
    for driver in (first, second):
        assert asked(driver, "a", "b") == ["b"]
        assert asked(driver, "a", "b") == []
        assert asked(driver, "a", "b") == ["a"]
    resting, other = driver_of(MIFA(), "abc", rest=2), Driver(MIFA(), START)
    asked(resting, "abc")
    checkpoint.save(tmp_path / "other.npz", resting, Chronicle())
    with pytest.raises(ValueError, match="arrays of state, but this strategy and server have"):
        checkpoint.resume(tmp_path / "other.npz", other, Chronicle())
