import pytest

from turnout.theory import alternating_limit


def limit(rate, t1, t2, centres=(2.0, 10.0)):
    return alternating_limit(learning_rate=rate, first_stay=t1, second_stay=t2, centres=centres)


@pytest.mark.parametrize(("t1", "t2"), [(1, 1), (3, 1), (2, 5)])
def test_as_the_paper_prints_it(t1, t2):
    e1, e2, s = 2.0, 10.0, 1 - 2 * 0.1
    printed = (s**t2 * (e1 - e2) + e2 - e1 * s ** (t1 + t2)) / (1 - s ** (t1 + t2))
    assert limit(0.1, t1, t2) == pytest.approx(printed, rel=1e-12)


def test_it_is_the_fixed_point_of_a_period():
    x = limit(0.2, 3, 2)
    after = x
    for centre in (2.0, 2.0, 2.0, 10.0, 10.0):
        after -= 0.2 * 2 * (after - centre)
    assert after == pytest.approx(x, rel=1e-12)


def test_small_steps_weigh_by_time():
    assert limit(1e-12, 3, 1) == pytest.approx((3 * 2 + 10) / 4, rel=1e-9)


def test_a_rate_that_overshoots_is_refused():
    with pytest.raises(ValueError, match=r"learning_rate = 0\.5 is too large"):
        limit(0.5, 1, 1)
