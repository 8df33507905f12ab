import numpy as np
import pytest

from turnout.availability import bernoulli


def test_one_number_is_for_all():
    process = bernoulli(3, pi=0.25)
    assert process.num_clients == 3
    assert np.array_equal(process.stationary(), [0.25, 0.25, 0.25])
    assert np.array_equal(process.correlation(), [0.0, 0.0, 0.0])


def test_certain_and_impossible_clients(play):
    masks = play(bernoulli(2, pi=[0.0, 1.0]), rounds=50)
    assert not masks[..., 0].any()
    assert masks[..., 1].all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pi": 1.5}, r"client 0 has pi = 1.5, .* and 1 more: must lie in \[0, 1\]"),
        ({"pi": [0.1, -0.2, 0.3, 0.4]}, "client 1 has pi = -0.2: must lie"),
        ({"pi": [0.1, float("nan"), 0.3, 0.4]}, r"pi\[1\] must be a finite number, not nan"),
        ({"pi": [0.1, 0.2]}, "pi has 2 values for 4 clients: give one number, or one per client"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        bernoulli(4, **arguments)


def test_refuses_an_empty_fleet():
    with pytest.raises(ValueError, match="num_clients must be a whole number from 1"):
        bernoulli(0, pi=0.5)
