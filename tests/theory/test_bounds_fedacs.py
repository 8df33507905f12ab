import numpy as np
import pytest

from turnout.theory import (
    chi_square_to_effective,
    effective_importance_sampling,
    fedacs_bound,
    gradient_decomposition,
    largest_sampling_step,
    sampling_bound,
)

TARGET, FAILURE, REACH = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.4, 0.6]), np.array([1.0, 2.0, 4.0])
CONSTANTS = {"learning_rate": 0.01, "smoothness": 2.0, "dissimilarity": 3.0, "noise": 0.5, "gap": 6.0}


def bound(rounds=100, **changed):
    return sampling_bound(TARGET, FAILURE, REACH, rounds=rounds, **(CONSTANTS | changed))


def test_theorem_1_by_hand():
    u = 0.01 * 2 * 4
    length, received = 0.45 + 0.36 + 0.32, 0.45 + 0.18 + 0.08
    s = u + (u**2 + 2 * u**3) / (1 - 2 * u**2)
    assert bound().named() == pytest.approx(
        {
            "start": 24 / (0.01 * length * 100),
            "dissimilarity": 36 * s,
            "noise": 4 * 0.01 * 2 * 16 * 0.25 * received / length,
            "drift_noise": 0.25 * (2 * u**2 + 4 * u**3) / (1 - 2 * u**2),
        }
    )


def test_theorem_2_leaves_the_chi_square():
    effective = effective_importance_sampling(TARGET, FAILURE, REACH)
    limit = chi_square_to_effective(TARGET, effective) * 9
    found = [
        gradient_decomposition(TARGET, effective, bound(rounds, learning_rate=0.1 / np.sqrt(rounds)).total, 3.0)
        for rounds in (10**4, 10**8, 10**12)
    ]
    totals = [terms.total for terms in found]
    assert totals[0] > totals[1] > totals[2] > limit
    assert found[-1].inconsistency == pytest.approx(limit, rel=1e-3)
    assert found[1].surrogate == pytest.approx(found[0].surrogate / 100, rel=0.05)


def test_theorem_3_without_change_is_theorem_1_with_fedacs_odds():
    odds = TARGET / ((1 - FAILURE) * REACH)
    rows = np.tile(FAILURE, (100, 1)), np.tile(REACH, (100, 1))
    found = fedacs_bound(TARGET, *rows, **CONSTANTS)
    assert found.named() == pytest.approx(sampling_bound(odds, FAILURE, REACH, rounds=100, **CONSTANTS).named())


def test_theorem_3_by_hand_when_every_second_round_does_half_the_work():
    """One client with reach 2 and 1: B = 1, the terms of the rounds are weighed by 2 and 1 and divided by 2."""
    reaches = np.array([[2.0], [1.0]])
    found = fedacs_bound([1.0], np.zeros((2, 1)), reaches, **CONSTANTS)
    single = [sampling_bound([1.0], [0.0], row, rounds=1, **CONSTANTS) for row in reaches]
    assert found.start == pytest.approx(24 / (0.01 * 2))
    for name in ("dissimilarity", "noise", "drift_noise"):
        two, one = (terms.named()[name] for terms in single)
        assert found.named()[name] == pytest.approx((2 * two + one) / 2)


@pytest.mark.parametrize(("name", "more"), [("dissimilarity", 4.0), ("noise", 1.0), ("gap", 9.0), ("smoothness", 3.0)])
def test_grows_with(name, more):
    assert bound(**{name: more}).total > bound().total


def play(odds, failure, steps, smoothness, rate, sigma, rounds, draws=1, runs=400, start=2.0):
    """Mean ‖∇F̃‖² of FedAvg on F_m = ½L (x − e_m)², e = (1, −1, …), and κ² of that surrogate (β = 1)."""
    generator = np.random.default_rng(0)
    centres = np.where(np.arange(len(odds)) % 2, -1.0, 1.0)
    effective = effective_importance_sampling(odds, failure, np.asarray(steps, float))
    x, seen = np.full(runs, start), []
    for _ in range(rounds):
        seen.append(((smoothness * (x - effective @ centres)) ** 2).mean())
        total = np.zeros(runs)
        for _ in range(draws):
            drawn = generator.choice(len(odds), size=runs, p=odds)
            local = x.copy()
            for t in range(max(steps)):
                slope = smoothness * (local - centres[drawn]) + sigma * generator.standard_normal(runs)
                local -= np.where(t < np.asarray(steps)[drawn], rate * slope, 0.0)
            total += np.where(generator.uniform(size=runs) >= np.asarray(failure)[drawn], local - x, 0.0)
        x = x + total / draws
    variance = effective @ centres**2 - (effective @ centres) ** 2
    gap = smoothness * (start - effective @ centres) ** 2 / 2
    return np.mean(seen), smoothness * np.sqrt(variance), gap


@pytest.mark.parametrize(
    ("odds", "failure", "steps", "sigma", "draws"),
    [
        ([0.5, 0.5], [0.0, 0.0], [1, 1], 0.0, 1),
        ([0.5, 0.5], [0.1, 0.6], [1, 5], 1.0, 1),
        ([0.2, 0.3, 0.5], [0.1, 0.5, 0.0], [5, 2, 3], 2.0, 3),
    ],
)
@pytest.mark.parametrize("smoothness", [1.0, 100.0])
def test_measured_gradients_are_below_theorem_1(odds, failure, steps, sigma, draws, smoothness):
    rate = largest_sampling_step(np.array(steps, float), smoothness)
    error, kappa, gap = play(odds, failure, steps, smoothness, rate, sigma, 300, draws)
    found = sampling_bound(
        odds,
        failure,
        np.array(steps, float),
        learning_rate=rate,
        rounds=300,
        smoothness=smoothness,
        dissimilarity=float(kappa),
        noise=sigma,
        gap=float(gap),
    )
    assert 0 < error < found.total


def test_the_bound_as_printed_fails_for_large_smoothness():
    """The paper's second term η_eff τ_eff κ²/β² shrinks with the step although the noise floor is of size η L κ²."""
    smoothness, rounds = 1000.0, 3000
    rate = largest_sampling_step([1.0], smoothness)
    error, kappa, gap = play([0.5, 0.5], [0.0, 0.0], [1, 1], smoothness, rate, 0.0, rounds, runs=50)
    printed = 4 * gap / (rate * rounds) + rate * kappa**2
    assert error > 2 * printed


def test_largest_step_is_where_the_condition_binds():
    u = largest_sampling_step([1.0, 3.0], 2.0, dissimilarity_slope=1.5) * 2 * 3
    assert 1.5**2 * (u + (u**2 + 2 * u**3) / (1 - 2 * u**2)) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bound(learning_rate=1.0), "learning_rate = 1 is too large: .* allows at most 0.0"),
        (lambda: bound(dissimilarity_slope=0.5), "β is at least 1"),
        (lambda: sampling_bound([1.0], [1.0], [1.0], rounds=1, **CONSTANTS), "no update ever gets through"),
        (lambda: fedacs_bound([1.0], np.ones((1, 1)), np.ones((1, 1)), **CONSTANTS), "never gets through"),
        (lambda: fedacs_bound([1.0], np.ones((2, 1)), np.ones((1, 1)), **CONSTANTS), "one row per round"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
