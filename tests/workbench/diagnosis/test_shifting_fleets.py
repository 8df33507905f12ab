"""Nights, weekends, outages and churn are found, and are not taken for company, memory or drift."""

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.findings.churn import churn, while_members
from turnout.workbench.diagnosis.findings.outages import Outages, leave_out
from turnout.workbench.diagnosis.reading.log import Log

NAMES = ("steady", "nightly", "time_zones", "nightly_company", "outage", "nightly_outage", "weekly", "growth", "churn")


def test_every_fleet_has_a_test(shifting_fleets):
    assert tuple(shifting_fleets.FLEETS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_true_is_found(shifting_fleets, name):
    for seed in range(3):
        fleet = shifting_fleets.FLEETS[name](np.random.default_rng(seed))
        shown = shifting_fleets.findings_of(examine(fleet.log))
        assert fleet.true <= shown, seed
        assert shown <= fleet.true | fleet.neither, seed


def test_an_outage_is_located_and_left_out():
    present = np.random.default_rng(0).random((60, 600)) < np.linspace(0.1, 0.8, 60)[:, None]
    down = present.copy()
    down[:, 300:340] = False
    with_outage, without = examine(Log.from_matrix(down)), examine(Log.from_matrix(present))
    assert (with_outage.outages.first.tolist(), with_outage.outages.end.tolist()) == ([300], [340])
    assert (with_outage.outages.slots, without.outages.slots) == (40, 0)
    assert (with_outage.rates.watched == 560).all()
    assert with_outage.recognised.kind == "bernoulli"
    np.testing.assert_array_equal(with_outage.rates.on, down.sum(axis=1))


def test_groups_that_are_all_away_at_once_are_no_outage(chains):
    cluster = np.arange(60) % 12
    together = chains(1, np.full(12, 0.35), np.full(12, 0.9), 2000)[cluster]
    assert (together.sum(axis=0) == 0).any()
    assert not examine(Log.from_matrix(together)).outages.found


def test_empty_nights_are_no_outage():
    hour = np.arange(600) % 24
    present = np.random.default_rng(1).random((60, 600)) < np.where((hour < 6) | (hour >= 22), 0.5, 0.0)
    findings = examine(Log.from_matrix(present, slot_seconds=3600.0))
    assert findings.cycles.daily.found
    assert not findings.outages.found


def test_closed_hours_of_a_week_are_no_outage():
    """By rounding some slots of a week were taken for those an hour earlier, and closed hours for open ones."""
    week = np.zeros(168)
    for day in range(5):
        week[24 * day + 9 : 24 * day + 17] = 0.6
    week[5 * 24 + 11 : 5 * 24 + 20] = 0.3
    present = np.random.default_rng(0).random((60, 6 * 168)) < np.tile(week, 6)
    findings = examine(Log.from_matrix(present, slot_seconds=3600.0, dated=True))
    assert findings.cycles.weekly.found
    assert not findings.outages.found


def test_a_fleet_that_often_stays_away_as_a_whole_has_no_outages():
    draw = np.random.default_rng(2)
    open_slot = np.repeat(draw.random(300) < 0.5, 2)
    present = (draw.random((60, 600)) < 0.5) & open_slot
    assert not examine(Log.from_matrix(present)).outages.found


def test_left_out_stretches_are_not_watched():
    watched = np.ones((2, 10), bool)
    watched[1, 4:6] = False
    log = Log.from_matrix(np.zeros((2, 10), bool), watched=watched)
    rest = leave_out(log, Outages(np.array([0, 5]), np.array([2, 8]))).watched_matrix()
    assert rest.astype(int).tolist() == [[0, 0, 1, 1, 1, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 0, 0, 1, 1]]
    assert leave_out(log, Outages(np.zeros(0, int), np.zeros(0, int))) is log


def test_members_are_watched_from_their_first_to_their_last_presence():
    present = np.random.default_rng(3).random((4, 400)) < 0.5
    present[0, :200] = False
    present[1, 150:] = False
    log = Log.from_matrix(present)
    changes = churn(log)
    assert changes.arrived_late.tolist() == [True, False, False, False]
    assert changes.vanished.tolist() == [False, True, False, False]
    watched = while_members(log, changes).watched_matrix()
    first, last = np.flatnonzero(present[0])[0], np.flatnonzero(present[1])[-1]
    assert (~watched[0, :first]).all()
    assert watched[0, first:].all()
    assert watched[1, : last + 1].all()
    assert (~watched[1, last + 1 :]).all()
    assert watched[2:].all()
