from functools import partial

import numpy as np
import pytest

from turnout.strategies import MIFA

MOVING = partial(MIFA, moves_when_empty=True)  # the paper's


def test_the_table_counts_in_every_round(play):
    game = play(MOVING(), importance=(1.0, 3.0))
    assert game.round([1, 0], [2.0, 9.0]) == pytest.approx(0.5)
    assert game.round([0, 0], [9.0, 9.0]) == pytest.approx(1.0)
    assert game.round([1, 1], [4.0, 4.0]) == pytest.approx(5.0)


def test_entries_are_used_at_the_present_rate(play):
    game = play(MOVING(), importance=(1.0,), lr=0.1)
    game.round([1], [1.0])
    game.lr = 0.05
    assert game.round([0], [0.0]) == pytest.approx(1.0 + 0.5)


def test_waiting_until_everyone_has_come(play):
    game = play(MOVING(wait=True), importance=(1.0, 1.0))
    assert game.round([1, 0], [2.0, 9.0]) == 0.0
    assert game.round([1, 0], [4.0, 9.0]) == 0.0
    assert game.round([1, 1], [4.0, 6.0], arrived=[1, 0]) == 0.0
    assert game.round([0, 1], [9.0, 6.0]) == pytest.approx(5.0)
    assert game.round([0, 0], [9.0, 9.0]) == pytest.approx(10.0)


def test_nothing_remembered_moves_nothing(play):
    assert play(MOVING(), start=4.0).round([0, 0, 0], [1.0, 1.0, 1.0]) == 4.0


@pytest.mark.parametrize(("wait", "moves"), [(False, False), (False, True), (True, True)])
def test_as_a_naive_server(play, weather, wait, moves):
    table, seen = np.zeros(len(weather.importance)), np.zeros(len(weather.importance), bool)
    model = 0.0

    def naive(t, came):
        nonlocal model
        for k in np.flatnonzero(came):
            table[k] = -weather.pull(t, model)[k] / weather.lrs[t]
            seen[k] = True
        if (seen.all() or not wait) and (moves or came.any()):
            model = model - weather.lrs[t] * float(weather.target @ table)
        return model

    weather.compare(play(MIFA(wait=wait, moves_when_empty=moves), weather.importance), naive)
    assert seen.all()
