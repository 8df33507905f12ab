import numpy as np
import pytest

from turnout.strategies import CAFedAvg


def test_what_arrives_is_divided_by_the_success_of_its_link(play):
    game = play(CAFedAvg(cohort=2), importance=(0.0, 1.0, 1.0), success=[1.0, 0.25, 0.5])
    assert game.round([1, 1, 0], [5.0, 7.0, 5.0]) == pytest.approx(2 * 7.0 / 2 / 0.25)
    assert game.round([1, 0, 1], [5.0, 7.0, 3.0]) == pytest.approx(28.0 + 3.0 / 0.5)
    assert game.round([1, 1, 1], [5.0, 7.0, 3.0], arrived=[1, 0, 0]) == pytest.approx(34.0)


def test_an_empty_round_and_a_dead_link(play):
    game = play(CAFedAvg(cohort=2), start=4.0, success=[0.0, 0.0, 0.0])
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    game.round([1, 1, 1], [1.0] * 3)
    assert np.isfinite(np.asarray(game.cohort.weight)).all()
