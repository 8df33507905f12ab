import numpy as np
import pytest

from turnout.statistics import Interval, student_factor

SAMPLES = 20_000


def coverage(samples, mean):
    """Share of the samples, one per row, whose interval holds the mean."""
    count = samples.shape[1]
    half = student_factor(count - 1) * samples.std(axis=1, ddof=1) / np.sqrt(count)
    return float(np.mean(np.abs(samples.mean(axis=1) - mean) <= half))


@pytest.mark.parametrize(("seeds", "skewed"), [(5, 0.82), (10, 0.84), (20, 0.87)])
def test_intervals_cover_as_often_as_the_docs_say(seeds, skewed):
    rng = np.random.default_rng(0)
    lognormal = [np.exp(rng.standard_normal((SAMPLES, seeds))) for _ in range(2)]
    assert coverage(rng.standard_normal((SAMPLES, seeds)), 0.0) == pytest.approx(0.95, abs=0.01)
    assert coverage(lognormal[0], np.exp(0.5)) == pytest.approx(skewed, abs=0.01)
    assert 0.955 < coverage(lognormal[0] - lognormal[1], 0.0) < 0.985


def test_the_interval_is_the_one_that_was_measured():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    interval = Interval.of(values)
    assert coverage(values[None], interval.low + 1e-9) == 1
    assert coverage(values[None], interval.low - 1e-9) == 0
