import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from turnout.theory import fastest_weights, trade_off_weights


def fastest_value(rates, noise, offset, q):
    """What `fastest_weights` minimises."""
    return (noise @ q**2 / 2 + offset) / (rates @ q)


def instance(seed, most=6):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, most + 1))
    rates = generator.uniform(0.02, 1, count)
    noise = np.exp(1.5 * generator.standard_normal(count))
    offset, total = np.exp(3 * generator.standard_normal()), np.exp(generator.standard_normal())
    target = generator.dirichlet(np.ones(count)) + 1e-3
    return rates, noise, float(offset), float(total), target / target.sum(), generator


def by_scipy(objective, starts, total, lowest):
    best = np.inf
    for start in starts:
        found = minimize(
            objective,
            start,
            method="SLSQP",
            bounds=[(lowest, None)] * len(start),
            constraints={"type": "eq", "fun": lambda q: q.sum() - total},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        q = np.maximum(found.x, lowest)
        best = min(best, objective(q * total / q.sum()))
    return best


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_problem_212_against_scipy(seed):
    rates, noise, offset, total, _, generator = instance(seed)
    found = fastest_weights(rates, noise, offset, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-12)
    starts = [np.full(rates.size, total / rates.size), total * generator.dirichlet(np.ones(rates.size))]
    best = by_scipy(lambda q: fastest_value(rates, noise, offset, q), starts, total, 0.0)
    assert fastest_value(rates, noise, offset, found) <= best * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_problem_212_meets_its_optimality_conditions(seed):
    rates, noise, offset, total, _, _ = instance(seed, most=40)
    q = fastest_weights(rates, noise, offset, total)
    iota = fastest_value(rates, noise, offset, q)
    price = iota * rates - noise * q  # θ where q > 0, at most θ elsewhere
    theta = price[q > 0].mean()
    scale = iota + abs(theta)
    assert price[q > 0] == pytest.approx(theta, abs=1e-9 * scale)
    assert (price <= theta + 1e-9 * scale).all()
    assert theta * total == pytest.approx(offset - noise @ q**2 / 2, abs=1e-8 * (offset + noise @ q**2))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_more_available_clients_count_more_at_equal_noise(seed):
    rates, _, offset, total, _, _ = instance(seed, most=40)
    q = fastest_weights(rates, np.ones(rates.size), offset, total)
    assert (np.diff(q[np.argsort(rates)]) >= -1e-12 * total).all()


def test_noise_in_proportion_to_availability_can_turn_the_order_round():
    """A_k = 2(E+1) σ² π_k Σ η²: q_k = ι' − θ'/π_k grows with π_k only while θ > 0, that is while ½ qᵀAq < B."""
    rates = np.array([0.1, 0.5, 1.0])
    assert (np.diff(fastest_weights(rates, rates, 10.0, 1.0)) > 0).any()
    assert (np.diff(fastest_weights(rates, rates, 0.0, 1.0)) < 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(-6, 6))
def test_problem_14_against_scipy(seed, log_bias):
    rates, noise, offset, total, target, _ = instance(seed, most=5)
    bias = float(np.exp(log_bias))
    found = trade_off_weights(rates, noise, offset, total, target, bias)
    assert found.sum() == pytest.approx(total, rel=1e-12)

    def objective(q):
        p = rates * q / (rates @ q)
        return fastest_value(rates, noise, offset, q) + bias * ((target - p) ** 2 / p).sum()

    unbiased = target / rates
    starts = [np.full(rates.size, total / rates.size), total * unbiased / unbiased.sum(), found]
    best = by_scipy(objective, starts, total, 1e-9 * total)
    assert objective(found) <= best * (1 + 1e-9)


def test_the_limits_of_the_trade_off():
    rates, noise, offset, total, target, _ = instance(11, most=6)
    fast = fastest_weights(rates, noise, offset, total)
    assert trade_off_weights(rates, noise, offset, total, target, 1e-13) == pytest.approx(fast, abs=1e-4 * total)
    unbiased = target / rates * total / (target / rates).sum()
    assert trade_off_weights(rates, noise, offset, total, target, 1e12) == pytest.approx(unbiased, rel=1e-6)


def test_equal_clients_share_alike():
    assert fastest_weights([0.5] * 4, [2.0] * 4, 1.0, 2.0) == pytest.approx([0.5] * 4)
    assert trade_off_weights([0.5] * 4, [2.0] * 4, 1.0, 2.0, [1] * 4, 3.0) == pytest.approx([0.5] * 4)
    assert fastest_weights([0.3], [1.0], 1.0, 2.0) == pytest.approx([2.0])


def test_large_fleets():
    generator = np.random.default_rng(0)
    rates, noise = generator.uniform(0.02, 1, 10**5), np.exp(generator.standard_normal(10**5))
    q = fastest_weights(rates, noise, 3.0, 1.0)
    assert q.sum() == pytest.approx(1)
    trade_off_weights(rates[:5000], noise[:5000], 3.0, 1.0, np.ones(5000), 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 0.5], [1, 1], 1.0, 1.0), "client 0 has rates = 0: must be positive"),
        (([0.5, 2.0], [1, 1], 1.0, 1.0), "an availability is at most 1"),
        (([0.5, 0.5], [1, 0], 1.0, 1.0), "client 1 has noise = 0: must be positive"),
        (([0.5, 0.5], [1, 1], 1.0, 0.0), "total = 0.0: must be positive"),
        (([0.5, 0.5], [1, 1], -1.0, 1.0), "offset = -1.0"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        fastest_weights(*arguments)
    with pytest.raises(ValueError, match=message):
        trade_off_weights(*arguments, [1, 1], 1.0)
