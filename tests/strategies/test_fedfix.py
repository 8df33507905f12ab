import numpy as np
import pytest

import turnout
from rules_in_time import fedfix
from slow_fleet import CASES, check_against
from turnout.strategies import FedFix
from turnout.world import World, durations


def test_an_update_counts_by_its_beats(play):
    game = play(FedFix(), importance=(1.0, 3.0))
    assert game.round([1, 1], [2.0, 4.0], ages=[0, 2]) == pytest.approx(0.25 * 2.0 + 0.75 * 3 * 4.0)


def test_beats_that_are_known(play):
    game = play(FedFix(beats=[2.0, 3.0]), importance=(1.0, 3.0))
    assert game.round([1, 1], [2.0, 4.0], ages=[0, 9]) == pytest.approx(0.25 * 2 * 2.0 + 0.75 * 3 * 4.0)


def test_an_empty_first_round_leaves_the_model(play):
    assert play(FedFix(), start=4.0).round([0, 0, 0], [1.0] * 3) == 4.0


@pytest.mark.parametrize(
    ("beats", "message"),
    [([1.0], "beats must be 3 numbers"), ([1.0, 0.5, float("nan")], "a finite number of 1 or more, not 0.5")],
)
def test_wrong_beats_are_refused(play, beats, message):
    with pytest.raises(ValueError, match=message):
        play(FedFix(beats=beats))


def test_the_weights_are_the_targets_where_everybody_is_there():
    """Ticks 1, 3, 5, 7, 9 at a beat of 4 are 1, 1, 2, 2 and 3 beats, so that client k has weight b α_k once in b."""
    ticks, beats = [0, 2, 4, 6, 8], [1.0, 1.0, 2.0, 2.0, 3.0]
    task = turnout.tasks.quadratics(num_clients=5, dimension=2)
    scene = World(turnout.availability.bernoulli(5, 1.0), compute=1, durations=durations.fixed(5, ticks))
    trials = [turnout.Trial(FedFix(beats=b), scene, pace=turnout.Clocked(every=4)) for b in (None, beats)]
    for trial in trials:
        run = turnout.simulate(task, trial.world, trial.strategy, rounds=241, pace=trial.pace)
        np.testing.assert_allclose(run.clients["weight"][0] / 60, 0.2, rtol=0.02)


@pytest.mark.parametrize(("pace", "leaving"), [CASES[2].values, *CASES[1:2], *CASES[3:]])
def test_as_plain_loops(pace, leaving):
    check_against(fedfix, FedFix(), pace, leaving)
