import numpy as np
import pytest

from turnout.availability import alternating


def test_two_clients_of_the_paper(play):
    process = alternating(2, t1=3, t2=2)
    assert play(process, rounds=7)[0].argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert np.allclose(process.stationary(), [0.6, 0.4])


def test_group_of_each_client():
    assert np.allclose(alternating(4, t1=3, t2=1, groups=[1, 0, 1, 1]).stationary(), [0.25, 0.75, 0.25, 0.25])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t1": 0, "t2": 1}, "t1 must be a whole number from 1"),
        ({"t1": 1, "t2": 1, "groups": [0, 1, 2]}, "groups are numbered 0 to 2: there must be two"),
        ({"t1": 1, "t2": 1, "groups": [0, 0, 0]}, "there must be two, 0 and 1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        alternating(3, **arguments)
