import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.packing import first_indices
from turnout.types import Answer, Ask, Cohort, Fleet, Reports, divide


def cohort_of(wanted, slots, arrived=None):
    wanted = jnp.asarray(wanted)
    cohort = Cohort.pack(Ask.of(wanted, jnp.arange(1.0, wanted.shape[0] + 1)), slots, lr=0.1)
    if arrived is None:
        return cohort
    return Cohort(**{**vars(cohort), "arrived": jnp.asarray(arrived)})


def test_divide_is_the_fallback_where_the_denominator_vanishes():
    quotient = divide(jnp.array([1.0, 2.0, 0.0]), jnp.array([2.0, 0.0, 0.0]), otherwise=7.0)
    np.testing.assert_array_equal(quotient, [0.5, 7.0, 7.0])


def test_target_is_the_normalised_importance():
    np.testing.assert_allclose(Fleet(jnp.array([1.0, 3.0])).target, [0.25, 0.75])


def test_pack_fills_slots_in_order_and_leaves_the_rest_empty():
    cohort = cohort_of([False, True, False, True], slots=3)
    np.testing.assert_array_equal(cohort.ids, [1, 3, 4])
    np.testing.assert_array_equal(cohort.uploading, [True, True, False])
    np.testing.assert_array_equal(cohort.weight, [2.0, 4.0, 0.0])
    assert int(cohort.overflow) == 0


def test_pack_counts_who_found_no_slot():
    assert int(cohort_of([True, True, True], slots=2).overflow) == 1


def test_take_reads_zero_in_empty_slots():
    values = jnp.array([10.0, 20.0, 30.0, 40.0])
    np.testing.assert_array_equal(cohort_of([False, True, False, True], slots=3).take(values), [20.0, 40.0, 0.0])


def test_put_and_mask_speak_of_the_arrived_alone():
    cohort = cohort_of([False, True, False, True], slots=3, arrived=[True, False, False])
    np.testing.assert_array_equal(cohort.put(jnp.array([5.0, jnp.nan, jnp.nan])), [0.0, 5.0, 0.0, 0.0])
    np.testing.assert_array_equal(cohort.mask, [False, True, False, False])
    np.testing.assert_array_equal(cohort.asked, [False, True, False, True])


def test_swap_writes_arrived_rows_and_returns_the_old_ones():
    cohort = cohort_of([True, False, True], slots=3, arrived=[True, False, False])
    memory = {"w": jnp.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])}
    old, new = cohort.swap(memory, {"w": jnp.full((3, 2), 9.0)})
    np.testing.assert_array_equal(old["w"], [[1.0, 1.0], [3.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(new["w"], [[9.0, 9.0], [2.0, 2.0], [3.0, 3.0]])


def test_reports_are_exactly_zero_where_nothing_arrived():
    cohort = cohort_of([True, True], slots=3, arrived=[True, False, False])
    rows = jnp.array([[1.0], [jnp.nan], [jnp.inf]])
    reports = Reports.of(cohort, Answer(rows), rows[:, 0], rows[:, 0])
    np.testing.assert_array_equal(reports.updates, [[1.0], [0.0], [0.0]])
    np.testing.assert_array_equal(reports.losses, [1.0, 0.0, 0.0])


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.sampled_from([1, 5, 64, 200]))
@settings(max_examples=60, deadline=None)
def test_first_indices_are_those_of_nonzero(mask, count):
    wanted = np.flatnonzero(mask)[:count]
    filled = np.pad(wanted, (0, count - wanted.size), constant_values=len(mask))
    np.testing.assert_array_equal(first_indices(jnp.asarray(mask), count), filled)


@pytest.mark.parametrize("slots", [1, 4, 9])
def test_any_number_of_slots_packs(slots):
    cohort = cohort_of([True, False, True, True], slots=slots)
    assert int(cohort.uploading.sum()) == min(slots, 3)
    assert int(cohort.overflow) == max(0, 3 - slots)
