"""A log as runs holds exactly what the table of who was there holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from turnout.workbench.diagnosis.reading.log import Log, Runs

tables = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


def runs_of(matrix):
    """By walking every row."""
    found = []
    for client, row in enumerate(matrix):
        slot = 0
        while slot < len(row):
            end = slot
            while end < len(row) and row[end]:
                end += 1
            if end > slot:
                found.append((client, slot, end))
            slot = end + 1
    return found


@given(tables)
def test_runs_are_the_stretches_of_each_row(matrix):
    log = Log.from_matrix(matrix)
    assert list(zip(log.present.client, log.present.first, log.present.end, strict=True)) == runs_of(matrix)
    np.testing.assert_array_equal(log.matrix(), matrix)
    np.testing.assert_array_equal(log.present.slots_of(log.num_clients), matrix.sum(axis=1))
    assert log.watched_matrix().all()


@given(tables, st.data())
def test_a_selection_is_cut_from_the_matrix(matrix, data):
    log = Log.from_matrix(matrix, watched=~matrix)
    clients = data.draw(st.lists(st.integers(0, len(matrix) - 1), max_size=5))
    np.testing.assert_array_equal(log.watched_matrix(clients), ~matrix[clients])
    assert not log.matrix(clients).any()  # nobody is there who was not watched


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 9), st.integers(-5, 9))))
def test_merging_covers_what_any_row_covers(rows):
    client, first, end = np.array(rows, np.int64).reshape(-1, 3).T
    covered = np.zeros((4, 15), bool)
    for k, begin, stop in rows:
        covered[k, begin + 5 : max(stop, begin) + 5] = True
    merged = Runs.merge(client, first, end)
    assert list(zip(merged.client, merged.first + 5, merged.end + 5, strict=True)) == runs_of(covered)


def test_names_must_fit_the_rows():
    with pytest.raises(ValueError, match="3 names for 2 clients"):
        Log.from_matrix(np.ones((2, 4), bool), names=["a", "b", "c"])


def test_names_are_text_in_order():
    log = Log.from_matrix(np.ones((2, 4), bool), names=["zoe", "adam"], slot_seconds=600.0)
    assert list(log.names) == ["zoe", "adam"]
    assert (log.num_clients, log.num_slots, log.slot_seconds) == (2, 4, 600.0)
    assert list(Log.from_matrix(np.ones((2, 4), bool)).names) == ["0", "1"]
