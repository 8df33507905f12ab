import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg
from turnout.tasks import lstm, text, transformer
from turnout.tasks.data.partition import TEST, TRAIN, VALIDATION
from turnout.tasks.text import documents, in_order, lighthouse_letters, tokens_of
from turnout.testing import check_task


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """The same two texts as a folder, a file with headings and a table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "letters" / "ada.txt").write_text("abcabcabcabc\nabc")
    (tmp_path / "letters" / "bo.txt").write_text("bbbbbbbbbbbbbbbb")
    (tmp_path / "letters.txt").write_text("## ada\nabcabcabcabc\n## bo\nbbbbbbbbbbbbbbbb\n## ada\nabc")
    (tmp_path / "letters.csv").write_text("who,line\nada,abcabcabcabc\nbo,bbbbbbbbbbbbbbbb\nada,abc\n")


@pytest.mark.usefixtures("letters")
def test_a_folder_a_file_and_a_table_hold_the_same():
    expected = {"ada": "abcabcabcabc\nabc", "bo": "bbbbbbbbbbbbbbbb"}
    assert documents("letters") == documents("letters.txt") == documents("letters.csv", "who", "line") == expected


@pytest.mark.usefixtures("letters")
def test_samples_are_windows_and_the_character_after_them():
    task = text("letters", context=3, validation=0.0, test=0.25, width=4)
    assert task.names == ("ada", "bo")
    assert (task.sizes.tolist(), task.test.sizes.tolist()) == ([10, 10], [3, 3])
    inputs, labels = task.batch(jnp.asarray(0), jnp.arange(2))
    assert inputs.tolist() == [[2, 3, 4], [3, 4, 2]]  # abc, bca; the new line is token 1
    assert labels.tolist() == [2, 3]


def test_rare_characters_share_a_token():
    (codes,) = tokens_of({"a": "aaabbc"}, 2)
    assert codes.tolist() == [1, 1, 1, 2, 2, 0]


def test_held_out_samples_come_last():
    assert in_order(10, 0.1, 0.2).tolist() == [TRAIN] * 7 + [VALIDATION] + [TEST] * 2
    assert in_order(3, 0.1, 0.2).tolist() == [TRAIN] * 3


def test_generated_letters_are_the_same_every_time_and_differ_by_author():
    assert lighthouse_letters() == lighthouse_letters()
    assert len(set(lighthouse_letters().values())) == len(lighthouse_letters()) == 10
    assert min(map(len, lighthouse_letters().values())) > 1000


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"path": "absent"}, "absent: there is no such file or folder"),
        ({"path": "empty"}, "the folder has no .txt file; give one per author or document"),
        ({"path": "letters/ada.txt"}, "must begin with a line '## name'"),
        ({"path": "letters.csv"}, "there is no column 'client'"),
        ({"context": 0}, "context must be a whole number from 1"),
        ({"test": 0.9}, "shares not negative and together below 1"),
        ({"path": "letters", "context": 15}, "no text is long enough for 10 samples of 15 characters"),
    ],
)
def test_what_is_wrong_is_told(options, complaint):
    with pytest.raises((ValueError, OSError)) as caught:
        text(**options)
    assert complaint in str(caught.value)


def test_text_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"a.txt: is not text in UTF-8: invalid start byte at byte 0"):
        text(str(tmp_path))


def test_tokens_are_not_shortened():
    task = text(context=3, stride=50, width=4)
    with pytest.raises(ValueError, match="leave precision at 'float32'"):
        task.shorten(task.batch(jnp.asarray(0), jnp.arange(2)))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_networks_keep_the_contract_of_a_task(model):
    task = text(context=4, stride=50, width=4, model=model)
    check_task(task, clients=2)
    assert task.model is text(context=4, stride=50, width=4, model=model).model


def test_networks_see_every_place():
    tokens = jnp.arange(4)[None, :]
    changed = jnp.concatenate([tokens, jnp.where(jnp.eye(4, dtype=bool), 6, tokens)])
    for model in (lstm(7, 8), transformer(7, 4, 8, heads=2, layers=1)):
        outputs = jax.jit(lambda model=model: model.apply(model.init(jr.key(0)), changed))()
        assert (jnp.abs(outputs[1:] - outputs[:1]).max(axis=1) > 1e-5).all()
    with pytest.raises(ValueError, match="width is 6; it must be a multiple of the 4 heads"):
        transformer(7, 4, 6)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "rate"), [("lstm", 0.5), ("transformer", 0.1)])
def test_the_letters_are_learnt(model, rate):
    task = text(model=model, width=32, stride=2)
    history = simulate(task, World(availability.bernoulli(10, 0.6)), FedAvg(), rounds=30, local=Local(rate))
    assert history.final("train_loss")[0] < 0.7 * history.metrics["train_loss"][0, 0]
    assert history.final("test_accuracy")[0] > 0.25
