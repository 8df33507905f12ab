"""Cycles are found whatever the phases, and persistence is not taken for one."""

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.cycles import cycles
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log

CLIENTS, SLOTS, DAY = 60, 700, 48
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.2, 0.8, CLIENTS), DRAW.uniform(0, 0.95, CLIENTS)


def daily(zone, peak=0.25, swing=0.6):
    """Chances with a daily cosine whose height is at a share `peak` of the day, later by `zone`."""
    when = np.arange(SLOTS)[:, None] / DAY
    return PI + swing * np.minimum(PI, 1 - PI) * np.cos(2 * np.pi * (when - peak - zone))


def found_in(present, clock=None, start=0.0, watched=None):
    log = Log.from_matrix(present, watched=watched, slot_seconds=clock, clock_start=start)
    return cycles(log, rates(log))


def test_a_day_is_found_with_its_strength_and_height(chains):
    found = found_in(chains(0, daily(0.0), LAM, SLOTS), 86400 / DAY, start=6 * 3600.0)
    day = found.daily
    assert found.unnamed is None
    assert day.found
    assert day.variance_share > 0.6
    assert day.peak == pytest.approx(12, abs=1)  # six hours after six o'clock
    assert day.amplitude == pytest.approx(0.6 * np.minimum(PI, 1 - PI).mean(), rel=0.25)
    assert abs(np.argmax(day.profile) - 12) <= 2
    assert day.cyclic.mean() > 0.5


def test_zones_hide_a_day_from_the_fleet_but_not_from_us(chains):
    zone = np.arange(CLIENTS) / CLIENTS
    day = found_in(chains(1, daily(zone), LAM * 0.5, SLOTS), 86400 / DAY).daily
    assert day.found
    assert day.amplitude < 0.1
    off = np.mod(day.client_peak - 24 * (0.25 + zone) + 12, 24) - 12
    assert np.median(np.abs(off[day.cyclic])) < 1.5


@pytest.mark.parametrize("zoned", [False, True])
def test_any_period_is_found_without_a_clock(chains, zoned):
    zone = np.arange(CLIENTS) / CLIENTS if zoned else 0.0
    found = found_in(chains(2, daily(zone), LAM, SLOTS)).unnamed
    assert found.found
    assert found.period == pytest.approx(DAY, abs=0.5)


def test_what_is_no_cycle_is_not_found(chains):
    """Persistent clients, slow ones, and clusters of them: p-values must be as spread as they say."""
    small = []
    for seed in range(24):
        lam = np.full(CLIENTS, 0.97) if seed % 2 else LAM
        present = chains(seed, PI, lam, SLOTS)
        if seed % 3 == 0:
            present = present[np.arange(CLIENTS) % 5]
        small.append(found_in(present, 86400 / DAY).daily.p_value)
        if seed % 4 == 0:
            assert not found_in(present).found
    small = np.array(small)
    assert (small < 0.05).mean() < 0.2
    assert small.min() > 1e-3


def test_a_week_is_told_from_a_day(chains):
    slots, day = 24 * 42, 24
    when = np.arange(slots)[:, None] / day
    weekend = np.where(when % 7 < 5, 1.0, 0.4)
    found = found_in(chains(3, PI * weekend, LAM * 0.8, slots), 3600.0)
    assert found.weekly.found
    assert not found.daily.found
    assert [cycle.name for cycle in found.found] == ["weekly"]


def test_too_short_a_log_has_no_cycle(chains):
    found = found_in(chains(4, PI, LAM, 2 * DAY), 86400 / DAY)
    assert found.daily is None
    assert found.weekly is None
    assert found.found == []


def test_a_day_is_found_where_clients_are_watched_in_part(chains):
    watched = np.zeros((CLIENTS, SLOTS), bool)
    for k in range(CLIENTS):
        begin = (37 * k) % (SLOTS // 2)
        watched[k, begin : begin + SLOTS // 2] = True
    day = found_in(chains(5, daily(0.0), LAM, SLOTS), 86400 / DAY, watched=watched).daily
    assert day.found
    assert day.peak == pytest.approx(6, abs=1)
