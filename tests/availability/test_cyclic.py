import numpy as np
import pytest

from turnout.availability import cyclic


def test_groups_take_turns(play):
    masks = play(cyclic(3, groups=3, turn=2), rounds=8)[0]
    assert masks.argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 0, 0]
    assert (masks.sum(axis=1) == 1).all()


def test_offset_and_duration_of_each_client(play):
    process = cyclic(3, period=4, offset=[0, 3, 1], duration=[1, 2, 4])
    masks = play(process, rounds=4)[0].astype(int)
    assert masks.T.tolist() == [[1, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]]
    assert np.allclose(process.stationary(), [0.25, 0.5, 1.0])
    assert np.allclose(process.correlation(), [-1 / 3, 0.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give groups"),
        ({"groups": 2, "period": 4}, "but not both"),
        ({"period": 4}, "give groups"),
        ({"groups": 2, "turn": 0}, "turn must be a whole number from 1"),
        ({"period": 4, "duration": [1, 5, 1]}, "client 1 has duration = 5: must be at most the period 4"),
        ({"period": 4, "duration": 0}, "duration = 0"),
        ({"period": 4, "duration": 1, "offset": [0, 0, 4]}, "client 2 has offset = 4: must be below the period 4"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        cyclic(3, **arguments)
