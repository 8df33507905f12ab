import numpy as np
import pytest

from turnout.availability import periodic


def chances(process, rounds):
    return np.stack([np.asarray(process.chance(t)) for t in range(rounds)])


def test_chance_is_the_rate_times_the_course(play, agree):
    process = periodic(4, rate=[0.1, 0.4, 0.9, 1.0], period=12, depth=0.4, cutoff=0.05)
    course = 0.4 * np.sin(2 * np.pi * np.arange(12) / 12) + 0.6
    expected = course[:, None] * np.array([0.1, 0.4, 0.9, 1.0])
    expected[expected < 0.05] = 0
    assert np.allclose(chances(process, 12), expected)
    assert np.allclose(chances(process, 24)[12:], expected)
    agree(play(process, rounds=24, seeds=1000), np.tile(expected, (2, 1)))


def test_a_staircase_falls_in_the_middle():
    assert np.allclose(chances(periodic(1, 0.5, period=4, course="staircase"), 4)[:, 0], [0.5, 0.5, 0.2, 0.2])


def test_a_course_of_ones_own_gives_the_period():
    assert np.allclose(chances(periodic(1, 1.0, course=[0.2, 0.4, 0.6]), 4)[:, 0], [0.2, 0.4, 0.6, 0.2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 1.2}, "client 0 has rate = 1.2"),
        ({"rate": 0.5, "course": [0.5, 1.5]}, "round 1 has 1.5"),
        ({"rate": 0.5, "depth": 0.6}, "depth"),
        ({"rate": 0.5, "course": "square"}, "course"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        periodic(2, **arguments)
