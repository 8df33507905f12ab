import numpy as np
import pytest

from turnout.theory import correlated_fedavg_bound

ODDS = np.array([0.25, 0.25, 0.5])
RATES = np.array([0.3, 0.3, 0.4])
CONSTANTS = {"local_steps": 2, "mixing_time": 2, "smoothness": 1.0, "dissimilarity": 1.0, "gap": 2.0}


def bound(participation=RATES, rounds=4096, learning_rate=2e-6, **changed):
    return correlated_fedavg_bound(participation, learning_rate=learning_rate, rounds=rounds, **(CONSTANTS | changed))


@pytest.mark.parametrize(("smoothness", "dissimilarity"), [(1.0, 1.0), (0.5, 3.0)])
def test_by_hand(smoothness, dissimilarity):
    """T = 4096: half its binary logarithm is 6, so τ = 12."""
    square = dissimilarity**2
    assert bound(smoothness=smoothness, dissimilarity=dissimilarity).named() == pytest.approx(
        {
            "start": 8 / (2e-6 * 2 * 4084),
            "warm_up": 40 / 9 * 12 / 4084 * square,
            "drift": 64e-6 * 2 * (17 * 12 + 9) * smoothness * square,
            "mixing": 16 / 4096 * square,
            "bias": 4 * (2 / 15) ** 2 * square,
        }
    )


def test_only_the_bias_stays():
    """α ∝ 1/√T: the rest falls like log T / √T, the bias not at all; uniform participation has none."""
    few, many = (bound(rounds=4**n, learning_rate=0.005 / 2**n) for n in (9, 16))
    assert many.bias == few.bias > 0
    assert many.total - many.bias < (few.total - few.bias) * 2**-7 * 2
    assert bound([1, 1, 1]).bias == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize(
    ("name", "more"), [("mixing_time", 20), ("dissimilarity", 2.0), ("gap", 3.0), ("participation", [0.2, 0.2, 0.6])]
)
def test_grows_with(name, more):
    assert bound(**{name: more}).total > bound().total


def test_measured_gradients_are_below():
    """Three clients ½ (x − i)², B = R = 1: after taking part a client rests one round."""
    chain = np.where(np.eye(3, dtype=bool), 0, ODDS) / (1 - ODDS)[:, None]
    mixing = next(t for t in range(1, 50) if np.abs(np.linalg.matrix_power(chain, t) - RATES).sum(1).max() / 2 <= 0.25)
    rounds, runs, local = 4096, 200, 2
    tau = mixing * 6
    rate = 1 / (1696 * local * tau)
    generator = np.random.default_rng(0)
    x, seen, state = np.zeros(runs), [], generator.choice(3, size=runs, p=ODDS)
    ladder = chain.cumsum(1)
    for _ in range(rounds):
        seen.append(((x - 2) ** 2).mean())
        x = (1 - rate) ** local * (x - (state + 1)) + state + 1
        state = np.minimum((generator.uniform(size=(runs, 1)) > ladder[state]).sum(1), 2)
    found = bound(mixing_time=mixing, learning_rate=rate, gap=2.0)
    assert 0 < np.mean(seen[: rounds - tau]) < found.total


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.1}, r"learning_rate = 0.1 is too large: 1 / \(1696 K L τ\) allows at most 2.45676e-05"),
        ({"rounds": 8, "mixing_time": 4}, "needs τ = 8 rounds to mix"),
        ({"gap": -1.0}, "gap must be a finite number of 0 or more, not -1.0"),
        ({"mixing_time": 0}, "mixing_time must be a whole number from 1 to 2³¹ - 1, not 0"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        bound(**change)
