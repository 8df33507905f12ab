"""Windows of recording are not absence: clients that were watched at different times are weighed side by side."""

from dataclasses import replace

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings.fedavg_weights import weights
from turnout.workbench.diagnosis.findings.recorded_time import (
    ENOUGH_WATCHED,
    EVERY_SLOT,
    FEW_WATCHED,
    WHOLE_DAYS,
    side_by_side,
    whole_days,
)
from turnout.workbench.diagnosis.reading.log import Log

HOURS = 24


def in_turn(clients=10, days=2):
    """Clients alike, each there in the same half of its own days, of which no two share any."""
    present, watched = (np.zeros((clients, clients * days * HOURS), bool) for _ in range(2))
    for k in range(clients):
        begin = k * days * HOURS
        watched[k, begin : begin + days * HOURS] = True
        present[k, begin : begin + days * HOURS] = np.arange(days * HOURS) % HOURS < (12 if k else 6)
    return Log.from_matrix(present, watched=watched, slot_seconds=3600.0)


def test_whole_days_stand_side_by_side():
    log = in_turn()
    weighed = weights(log)
    assert weighed.basis == WHOLE_DAYS
    # In six hours all ten are there, in six hours the nine others.
    assert weighed.weighted == pytest.approx([0.05, *[0.95 / 9] * 9])
    table = whole_days(log, HOURS)
    assert table.num_slots == 2 * HOURS
    assert table.matrix().sum(axis=1).tolist() == [12, *[24] * 9]


def test_a_shorter_recording_is_repeated_and_keeps_its_hours():
    watched, present = np.zeros((2, 96), bool), np.zeros((2, 96), bool)
    watched[0], watched[1, 60:84] = True, True  # the second from noon of the third day, for a day
    present[0, ::24] = True
    present[1, 72:76] = True  # midnight to four
    log = Log.from_matrix(present, watched=watched, slot_seconds=3600.0)
    second = whole_days(log, HOURS).matrix()[1]
    assert np.flatnonzero(second).tolist() == [d + h for d in (0, 24, 48, 72) for h in range(4)]


def test_slots_with_half_of_the_fleet_are_enough():
    present, watched = np.ones((4, 100), bool), np.ones((4, 100), bool)
    watched[1:, 90:] = False  # the first alone at the end
    log = Log.from_matrix(present, watched=watched)
    _, counted, basis = side_by_side(log)
    assert basis == ENOUGH_WATCHED
    assert np.flatnonzero(~counted).tolist() == list(range(90, 100))
    assert weights(log).weighted == pytest.approx(np.full(4, 0.25))


def test_without_a_clock_or_gaps_every_slot_counts():
    log = in_turn()
    assert weights(replace(log, slot_seconds=None)).basis == FEW_WATCHED
    assert weights(replace(log, slot_seconds=5000.0)).basis == FEW_WATCHED  # no whole number of slots in a day
    assert weights(replace(log, watched=None)).basis == EVERY_SLOT
