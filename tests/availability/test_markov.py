import numpy as np
import pytest

from turnout.availability import markov

PI, LAM = np.array([0.2, 0.5, 0.5, 0.9]), np.array([0.6, 0.9, -0.5, 0.3])


@pytest.fixture(scope="module")
def masks(play):
    return play(markov(4, pi=PI.tolist(), lam=LAM.tolist()), rounds=300, seeds=400, key=3)


def test_rates_of_change_by_hand():
    process = markov(1, pi=0.5, lam=0.9)
    assert process.wake[0] == pytest.approx(0.05)
    assert 1 - process.sleep[0] == pytest.approx(0.95)


def test_both_ways_of_building_agree():
    one, other = markov(2, pi=[0.25, 0.5], lam=0.2), markov(2, wake=[0.2, 0.4], sleep=[0.6, 0.4])
    assert np.allclose(one.wake, other.wake)
    assert np.allclose(one.sleep, other.sleep)
    assert np.allclose(other.stationary(), [0.25, 0.5])
    assert np.allclose(other.correlation(), 0.2)


def test_without_lam_there_is_no_memory():
    assert np.allclose(markov(2, pi=0.3).correlation(), 0.0)


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_autocorrelation_at_lag_s_is_lam_to_the_s(masks, agree, lag):
    together = (masks[:, lag:] & masks[:, :-lag]).mean(axis=1)
    agree(together, PI**2 + LAM**lag * PI * (1 - PI))


def test_mean_run_of_availability(masks, agree):
    # A run ends with probability (1 - λ)(1 - π), so per round on there is that share of ends.
    ends = (masks[:, :-1] & ~masks[:, 1:]).mean(axis=1)
    mean_run = 1 / ((1 - LAM) * (1 - PI))
    agree(ends, PI / mean_run)


def test_least_lam_alternates(play):
    masks = play(markov(1, pi=0.5, lam=-1.0), rounds=20)[0, :, 0]
    assert (masks[1:] != masks[:-1]).all()


def test_always_available(play):
    process = markov(2, pi=[1.0, 0.5], lam=0.0)
    assert np.allclose(process.stationary(), [1.0, 0.5])
    assert play(process, rounds=30)[..., 0].all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pi": [0.5, 0.9, 0.5], "lam": -0.5}, r"client 1 has lam = -0.5 with pi = 0.9, where .* in \[-0.1111, 1\)"),
        ({"pi": 0.5, "lam": 1.0}, r"lam = 1 with pi = 0.5, where lam must lie in \[-1, 1\)"),
        ({"pi": [0.5, 0.0, 0.5], "lam": 0.0}, r"client 1 has pi = 0: must lie in \(0, 1\)"),
        ({"pi": [0.5, 0.5, 1.0], "lam": 0.5}, "client 2 has pi = 1 and lam = 0.5: .*always available has lam = 0"),
        ({"wake": 0.0, "sleep": 0.5}, r"client 0 has wake = 0.* must lie in \(0, 1\]"),
        ({"wake": 0.5, "sleep": [0.1, 1.1, 0.1]}, r"client 1 has sleep = 1.1: must lie in \[0, 1\]"),
        ({"wake": 0.5, "sleep": 0.0}, "sleep = 0 and wake = 0.5.* a client that is always available has wake = 1"),
        ({"pi": 0.5, "wake": 0.5}, "pi, wake given: give pi and lam, or wake and sleep"),
        ({"lam": 0.5}, "lam given: give pi and lam"),
        ({}, "nothing given"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        markov(3, **arguments)
