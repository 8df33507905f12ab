"""How long work takes is found where it is known, and nobody is called slow where nobody is."""

from dataclasses import replace

import numpy as np
import pytest
from timed_fleets import lines, lognormal, rows_of_rounds

from turnout.workbench.diagnosis.findings.lengths import length_parts
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.findings.work_times import work_times
from turnout.workbench.diagnosis.reading.log_file import read_log


@pytest.fixture
def found(file):
    """What is found in a log of these rows, clients by their numbers."""

    def of(rows):
        log = read_log(file(*lines(rows)))
        times, order = work_times(log, rates(log)), np.argsort(log.names.astype(int))
        return replace(times, median=times.median[order], slow=times.slow[order])

    return of


def fleet(between, count=60, middle=100.0, seed=5):
    return middle * np.exp(between * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize(("between", "within"), [(0.8, 0.4), (0.3, 0.6), (1.2, 0.0)])
def test_what_is_the_clients_and_what_is_drawn_anew(found, between, within):
    median = fleet(between)
    times = found(rows_of_rounds(lognormal(median, within), 40, pi=0.7))
    assert times.between == pytest.approx(np.log(median).std(), rel=0.1)
    assert times.within == pytest.approx(within, rel=0.05, abs=1e-5)
    error = np.log(times.median / median)
    assert np.sqrt((error**2).mean()) < 1.3 * within / np.sqrt(0.7 * 40) + 1e-5
    assert times.law == ("own and redrawn" if within else "own")
    assert times.typical == pytest.approx(np.median(median), rel=0.15)
    np.testing.assert_allclose(times.expected, times.recorded, rtol=0.2)


def test_one_way_analysis_by_hand():
    """Six clients with the logarithms 0, 2 or 4, 6: σ² = 2, Q = Σ n / σ² · 2² = 24, τ² = (24 - 5) / (6 - 1)."""
    client, values = np.repeat(np.arange(6), 2), np.tile([0.0, 2.0, 4.0, 6.0], 3)
    parts = length_parts(client, values, np.ones(12, bool), 6)
    assert parts.within**2 == pytest.approx(2.0)
    assert parts.between**2 == pytest.approx(3.8)
    assert parts.client == pytest.approx(3 + 3.8 / (3.8 + 1) * np.tile([-2, 2], 3))


def test_slow_clients_that_are_rare_are_found(found):
    median, pi = np.where(np.arange(40) < 26, 60.0, 420.0), np.where(np.arange(40) < 26, 0.9, 0.4)
    times = found(rows_of_rounds(lognormal(median, 0.4), 60, pi=pi))
    assert times.slow.tolist() == [False] * 26 + [True] * 14
    assert times.slow_are_rare
    everywhere = found(rows_of_rounds(lognormal(median, 0.4), 60, pi=0.7))
    assert everywhere.slow.sum() == 14
    assert not everywhere.slow_are_rare


def test_nobody_is_slow_where_all_are_alike(found):
    """Forty fleets: a test at 1 % may err once; medians drawn together keep within a factor of two even then."""
    differ = 0
    for seed in range(40):
        times = found(rows_of_rounds(lognormal(np.full(30, 60.0), 0.7), 6, pi=0.5, seed=seed))
        assert not times.slow.any()
        differ += times.differ
        if not times.differ:
            assert np.ptp(times.median) == 0
            assert times.law == "redrawn"
    assert differ <= 2
    same = found(rows_of_rounds(lognormal(np.full(30, 60.0), 0.0), 6))
    assert (same.law, same.slow.any()) == ("same", False)


def test_a_piece_of_work_per_client_does_not_tell_clients_apart(found):
    times = found(rows_of_rounds(lognormal(fleet(1.0), 0.1), 1))
    assert not times.differ
    assert not times.slow.any()


@pytest.mark.parametrize("quorum", [0.7, 0.9])
def test_late_answers_that_were_dropped_count_as_longer(found, quorum):
    """Left out, slow clients seem as quick as those that are heard."""
    median = fleet(0.7)
    times = found(rows_of_rounds(lognormal(median, 0.4), 80, quorum=quorum))
    assert times.given_up > 100
    late = median > np.quantile(median, 0.8)
    bias = np.log(times.median[late] / median[late])
    assert abs(bias.mean()) < 0.15
    assert times.between == pytest.approx(np.log(median).std(), rel=0.15)
    assert times.if_forgotten < times.typical


def test_time_that_goes_with_the_steps(file):
    """Two seconds per step of the median client, and five steps' time on the way."""
    draw, speed = np.random.default_rng(0), fleet(0.4, middle=2.0)
    rows = []
    for number in range(25):
        steps = draw.integers(5, 60, 60)
        seconds = speed * (5 + steps) * np.exp(0.1 * draw.standard_normal(60))
        rows += [(number, k, 200.0 * number, 200.0 * number + seconds[k], steps[k]) for k in range(60)]
    log = read_log(file(*lines(rows, "round,client,started,ended,steps")))
    times = work_times(log, rates(log))
    assert times.law == "steps"
    assert times.offset == pytest.approx(5, rel=0.5)
    assert times.within == pytest.approx(0.1, rel=0.15)
    mixed = [(*row[:4], int(draw.integers(5, 60))) for row in rows]
    log = read_log(file(*lines(mixed, "round,client,started,ended,steps")))
    assert work_times(log, rates(log)).law == "own and redrawn"
