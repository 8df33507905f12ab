import numpy as np
import pytest

from turnout.availability import bounded_absence


def test_nobody_is_away_for_long(played, examples):
    masks = played(examples["bounded_absence"])
    for client, within in enumerate([4, 10, 3, 5, 1, 20]):
        seen = np.lib.stride_tricks.sliding_window_view(masks[..., client], within, axis=1)
        assert seen.any(axis=-1).all()


def test_law_by_hand():
    # p = ½, E = 3: the gap is 1, 2, 3 with probability ½, ¼, ¼, on average 7/4.
    process = bounded_absence(3, chance=[0.5, 0.0, 1.0], within=3)
    assert np.allclose(process.stationary(), [4 / 7, 1 / 3, 1.0])
    assert np.allclose(process.correlation(), [(0.5 - 4 / 7) / (3 / 7), -0.5, 0.0], atol=1e-6)


def test_who_must_come_every_round_has_no_correlation():
    process = bounded_absence(3, chance=[0.0, 0.3, 1.0], within=1)
    assert np.array_equal(process.stationary(), np.ones(3))
    assert np.array_equal(process.correlation(), np.zeros(3))


def test_law_is_exact_for_rare_clients():
    p, within = 1e-4, 1000
    exact = p / -np.expm1(within * np.log1p(-p))
    assert bounded_absence(1, chance=p, within=within).stationary()[0] == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chance": 1.5, "within": 3}, "client 0 has chance = 1.5"),
        ({"chance": 0.5, "within": [3, 0]}, "client 1 has within = 0: must be a whole number of at least 1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        bounded_absence(2, **arguments)
