"""Strategies under secure sums on nodes: the model of the plain run, through dropouts at every stage and restarts."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from inprocess import FakeClock, InProcessGrid, grouped
from test_memory_on_clients import MODEL, train

from turnout.files import archive
from turnout.flower import FlowerStrategy, Guard, Limits, Rules, SecureSums, client_app, leave
from turnout.flower.memory import REMEMBERED
from turnout.flower.secure import words
from turnout.flower.wire.messages import to_numpy, to_record
from turnout.paces import Buffered
from turnout.simulator.client_optimizer import Local
from turnout.strategies import MIFA, SCAFFOLD, FedAU, FedAvg, FedVARP, LastWord

NAMES = ("1", "2", "3", "4", "5", "6")
SUMS = SecureSums()
STAGES = {"keys": words.KEYS, "shares": words.SHARES, "train": "train", "unmask": words.UNMASK}


def sized(arrays, config, context):
    trained, metrics = train(arrays, config, context)
    return trained, {**metrics, "num-examples": int(context.node_config["client-id"])}


PLAIN, SECURE = client_app(train=sized), client_app(train=sized, secure=Rules(least=3))


def play(strategy, app=SECURE, behave=None, rounds=8, secure=SUMS, on_turn=lambda grid, turn: None, **options):
    grid = InProcessGrid(app, lambda turn: on_turn(grid, turn) or list(NAMES))
    grid.behave = behave or grid.behave
    flower = FlowerStrategy(
        strategy,
        secure=secure,
        **grouped(local=Local(learning_rate=0.1), evaluate_every=0, clock=FakeClock(), guard=None, **options),
    )
    result = flower.start(grid, to_record(MODEL), num_rounds=rounds, timeout=10.0)
    return flower, to_numpy(result.arrays)["w"], grid


def at(stage, manner="silent", rounds=range(2, 9), name="2"):
    """One client drops out of an exchange, in some rounds counted from 1."""

    def behave(who, turn, message):
        chosen = who == name and message.metadata.message_type == STAGES[stage] and turn + 1 in rounds
        return manner if chosen else "answer"

    return behave


def absent(name="2", rounds=range(2, 9)):
    return lambda who, turn, message: "silent" if who == name and turn + 1 in rounds else "answer"


@pytest.mark.parametrize("strategy", [LastWord(memory="clients"), MIFA(memory="clients"), FedAvg(), FedAU()], ids=str)
def test_the_model_is_that_of_the_plain_run_to_the_rounding(strategy):
    flower, model, _ = play(strategy)
    _, plain, _ = play(strategy, PLAIN, secure=None)
    np.testing.assert_allclose(model, plain, atol=3e-5)
    assert np.abs(plain).max() > 0.5
    assert all(len(record.arrived) == len(NAMES) for record in flower.records)


@pytest.mark.parametrize("stage", ["train", "unmask"])
def test_who_drops_out_is_in_the_sum_if_its_upload_came(stage):
    flower, model, _ = play(LastWord(memory="clients"), behave=at(stage))
    comes = absent() if stage == "train" else None
    _, plain, _ = play(LastWord(memory="clients"), PLAIN, comes, secure=None)
    np.testing.assert_allclose(model, plain, atol=3e-5)
    assert [len(record.arrived) for record in flower.records[1:]] == [5 if stage == "train" else 6] * 7


@pytest.mark.parametrize("stage", ["keys", "shares"])
def test_who_drops_out_before_any_mask_costs_nothing(stage):
    flower, model, _ = play(LastWord(memory="clients"), behave=at(stage, "raise"), rounds=4)
    _, plain, _ = play(LastWord(memory="clients"), PLAIN, absent(), rounds=4, secure=None)
    np.testing.assert_allclose(model, plain, atol=3e-5)
    assert not flower._sums.lost


def test_a_round_that_is_lost_counts_for_nobody_and_the_next_ones_are_right(caplog):
    def behave(name, turn, message):
        lost = turn == 3 and message.metadata.message_type == words.UNMASK and name in NAMES[:4]
        return "lost" if lost else "answer"

    def nobody(name, turn, message):
        return "lost" if turn == 3 and message.metadata.message_type == "train" else "answer"

    flower, model, _ = play(LastWord(memory="clients"), behave=behave)
    _, plain, _ = play(LastWord(memory="clients"), PLAIN, nobody, secure=None)
    np.testing.assert_allclose(model, plain, atol=3e-5)
    assert flower._sums.lost == [4]
    assert flower.records[3].arrived == ()
    assert len(flower.records[3].available) == len(NAMES)
    assert "round 4: the sum is lost" in caplog.text


def test_nothing_of_one_client_is_in_any_message():
    sent = []

    def watch(message, context):
        reply = SECURE(message, context)
        if message.metadata.message_type == "train":
            sent.append(reply.content)
        return reply

    play(LastWord(memory="clients"), watch, rounds=3)
    assert len(sent) == 3 * len(NAMES)
    for content in sent:
        assert set(content) == {words.MASKED, "metrics"}
        assert set(content["metrics"]) == {"turnout.round"}
        assert to_numpy(content[words.MASKED])["sum"].dtype == np.uint32


@pytest.mark.parametrize("target", ["examples", {name: 0.5 * int(name) for name in NAMES}])
@pytest.mark.parametrize("kind", [FedAvg, lambda: LastWord(memory="clients")])
def test_clients_count_by_weights_that_the_server_need_not_see(kind, target):
    _, model, _ = play(kind(), target=target)
    _, plain, _ = play(kind(), PLAIN, secure=None, target=target)
    np.testing.assert_allclose(model, plain, atol=3e-5)


def test_orders_are_sent_when_the_shares_are_there():
    """Sent earlier, orders would expire while keys are exchanged."""
    seen = []

    def behave(_name, turn, message):
        seen.append((turn, message.metadata.message_type))
        return "answer"

    play(FedAvg(), behave=behave, rounds=2)
    for turn in (0, 1):
        of_turn = [kind for when, kind in seen if when == turn]
        shared = max(place for place, kind in enumerate(of_turn) if kind == words.SHARES)
        orders = [place for place, kind in enumerate(of_turn) if kind == "train"]
        assert len(orders) == len(NAMES)
        assert min(orders) > shared


QUESTION = """
import sys
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from turnout.flower import Rules, greet
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 3
told = ConfigRecord({"run": "r", "round": 1, "acknowledged-round": 0})
message = Message(RecordDict({"turnout.sum": told}), 5, "query.keys")
message.metadata.__dict__["_message_id"] = "m"
reply = greet(ClientApp(), secure=Rules())(message, Context(7, 5, {}, RecordDict(), {}))
assert len(reply.content["turnout.sum"]["told"]) == 96
assert "jax" not in sys.modules
"""


def test_a_node_loads_jax_only_to_train():
    subprocess.run([sys.executable, "-c", QUESTION], check=True)


def test_the_programs_of_the_page_work():
    page = Path(__file__).parents[2] / "docs" / "flower_privacy.md"
    made = {}
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(code, str(page), "exec"), made)
    assert made["strategy"].secure == SecureSums()
    assert made["app"]._secure.rules == Rules(least=3)


def test_means_of_metrics_are_sums_too():
    flower, _, _ = play(LastWord(memory="clients"), rounds=2, secure=SecureSums(metrics=("loss", "reach")))
    assert flower.records[0].loss == pytest.approx(1.0, abs=1e-4)


def test_a_client_that_lost_its_memory_is_left_out_and_a_new_epoch_begins():
    def forget(grid, turn):
        if turn == 3:
            del grid.contexts[grid.nodes["2"]].state[REMEMBERED]

    flower, model, _ = play(LastWord(memory="clients"), on_turn=forget, rounds=40)
    _, plain, _ = play(LastWord(memory="clients"), PLAIN, secure=None, rounds=40)
    assert flower._require_driver().epoch == 4
    assert len(flower.records[3].arrived) == 5
    np.testing.assert_allclose(model, plain, atol=0.03)


@pytest.mark.parametrize("every", [1, 3])
def test_a_server_that_is_killed_counts_nothing_twice_and_no_round_is_summed_up_twice(tmp_path, every):
    app = client_app(
        train=sized, secure=Rules(), state=lambda context: tmp_path / f"{context.node_config['client-id']}.npz"
    )

    class Killed(BaseException):
        pass

    places = {"checkpoint": tmp_path / "state.npz", "every": every}
    killed = []

    def kill(stage, round_):
        def behave(_name, _turn, message):
            told = message.content.config_records.get(words.SUM, {})
            if message.metadata.message_type == STAGES[stage] and told["round"] == round_ and stage not in killed:
                killed.append(stage)
                raise Killed
            return "answer"

        return behave

    for stage, round_ in (("keys", 3), ("shares", 3), ("train", 4), ("unmask", 5)):
        with pytest.raises(Killed):
            play(LastWord(memory="clients"), app, kill(stage, round_), **places)
    flower, model, _ = play(LastWord(memory="clients"), app, rounds=9, **places)
    assert flower._require_driver().epoch == 0
    assert len(flower.records[-1].arrived) == len(NAMES)
    assert np.isfinite(model).all()
    assert_books_are_right(flower, tmp_path)


def assert_books_are_right(flower, folder):
    """The server's sum is that of the versions which it acknowledges, as the clients have them on their disks."""
    driver = flower._require_driver()
    expected, weight = np.zeros(3), 0.0
    for name, last in zip(driver.directory.by_place, driver.acknowledged_rounds(), strict=False):
        if name is not None and last:
            _, rows = archive.read_archive(folder / f"{name.removeprefix('id:')}.npz")
            factor = np.sqrt(rows[f"{last} .algorithm.t"] + 1.0)
            expected = expected + factor * rows[f"{last} .algorithm.word['w']"]
            weight += factor * rows[f"{last} .algorithm.numbers"][0]
    np.testing.assert_allclose(driver.state.strategy.words.total["w"], expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(driver.state.strategy.words.weight, weight, rtol=2e-5)


def test_a_client_that_leaves_takes_its_word_out_of_the_sum_under_masks(tmp_path):
    def work(arrays, config, context):
        if context.node_config["client-id"] == "5" and config["server-round"] == 4:
            leave(context)
        return sized(arrays, config, context)

    app = client_app(
        train=work, secure=Rules(), state=lambda context: tmp_path / f"{context.node_config['client-id']}.npz"
    )
    flower, _, _ = play(LastWord(memory="clients"), app, rounds=7)
    assert [len(record.arrived) for record in flower.records] == [6, 6, 6, 5, 5, 5, 5]
    assert "id:5" not in flower.records[-1].members
    assert flower._require_driver().epoch == 0
    assert_books_are_right(flower, tmp_path)


def test_a_client_that_insists_on_masks_takes_no_part_in_a_plain_run_nor_the_other_way_round(caplog):
    flower, _, _ = play(FedAvg(), either(SECURE, "3"), secure=None, rounds=1)
    assert len(flower.records[0].arrived) == 5
    assert "this client takes part in secure sums only" in caplog.text
    flower, _, _ = play(FedAvg(), either(PLAIN, "3"), rounds=1)
    assert len(flower.records[0].arrived) == 5
    assert "take app = greet(app, secure=Rules())" in caplog.text


def either(odd, *names):
    other = PLAIN if odd is SECURE else SECURE
    return lambda message, context: (odd if context.node_config["client-id"] in names else other)(message, context)


def test_a_server_that_asks_for_a_plain_update_after_all_gets_none():
    grid = InProcessGrid(SECURE, lambda _turn: list(NAMES))
    flower = FlowerStrategy(
        LastWord(memory="clients"), **grouped(local=Local(learning_rate=0.1), evaluate_every=0, clock=FakeClock())
    )
    flower._presence._greetings._question["config"][words.WANTED] = True
    flower.start(grid, to_record(MODEL), num_rounds=1, timeout=10.0)
    assert flower.records[0].arrived == ()


REFUSED = {
    "guard cannot be used with secure": {"guard": Guard()},
    "limits cannot be used with secure": {"limits": Limits(norm=1.0)},
    "pace cannot be used with secure": {"pace": Buffered(size=2)},
    "evaluation on the clients tells": {"evaluate_every": 1},
    "target='size' has clients tell": {"target": "size"},
    "train_metrics_aggr_fn cannot be used": {"train_metrics_aggr_fn": lambda *_: None},
    r"LastWord keeps every client's own word on the server: give LastWord\(memory='clients'\)": {
        "strategy": LastWord()
    },
    "SCAFFOLD needs more of a round than one sum": {"strategy": SCAFFOLD()},
    "FedVARP needs more of a round than one sum": {"strategy": FedVARP()},
    "FedAvg with normaliser='draws'": {"strategy": FedAvg(cohort=2, normaliser="draws")},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_needs_single_updates_is_refused_in_one_line(why):
    options = {"strategy": LastWord(memory="clients"), "evaluate_every": 0, "secure": SecureSums(), **REFUSED[why]}
    with pytest.raises(ValueError, match=f"^{why}") as caught:
        FlowerStrategy(options.pop("strategy"), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong", [{"quantum": 0.1}, {"dropouts": 0.5}, {"room": 1}, {"neighbours": 1}, {"metrics": "loss"}]
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(wrong))} .*must be"):
        SecureSums(**wrong)
