import numpy as np
import pytest

from turnout.theory import fedlaavg_alternating_bound, fedlaavg_bound, fedlaavg_learning_rate, longest_staleness

CONSTANTS = {
    "learning_rate": 0.01,
    "rounds": 100,
    "num_clients": 4,
    "staleness": 3,
    "smoothness": 2.0,
    "gradient_bound": 5.0,
    "noise": 1.0,
    "gap": 7.0,
}
CURVATURE, CENTRES = np.array([2.0, 1.0, 0.5, 1.5]), np.array([3.0, -1.0, 0.0, 1.0])


def gradient(x):
    return CURVATURE * (x[..., None] - CENTRES)


def test_theorem_2_by_hand():
    assert fedlaavg_bound(**CONSTANTS).named() == pytest.approx(
        {
            "start": 28.0,
            "noise": 0.02,
            "stale_noise": 2 * 0.01 * 3 * 2 * 26 / 2,
            "staleness": (18 / 0.96 + 36) * 1e-4 * 4 * 25,
        }
    )


def test_theorem_3_by_hand():
    found = fedlaavg_bound(local_steps=5, **CONSTANTS)
    assert found.start == pytest.approx(28 / 5)
    assert found.stale_noise == pytest.approx(5 * 2 * 0.01 * 3 * 2 * 26 / 2)
    assert found.staleness == pytest.approx((2 * 225 / 0.96 + 2 * 225 + 2 * 400) * 1e-4 * 4 * 25)
    fresh = fedlaavg_bound(local_steps=5, **(CONSTANTS | {"staleness": 0}))
    assert fresh.staleness == pytest.approx((2 * 64 + 2 * 25) * 1e-4 * 4 * 25)


def test_the_suggested_rate_gives_the_stated_order():
    """O(T^-½) at fixed N: four times the rounds halve the bound once staleness no longer rules."""
    constants = {name: value for name, value in CONSTANTS.items() if name not in ("learning_rate", "rounds")}

    def at(rounds):
        rate = fedlaavg_learning_rate(rounds=rounds, num_clients=4, cohort=1, longest_absence=1, smoothness=2.0)
        return fedlaavg_bound(learning_rate=rate, rounds=rounds, **constants).total

    assert at(4 * 10**8) == pytest.approx(at(10**8) / 2, rel=1e-2)
    rate = fedlaavg_learning_rate(
        rounds=100, num_clients=16, cohort=4, longest_absence=9, smoothness=2.0, local_steps=5
    )
    assert rate == pytest.approx(0.5 * 2 / (2 * 2 * 5 * 3 * 10))


@pytest.mark.parametrize(
    ("name", "more"), [("staleness", 4), ("noise", 2.0), ("gradient_bound", 6.0), ("gap", 8.0), ("smoothness", 3.0)]
)
def test_grows_with(name, more):
    assert fedlaavg_bound(**(CONSTANTS | {name: more})).total > fedlaavg_bound(**CONSTANTS).total


def test_longest_staleness():
    assert longest_staleness(100, 10, 3) == 29
    assert longest_staleness(5, 2, 1) == 2
    assert longest_staleness(4, 4, 1) == 0


@pytest.mark.parametrize("rate", [0.2, 0.05, 0.01])
def test_measured_gradients_are_below_theorem_2(rate):
    """One client of four per round, in turn: no gradient is older than three rounds."""
    generator = np.random.default_rng(0)
    runs, rounds, sigma = 300, 400, 0.5
    x = np.full(runs, 6.0)
    memory = gradient(x) + sigma * generator.standard_normal((runs, 4))
    seen, steepest = [], 0.0
    gap = (CURVATURE * ((6 - CENTRES) ** 2)).mean() / 2 - np.min(
        [(CURVATURE * (y - CENTRES) ** 2).mean() / 2 for y in np.linspace(-2, 4, 6001)]
    )
    for t in range(rounds):
        now = gradient(x)
        seen.append((now.mean(1) ** 2).mean())
        steepest = max(steepest, float((now**2).mean(0).max()))
        memory[:, t % 4] = now[:, t % 4] + sigma * generator.standard_normal(runs)
        x = x - rate * memory.mean(1)
    found = fedlaavg_bound(
        learning_rate=rate,
        rounds=rounds,
        num_clients=4,
        staleness=3,
        smoothness=2.0,
        gradient_bound=float(np.sqrt(steepest + sigma**2)),
        noise=sigma,
        gap=float(gap),
    )
    assert 0 < np.mean(seen) < found.total


def test_measured_gradients_are_below_theorem_3_when_all_take_part():
    local, rounds, rate = 10, 200, 0.02
    x, seen, steepest = np.array(6.0), [], 0.0
    for _ in range(rounds):
        own, last = np.full(4, float(x)), x
        for _ in range(local):
            slope = CURVATURE * (own - CENTRES)
            steepest = max(steepest, float(np.abs(slope).max()))
            last = own.mean()
            own = own - rate * slope
        seen.append(gradient(np.array(last)).mean() ** 2)
        x = own.mean()
    best = (CURVATURE @ CENTRES) / CURVATURE.sum()
    found = fedlaavg_bound(
        learning_rate=rate,
        rounds=rounds,
        local_steps=local,
        num_clients=4,
        staleness=0,
        smoothness=2.0,
        gradient_bound=steepest,
        noise=0.0,
        gap=float(CURVATURE.mean() * (6 - best) ** 2 / 2),
    )
    assert 0 < np.mean(seen) < found.total


@pytest.mark.parametrize(("stays", "start"), [((3, 5), 4.0), ((1, 10), -7.0), ((20, 2), 0.5)])
def test_two_alternating_clients(stays, start):
    rounds, centres = 900, (1.0, -2.0)
    rate = 1 / (2 * np.sqrt(rounds))
    found = fedlaavg_alternating_bound(
        learning_rate=rate, rounds=rounds, first_stay=stays[0], second_stay=stays[1], centres=centres, start=start
    )
    assert found.start == pytest.approx((start + 0.5) ** 2 / 30)
    slope = max(2 * abs(start + 0.5), 3)
    assert found.staleness == pytest.approx(max(stays) ** 2 * slope**2 / 3600)
    x, memory, best = start, [2 * (start - e) for e in centres], np.inf
    for t in range(rounds):
        best = min(best, (x + 0.5) ** 2)
        here = int(t % sum(stays) >= stays[0])
        memory[here] = 2 * (x - centres[here])
        x -= rate * sum(memory) / 2
    assert best < found.total


def test_refuses_long_steps():
    with pytest.raises(ValueError, match=r"learning_rate = 0.25 is too large: γ < 1/\(2L\) allows at most 0.25"):
        fedlaavg_bound(**(CONSTANTS | {"learning_rate": 0.25}))
    with pytest.raises(ValueError, match=r"the two-client example allows at most 0\.5"):
        fedlaavg_alternating_bound(
            learning_rate=0.6, rounds=10, first_stay=1, second_stay=1, centres=(0.0, 1.0), start=0.0
        )
    with pytest.raises(ValueError, match="staleness must be a whole number from 0"):
        fedlaavg_bound(**(CONSTANTS | {"staleness": -1}))
