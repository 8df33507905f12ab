"""Change is found and placed; persistence, cycles and company are not taken for it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.workbench.diagnosis.findings.cycles import Cycles, cycles
from turnout.workbench.diagnosis.findings.drift import cusum, drift, long_run_variance
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log

CLIENTS, SLOTS = 60, 600
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.15, 0.85, CLIENTS), DRAW.uniform(0, 0.95, CLIENTS)
NONE = Cycles(None, None, None)


def found_in(present, watched=None, rhythm=NONE, unit=None):
    log = Log.from_matrix(present, watched=watched)
    return drift(log, rates(log), rhythm, unit)


def autoregression(seed, phi, count=600):
    draw = np.random.default_rng(seed).normal(size=count + 100)
    for t in range(1, len(draw)):
        draw[t] += phi * draw[t - 1]
    return draw[100:]


def test_long_run_variance_of_an_autoregression():
    for phi in (0.0, 0.5, 0.9):
        found = np.median([long_run_variance(autoregression(seed, phi, 3000)) for seed in range(10)])
        assert found == pytest.approx(1 / (1 - phi) ** 2, rel=0.35)


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_cusum_keeps_its_level_and_finds_a_step(phi):
    quiet = [cusum(autoregression(seed, phi))[0] for seed in range(100)]
    assert np.mean(np.array(quiet) < 0.05) <= 0.13
    step = np.where(np.arange(600) < 200, 0.0, 3 / (1 - phi))
    p_value, place = cusum(autoregression(0, phi) + step)
    assert p_value < 1e-3
    assert abs(place - 200) < 30


@pytest.mark.parametrize("kind", ["plain", "slow", "clustered", "daily"])
def test_a_stationary_fleet_is_left_in_peace(chains, kind):
    for seed in range(8):
        lam = np.full(CLIENTS, 0.95) if kind == "slow" else LAM
        chance, unit, rhythm = PI, None, NONE
        if kind == "daily":
            when = np.arange(SLOTS)[:, None] / 48
            chance = PI + 0.6 * np.minimum(PI, 1 - PI) * np.cos(2 * np.pi * when)
        present = chains(seed, chance, lam, SLOTS)
        if kind == "clustered":
            unit = np.arange(CLIENTS) % 6
            present = present[unit]
        if kind == "daily":
            log = Log.from_matrix(present)
            rhythm = cycles(log, rates(log))
        found = found_in(present, rhythm=rhythm, unit=unit)
        assert not found.found
        assert found.drifting.mean() < 0.1
        assert found.change_slot is None
        assert found.level_before == found.level_after
        assert found.stationary_from == 0


def test_a_step_of_the_fleet_is_placed(chains):
    later = np.where(np.arange(SLOTS) < 400, 0.0, 0.3)[:, None]
    found = found_in(chains(0, np.clip(PI + later, 0.02, 0.98), LAM, SLOTS))
    assert found.found
    assert abs(found.change_slot - 400) < 30
    assert found.level_after - found.level_before > 0.15
    assert abs(found.stationary_from - 400) < 60


def test_clients_that_change_against_each_other(chains):
    side = np.where(np.arange(CLIENTS) % 2, 0.4, -0.4)
    later = np.where(np.arange(SLOTS) < 300, 0.0, 1.0)[:, None]
    found = found_in(chains(1, np.clip(0.5 + later * side, 0.02, 0.98), LAM * 0.8, SLOTS))
    assert found.fleet_p_value > 1e-3
    assert found.pooled_p_value < 1e-6
    assert found.drifting.mean() > 0.7
    assert found.found


def test_late_arrivals_and_departures(chains):
    present = chains(2, np.full(CLIENTS, 0.4), LAM * 0.8, SLOTS)
    present[:6, :300] = False
    present[6:12, 300:] = False
    found = found_in(present)
    assert found.arrived_late[:6].all()
    assert found.vanished[6:12].all()
    assert found.arrived_late[6:].mean() < 0.1
    assert found.vanished[12:].mean() < 0.1


def test_who_was_not_watched_has_not_vanished(chains):
    present = chains(3, np.full(CLIENTS, 0.4), LAM * 0.8, SLOTS)
    watched = np.ones_like(present)
    watched[:20, 300:] = False
    found = found_in(present, watched)
    assert found.vanished.mean() < 0.05
    assert not found.found


def test_blocks_of_chains_differ_as_chains_do(chains):
    plain = found_in(chains(4, PI, LAM, SLOTS)).inflation
    assert plain == pytest.approx(1, abs=0.35)
    # Sessions of their own length with flicker inside have more variance than their transitions tell.
    sessions = chains(4, PI, np.full(CLIENTS, 0.97), SLOTS)
    flicker = np.random.default_rng(0).random(sessions.shape) < 0.5
    assert found_in(sessions & flicker).inflation > 2


def wandering(seed, memory, course=0.0):
    """Clients whose odds of coming wander and return, beside what `course` adds to them."""
    draw = np.random.default_rng(seed)
    fade = np.exp(-1 / memory)
    level, odds = draw.normal(size=CLIENTS), np.empty((SLOTS, CLIENTS))
    for t in range(SLOTS):
        level = fade * level + np.sqrt(1 - fade**2) * draw.normal(size=CLIENTS)
        odds[t] = level
    return (draw.random((SLOTS, CLIENTS)) < 1 / (1 + np.exp(-(1.5 * odds + course)))).T


def test_memory_that_fades_is_no_drift_and_change_is():
    for seed in range(3):
        still = found_in(wandering(seed, 25))
        assert still.inflation > 2
        assert not still.drifting.any()
        assert not still.found
    draw = np.random.default_rng(9)
    begins, side = draw.uniform(0.3, 0.7, CLIENTS) * SLOTS, draw.choice([-1.5, 1.5], CLIENTS)
    steps = np.where(np.arange(SLOTS)[:, None] > begins, side, -side)
    for memory in (1, 10):
        changed = found_in(wandering(0, memory, steps))
        assert changed.found
        assert changed.drifting.mean() > 0.5


@settings(max_examples=20)
@given(st.integers(1, 8), st.integers(1, 30), st.integers(0, 99))
def test_any_table_has_p_values(clients, slots, seed):
    draw = np.random.default_rng(seed)
    watched = draw.random((clients, slots)) < 0.8
    found = found_in(draw.random((clients, slots)) < 0.5, watched)
    for p in (found.fleet_p_value, found.pooled_p_value, *found.client_p_value):
        assert 0 <= p <= 1
