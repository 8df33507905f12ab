import pytest

from turnout.strategies import StaleFill


def test_a_lost_upload_is_replaced_by_the_last_one(play):
    game = play(StaleFill(cohort=2, moves_when_empty=True), importance=(0.0, 1.0, 0.0))
    assert game.round([1, 1, 1], [0.0, 4.0, 0.0], arrived=[1, 0, 1]) == 0.0  # nothing to fill with yet
    assert game.round([1, 1, 1], [0.0, 4.0, 0.0]) == pytest.approx(4.0)
    assert game.round([1, 1, 1], [0.0, 9.0, 0.0], arrived=[1, 0, 1]) == pytest.approx(8.0)
    assert game.round([1, 0, 1], [0.0, 9.0, 0.0]) == pytest.approx(8.0)  # absent, so not drawn


def test_the_divisor_is_the_number_of_draws(play):
    game = play(StaleFill(cohort=3), importance=(1.0, 1.0, 2.0))
    game.round([1, 1, 1], [3.0, 6.0, 9.0])
    copies = {int(k): float(c) for k, c in zip(game.cohort.ids, game.cohort.copies, strict=True)}
    wanted = sum(copies.get(k, 0.0) * value for k, value in enumerate([3.0, 6.0, 9.0])) / 3
    assert sum(copies.values()) == 3
    assert float(game.state.params[0]) == pytest.approx(wanted)


def test_what_is_remembered_follows_the_learning_rate(play):
    game = play(StaleFill(cohort=1, moves_when_empty=True), importance=(1.0,), lr=0.1)
    game.round([1], [2.0])
    game.lr = 0.05
    assert game.round([1], [9.0], arrived=[0]) == pytest.approx(2.0 + 1.0)


def test_a_round_of_lost_uploads_alone_leaves_the_model(play):
    game = play(StaleFill(cohort=1), importance=(1.0,))
    game.round([1], [2.0])
    assert game.round([1], [9.0], arrived=[0]) == pytest.approx(2.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(StaleFill(cohort=2))
    before = game.round([1, 1, 1], [2.0, 4.0, 1.0])
    assert game.round([0, 0, 0], [1.0] * 3) == before


def test_a_cohort_that_the_fleet_cannot_fill_is_refused(play):
    with pytest.raises(ValueError, match="between 1 and the 3 clients"):
        play(StaleFill(cohort=4))
