import numpy as np
import pytest

from turnout.availability import two_classes


def test_the_world_of_the_paper():
    process = two_classes(100)
    pi, lam = np.asarray(process.stationary()), np.asarray(process.correlation())
    assert np.allclose(pi, np.repeat([0.9, 0.1], 50))
    correlated = np.repeat([True, False, True, False], 25)
    assert np.allclose(lam[correlated], 0.9)
    assert (np.abs(lam[~correlated]) < 0.05).all()
    assert 0.005 < lam[~correlated].std() < 0.015


def test_three_groups_of_the_figure():
    lam = np.asarray(two_classes(40, split="unavailable_only").correlation())
    assert (np.abs(lam[:20]) < 0.05).all()
    assert np.allclose(lam[20:30], 0.9)
    assert (np.abs(lam[30:]) < 0.05).all()


def test_odd_clients_go_to_the_earlier_part():
    process = two_classes(7, lam_noise=0.0)
    assert np.allclose(process.stationary(), [0.9] * 4 + [0.1] * 3)
    assert np.allclose(process.correlation(), [0.9, 0.9, 0.0, 0.0, 0.9, 0.9, 0.0], atol=1e-6)


def test_small_correlations_stay_feasible():
    lam = np.asarray(two_classes(2000, lam_noise=0.5).correlation())
    assert (lam >= -1 / 9 - 1e-6).all()
    assert lam[lam != 0.9].min() < -0.1


def test_seed_and_shuffle():
    plain, shuffled = two_classes(50, seed=3), two_classes(50, seed=3, shuffle=True)
    assert np.array_equal(plain.wake, two_classes(50, seed=3).wake)
    assert not np.array_equal(plain.wake, two_classes(50, seed=4).wake)
    assert not np.array_equal(plain.wake, shuffled.wake)
    assert np.array_equal(np.sort(plain.wake), np.sort(shuffled.wake))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gap": 0.5}, r"mean = 0.5, gap = 0.5: .* inside \(0, 1\)"),
        ({"gap": -0.1}, "gap must be a finite number of 0 or more"),
        ({"lam": 1.0}, r"lam = 1: .* must lie in \[-0.1111, 1\)"),
        ({"lam": -0.5}, r"must lie in \[-0.1111, 1\)"),
        ({"lam_noise": -1.0}, "lam_noise must be a finite number of 0 or more, not -1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        two_classes(10, **arguments)
