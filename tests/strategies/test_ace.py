import pytest

from rules_in_time import Ace
from slow_fleet import CASES, check_against
from turnout.strategies import ACE


def test_every_arrival_steps_along_all_words(play):
    game = play(ACE(), importance=(1.0, 3.0), lr=0.5)
    assert game.round([1, 0], [1.0, 0.0], goal=1) == pytest.approx(0.5 * 0.25 * 2.0)
    assert game.round([0, 1], [0.0, 1.0], rates=[0.5, 0.25], goal=1) == pytest.approx(0.25 + 0.5 * (0.5 + 3.0))
    # Both arrive: two steps at once.
    assert game.round([1, 1], [2.0, 4.0], goal=1) == pytest.approx(2.0 + 2 * 0.5 * (1.0 + 6.0))


def test_arrivals_over_the_size_of_the_buffer(play):
    game = play(ACE(), importance=(1.0, 1.0), lr=1.0)
    assert game.round([1, 1], [2.0, 4.0], goal=4) == pytest.approx(0.5 * 3.0)


def test_only_words_about_new_versions_count(play):
    game = play(ACE(newest_within=2), importance=(1.0, 3.0), lr=1.0)
    assert game.round([1, 0], [1.0, 0.0]) == pytest.approx(1.0)  # version 0
    assert game.round([0, 1], [0.0, 3.0]) == pytest.approx(1.0 + (1.0 + 9.0) / 4)  # version 1
    game.round([0, 0], [0.0, 0.0])
    before = game.round([0, 0], [0.0, 0.0])
    assert before == pytest.approx(3.5)
    # In version 4 all that is known is too old, and so is what arrives.
    assert game.round([1, 0], [5.0, 0.0], ages=[3, 0]) == before
    assert game.round([0, 1], [0.0, 5.0], ages=[0, 2]) == pytest.approx(before + 5.0)


def test_waiting_until_everyone_has_come(play):
    game = play(ACE(wait=True), importance=(1.0, 1.0), lr=1.0)
    assert game.round([1, 0], [2.0, 9.0]) == 0.0
    assert game.round([0, 1], [2.0, 6.0]) == pytest.approx(4.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(ACE(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


def test_what_clients_keep_has_no_age():
    with pytest.raises(ValueError, match="newest_within needs memory = 'server'"):
        ACE(newest_within=3, memory="clients")


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    check_against(Ace(), ACE(), pace, leaving)


@pytest.mark.parametrize(("pace", "leaving"), [CASES[0], CASES[2]])
@pytest.mark.variant
def test_new_words_alone_as_plain_loops(pace, leaving):
    check_against(Ace(within=5, divides=True), ACE(newest_within=5), pace, leaving)


@pytest.mark.variant
def test_words_on_the_clients_give_the_same_model():
    check_against(Ace(), ACE(memory="clients"), *CASES[0].values)
