import numpy as np
import pytest

import turnout
from turnout import durations
from turnout.paces import Pace
from turnout.theory import buffered_arrivals, clocked_arrivals, pace_arrivals, round_arrivals

WORLD = 0.6, 0.3, np.array([1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize(
    ("pace", "direct"),
    [
        (turnout.Buffered(size=2), lambda: buffered_arrivals(*WORLD, 2, exponent=0.5)),
        (turnout.Buffered(size=1, concurrency=4), lambda: buffered_arrivals(*WORLD, 1, 4, exponent=0.5)),
        (turnout.Clocked(every=3), lambda: clocked_arrivals(*WORLD, 3, exponent=0.5)),
        (turnout.Rounds(quorum=0.5, late="keep"), lambda: round_arrivals(*WORLD, 0.5, None, "keep", exponent=0.5)),
        (turnout.Rounds(deadline=4, concurrency=8), lambda: round_arrivals(*WORLD, 1.0, 4, exponent=0.5)),
    ],
)
def test_a_pace_has_its_formula(pace, direct):
    found, expected = pace_arrivals(pace, *WORLD, exponent=0.5), direct()
    assert type(found) is type(expected)
    assert found.rates == pytest.approx(expected.rates)
    assert found.discount == pytest.approx(expected.discount)


def test_durations_of_a_world_are_a_table():
    law = durations.lognormal(4, median=[1.0, 2.0, 4.0, 8.0], sigma=0.5, most=12.0)
    found = pace_arrivals(turnout.Clocked(every=2), 0.5, 0.0, law.law(np.ones(4)))
    assert (np.diff(found.rates) < 0).all()


class Never(Pace):
    def openings(self, state, at_work, num_clients):
        return at_work

    def due(self, state, tick, traffic):
        return tick < 0


@pytest.mark.parametrize(
    ("pace", "message"),
    [
        (turnout.Rounds(concurrency=4), "concurrency = 4 has no formula with Rounds; audit it"),
        (turnout.Clocked(every=2, concurrency=4), "concurrency = 4 has no formula with Clocked; audit it"),
        (turnout.Buffered(size=9), "size must be a whole number from 1 to the 8 clients"),
        (turnout.Rounds(deadline=1), "over before anybody can answer"),
        (Never(), "no formula for Never"),
    ],
)
def test_refuses(pace, message):
    with pytest.raises(ValueError, match=message):
        pace_arrivals(pace, *WORLD)
