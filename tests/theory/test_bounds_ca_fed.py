import numpy as np
import pytest

from turnout.theory import markov_bound
from turnout.theory.bounds_correlated import mixing_lags

CONSTANTS = {
    "local_steps": 2,
    "smoothness": 1.0,
    "diameter": 4.0,
    "gradient_bound": 3.0,
    "noisy_gradient_bound": 3.1,
    "loss_range": 4.5,
    "heterogeneity": 0.5,
    "noise": [0.3, 0.3],
    "num_states": 2,
    "mixing_rate": 0.75,
    "mixing_constant": 1.0,
}


def steps(rounds, first=0.1):
    return first / np.arange(1, rounds + 1) ** 0.75


def bound(rounds=100, **changed):
    return markov_bound([0.4, 0.6], [0.5, 0.5], steps(rounds), **(CONSTANTS | changed))


def test_by_hand():
    """Two rounds, E = 1, lags: ⌈ln(2t) / ln 4⌉ = 1, 1, so that nothing is warm-up."""
    found = markov_bound(
        [0.5],
        [1.0],
        [0.1, 0.05],
        local_steps=1,
        smoothness=1.0,
        diameter=2.0,
        gradient_bound=0.3,
        noisy_gradient_bound=0.4,
        loss_range=1.0,
        heterogeneity=0.5,
        noise=[0.2],
        num_states=2,
        mixing_rate=0.25,
        mixing_constant=1.0,
    )
    squares, length = 0.0125, 0.15
    assert found.named() == pytest.approx(
        {
            "distance": 4 / (2 * 0.5) / length,
            "noise": 0.5 * squares * 0.04 / length,
            "drift": 0.08 * squares / length,
            "heterogeneity": 2 * 2 * 1.5 * squares / length,
            "states": 0.5 * (squares + 1.25) / 0.5 / length,
            "warm_up": 0.0,
            "correlation": 2 * 0.12 * (0.01 + 0.01) / length,
        }
    )
    assert found.total == pytest.approx(sum(found.named().values()))
    assert found.ruling == "distance"


def test_lags_are_what_the_chain_needs():
    rounds = np.arange(1, 200)
    lag = mixing_lags(rounds, 4.5, 0.75, 1.0, 3)
    assert (0.75**lag <= 1 / (2 * 4.5 * rounds) + 1e-15).all()
    assert (lag >= 3).all()
    assert (mixing_lags(rounds, 1e-9, 0.75, 1.0) == 0).all()  # nothing to wait for where losses hardly differ


def test_all_terms_vanish_with_the_sum_of_steps():
    """Steps t^-3/4: S grows like T^¼, and no term keeps more than its sums."""
    few, many = bound(10**3), bound(10**6)
    ratio = steps(10**3).sum() / steps(10**6).sum()
    assert many.distance == pytest.approx(few.distance * ratio)
    for name in ("noise", "drift", "heterogeneity", "states"):
        assert many.named()[name] < few.named()[name], name
    assert many.correlation > 0
    assert many.warm_up + many.correlation < few.warm_up + few.correlation
    assert bound(10).correlation == 0  # too short to mix: all rounds are warm-up, and H is what can be said of them
    assert bound(10).warm_up == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("mixing_rate", 0.95),
        ("mixing_constant", 5.0),
        ("num_states", 8),
        ("noise", [1.0, 0.3]),
        ("heterogeneity", 2.0),
        ("diameter", 8.0),
    ],
)
def test_grows_with(name, more):
    assert bound(**{name: more}).total > bound().total


def test_measured_error_is_below():
    """Two clients that take turns as a chain says, F_k = ½ (w − e_k)², noisy gradients, projection on [-2, 2]."""
    generator = np.random.default_rng(0)
    centres, leave, runs, rounds = np.array([-1.0, 1.0]), np.array([0.3, 0.2]), 400, 300
    rates, q, eta = np.array([0.4, 0.6]), np.array([0.5, 0.5]), steps(rounds)
    state = (generator.uniform(size=runs) < rates[1]).astype(int)
    w, mean = np.full(runs, 2.0), np.zeros(runs)
    for step in eta:
        mean += step * w / eta.sum()
        local = w.copy()
        for _ in range(2):
            local -= step * (local - centres[state] + 0.3 * generator.standard_normal(runs))
        w = np.clip(w + q[state] * (local - w), -2, 2)
        state = np.where(generator.uniform(size=runs) < leave[state], 1 - state, state)
    best = rates @ centres  # weights are equal, so p = π
    error = ((mean - best) ** 2 / 2).mean()
    found = bound(rounds, heterogeneity=2.0)
    assert 0 < error < found.total


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"smoothness": 10.0}, r"steps\[0\] = 0.1 is too large: 1 / \(2L \(1 \+ 2EQ\)\) allows at most 0.01"),
        ({"mixing_rate": 1.0}, "mixing_rate must be a number above 0 and below 1"),
        ({"loss_range": 0.0}, "loss_range must be a finite number above 0, not 0.0"),
        ({"noise": [1.0]}, "noise has 1 values for 2 clients"),
        ({"local_steps": 0}, "local_steps must be a whole number from 1"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        bound(**change)


def test_refuses_growing_steps_and_idle_weights():
    with pytest.raises(ValueError, match="must not grow"):
        markov_bound([0.4, 0.6], [0.5, 0.5], [0.01, 0.02], **CONSTANTS)
    with pytest.raises(ValueError, match="πᵀq must be positive"):
        markov_bound([0.0, 0.6], [0.5, 0.0], [0.02, 0.01], **CONSTANTS)
