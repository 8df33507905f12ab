import numpy as np
import pytest

from rules_in_time import FedStaleAsync as Twin
from slow_fleet import CASES, COUNT, check_against
from turnout.strategies import FedStaleAsync


def test_with_constants_it_is_fedstale(play):
    """x + Σ_S α/p Δ + β (Σ α h - Σ_S α/p h)."""
    game = play(FedStaleAsync(stale=0.5, rates=[0.5, 0.25]), importance=(1.0, 3.0), lr=1.0)
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(0.5 * 2.0)
    assert game.round([0, 1], [0.0, 1.0]) == pytest.approx(1.0 + 3.0 * 1.0 + 0.5 * 0.25 * 2.0)
    expected = 4.25 + 0.5 * 4.0 + 0.5 * (0.25 * 2.0 + 0.75 * 1.0 - 0.5 * 2.0)
    assert game.round([1, 0], [4.0, 0.0]) == pytest.approx(expected)


def test_hinges_and_the_mean_of_b_since_the_client_came(play):
    strategy = FedStaleAsync(stale=1.0, fresh_slope=1.0, stale_slope=1.0, within=1.0, rates=1.0)
    game = play(strategy, importance=(1.0, 1.0), lr=1.0)
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(1.0)
    # b of h_0 is 1 at age 1, then 1/2 at age 2; b̄ = 3/4
    assert game.round([0, 1], [0.0, 4.0]) == pytest.approx(1.0 + 1.0 + 2.0)
    # a of age 3 is 1/3; h_1 has age 1
    expected = 4.0 + 0.5 * (6.0 / 3 + 0.5 * 2.0 - 0.75 * 2.0) + 0.5 * 4.0
    assert game.round([1, 0], [6.0, 0.0], ages=[3, 0]) == pytest.approx(expected)


def test_rates_by_intervals(play):
    """Without memories it is inverse frequency: FedAU."""
    game = play(FedStaleAsync(stale=0.0), importance=(1.0, 1.0), lr=1.0)
    assert game.round([0, 1], [0.0, 2.0]) == pytest.approx(1.0)
    assert game.round([1, 1], [2.0, 2.0]) == pytest.approx(3.0)
    assert game.round([1, 0], [2.0, 0.0]) == pytest.approx(5.0)  # its first interval was two steps


def test_updates_are_remembered_per_unit_of_rate(play):
    game = play(FedStaleAsync(stale=1.0, rates=1.0), importance=(1.0,), lr=0.5)
    game.round([1], [2.0], rates=[0.25])
    assert game.round([1], [3.0]) == pytest.approx(0.5 * 8.0 + 3.0)


def test_an_empty_round_leaves_the_model(play):
    game = play(FedStaleAsync(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    before = game.round([1, 1, 0], [1.0] * 3)
    assert game.round([0, 0, 0], [1.0] * 3) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rates": [0.5, 0.5]}, "rates must be one number or 3"),
        ({"rates": [0.5, 0.0, 1.0]}, "rates must be above 0 and at most 1, not 0"),
        ({"stale": -1.0}, "stale must be a number of 0 or more"),
        ({"cutoff": 0.5}, "cutoff must be 1 round or more"),
    ],
)
def test_refused(play, wrong, message):
    with pytest.raises(ValueError, match=message):
        play(FedStaleAsync(**wrong))


def falling(age):
    return 1.0 if age <= 2 else 1 / (0.5 * (age - 2) + 1)


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops(pace, leaving):
    twin = Twin(falling, lambda age: 0.5 * falling(age))
    check_against(twin, FedStaleAsync(fresh_slope=0.5, stale_slope=0.5, within=2.0), pace, leaving)


@pytest.mark.variant
def test_known_rates_as_plain_loops():
    rates = np.linspace(0.2, 0.6, COUNT).tolist()
    check_against(
        Twin(lambda age: 1.0, lambda age: 0.8, rates), FedStaleAsync(stale=0.8, rates=rates), *CASES[0].values
    )
