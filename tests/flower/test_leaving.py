"""Clients that leave for good take their words along; a goodbye may be lost, late, told twice, or of no use."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from inprocess import InProcessGrid
from test_memory_on_clients import MODEL, NAMES, play, train

from turnout.flower import client_app, leave
from turnout.flower.memory import REMEMBERED
from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Goodbye
from turnout.strategies import MIFA, FedAvg, LastWord
from turnout.strategies.last_updates import Sums, Words

LEAVER, SAYS_SO = "5", 6  # the round, counted from 1, in which it says so


def leaving(in_round=SAYS_SO, name=LEAVER):
    """An app whose client leaves in the middle of its work."""

    def work(arrays, config, context):
        if context.node_config["client-id"] == name and config["server-round"] >= in_round:
            leave(context)
        return train(arrays, config, context)

    return client_app(train=work)


def in_rounds(manner, *rounds):
    """What the leaver does with its orders in these rounds, counted from 1."""

    def behave(name, _turn, message):
        config = message.content.config_records.get("config", {})
        chosen = name == LEAVER and message.metadata.message_type == "train" and config["server-round"] in rounds
        return manner if chosen else "answer"

    return behave


def played(strategy, app, rounds=10, behave=None, on_turn=lambda grid, turn: None, names=NAMES, **options):
    grid = InProcessGrid(app, lambda turn: on_turn(grid, turn) or list(names))
    grid.behave = behave or grid.behave
    flower, model = play(strategy, grid=grid, rounds=rounds, **options)
    return flower, model, grid


def words_of(flower):
    state = flower._require_driver().state.strategy
    return state if isinstance(state, Words | Sums) else state.words


def stepwise(arrays, config, context):
    """An update that does not depend on the model, so that the words of others do not depend on who was there."""
    own, t = np.float32(context.node_config["client-id"]), np.float32(config["server-round"])
    update = np.float32(config["lr"]) * own * np.array([1, -1, np.sin(t)], np.float32)
    return {**arrays, "w": arrays["w"] + update}, {"loss": 1.0, "reach": 1}


@pytest.mark.parametrize("memory", ["server", "clients"])
@pytest.mark.parametrize("kind", [LastWord, MIFA])
def test_the_sum_is_that_of_a_fleet_in_which_the_client_never_was(kind, memory):
    def until(arrays, config, context):
        if context.node_config["client-id"] == LEAVER and config["server-round"] == SAYS_SO:
            leave(context)
        return stepwise(arrays, config, context)

    left, _, grid = played(kind(memory=memory), client_app(train=until), SAYS_SO + 2)
    never, _, _ = played(kind(memory=memory), client_app(train=stepwise), SAYS_SO + 2, names=NAMES[:4])
    np.testing.assert_allclose(words_of(left).total["w"], words_of(never).total["w"], rtol=1e-6)
    assert left._require_driver().epoch == 0
    assert left._require_driver().directory.names == ("id:1", "id:2", "id:3", "id:4")
    orders = [kind for name, kind, _ in grid.seen if name == LEAVER and kind == "train"]
    assert len(orders) == SAYS_SO  # and nothing more, though its node is still there
    assert LEAVER in grid.listed(SAYS_SO + 1)


def test_the_round_in_the_middle_of_which_it_arrives_goes_on_with_the_others(caplog):
    flower, _, _ = played(LastWord(memory="clients"), leaving())
    record, after = flower.records[SAYS_SO - 1], flower.records[SAYS_SO]
    assert record.arrived == ("id:1", "id:2", "id:3", "id:4")
    assert "id:5" in record.available
    assert "id:5" in record.members
    assert "id:5" not in after.members
    assert "1 clients have left for good: id:5" in caplog.text
    assert sum(flower.history.records["dropped"][0]) == 0


@pytest.mark.parametrize("manner", ["lost", "silent", "late", "unreachable"])
@pytest.mark.parametrize("memory", ["server", "clients"])
def test_a_goodbye_that_does_not_come_is_said_again(manner, memory):
    flower, _, _ = played(LastWord(memory=memory), leaving(), 14, in_rounds(manner, SAYS_SO, SAYS_SO + 1))
    members = [len(record.members) for record in flower.records]
    assert members[SAYS_SO] == 5
    assert members[-1] == 4
    assert flower._require_driver().epoch == 0


@pytest.mark.parametrize("memory", ["server", "clients"])
def test_a_goodbye_that_is_told_twice_counts_once(memory):
    once, model, _ = played(LastWord(memory=memory), leaving())
    twice, same, _ = played(LastWord(memory=memory), leaving(), behave=in_rounds("twice", SAYS_SO))
    np.testing.assert_array_equal(model, same)
    np.testing.assert_array_equal(words_of(once).total["w"], words_of(twice).total["w"])


@pytest.mark.parametrize("memory", ["server", "clients"])
def test_who_leaves_without_a_word_takes_nothing_along(memory):
    flower, model, _ = played(LastWord(memory=memory), leaving(in_round=1), 8)
    assert [len(record.members) for record in flower.records] == [5, *[4] * 7]
    assert flower._require_driver().epoch == 0
    if memory == "server":
        assert words_of(flower).weight[4] == 0.0
    assert np.abs(model).max() > 0.1


def test_a_client_that_has_lost_its_memory_leaves_by_a_new_epoch(caplog):
    def forget(grid, turn):
        if turn == SAYS_SO - 1:
            del grid.contexts[grid.nodes[LEAVER]].state[REMEMBERED]

    flower, _, _ = played(LastWord(memory="clients"), leaving(), on_turn=forget)
    assert "id:5 leaves, but what it says of its word is dropped: the client has lost its memory" in caplog.text
    assert flower._require_driver().epoch == SAYS_SO
    assert len(flower.records[-1].members) == 4


def test_a_goodbye_of_another_model_is_dropped_and_a_new_epoch_begins(caplog):
    def lie(content):
        content.array_records["turnout.upload"].clear()
        return content

    grid = InProcessGrid(leaving(), lambda _turn: list(NAMES), in_rounds("lie", SAYS_SO), lie)
    flower, _ = play(LastWord(memory="clients"), grid=grid, rounds=10)
    assert "id:5 leaves, but what it says of its word is dropped: the parts of its upload" in caplog.text
    assert flower._require_driver().epoch == SAYS_SO


def test_nothing_of_it_is_there_after_a_restart_from_before_its_goodbye(tmp_path):
    """The server falls back to a checkpoint in which the client is still there; it says goodbye once more."""

    class Killed(BaseException):
        pass

    def kill(_grid, turn):
        if turn == SAYS_SO + 1:
            raise Killed

    places = {"checkpoint": tmp_path / "state.npz", "every": 4}
    grid = InProcessGrid(leaving(), lambda turn: kill(grid, turn) or list(NAMES))
    with pytest.raises(Killed):
        play(LastWord(memory="clients"), grid=grid, rounds=12, **places)
    grid.listed = lambda _turn: list(NAMES)
    flower, model = play(LastWord(memory="clients"), grid=grid, rounds=12, **places)
    assert flower._require_driver().epoch == 0
    _, undisturbed, _ = played(LastWord(), leaving(in_round=5), 12)  # the first one after the checkpoint
    np.testing.assert_allclose(model, undisturbed, atol=1e-5)


def test_who_has_left_has_no_place_after_a_restart_though_the_target_names_it(tmp_path):
    options = {"target": dict.fromkeys(NAMES, 1.0), "checkpoint": tmp_path / "state.npz"}
    played(LastWord(), leaving(), 8, **options)
    flower, _, _ = played(LastWord(), leaving(), 10, names=NAMES[:4], **options)
    assert [record.members for record in flower.records] == [("id:1", "id:2", "id:3", "id:4")] * 2


def test_a_client_may_leave_any_strategy():
    flower, _, _ = played(FedAvg(), leaving())
    assert [len(record.members) for record in flower.records] == [5] * SAYS_SO + [4] * 4


def test_who_leaves_without_a_goodbye_begins_an_epoch_only_if_it_has_a_word():
    driver = Driver(LastWord(memory="clients"), MODEL)
    driver.join(dict.fromkeys("abc", 1.0))
    driver.open_round(["a", "b"])
    driver.close_round({})
    driver.retire(["c"])
    assert driver.epoch == 0


def test_a_goodbye_where_nothing_is_kept_is_refused():
    driver = Driver(FedAvg(), MODEL)
    driver.join({"a": 1.0})
    with pytest.raises(ValueError, match="FedAvg has no sum of words that its clients keep"):
        driver.retire(["a"], {"a": Goodbye({"w": np.ones(3, np.float32)})})
