"""Sums over runs equal sums over the table of who was there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from turnout.workbench.diagnosis.findings import run_sums as sweeps
from turnout.workbench.diagnosis.reading.log import Log

shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=14)
logs = shapes.flatmap(lambda shape: st.tuples(arrays(bool, shape), arrays(bool, shape)))


def log_of(pair):
    present, watched = pair
    return Log.from_matrix(present & watched, watched=watched), present & watched, watched


@given(logs, st.integers(0, 9))
def test_per_slot_and_over_runs(pair, seed):
    log, present, watched = log_of(pair)
    draw = np.random.default_rng(seed)
    weight, value = draw.random(len(present)), draw.normal(size=present.shape[1])
    np.testing.assert_array_equal(sweeps.per_slot(log.present, log.num_slots), present.sum(axis=0))
    np.testing.assert_allclose(sweeps.per_slot(log.present, log.num_slots, weight), weight @ present, atol=1e-12)
    np.testing.assert_allclose(sweeps.over_runs(log.present, value, len(present)), present @ value, atol=1e-12)
    np.testing.assert_array_equal(sweeps.watched_slots(log), watched.sum(axis=1))


@given(logs, st.floats(0, 0.5))
def test_transform_is_the_fourier_sum(pair, frequency):
    log, present, _ = log_of(pair)
    expected = present @ np.exp(-2j * np.pi * frequency * np.arange(log.num_slots))
    np.testing.assert_allclose(
        sweeps.transform(log.present, frequency, log.num_slots, log.num_clients), expected, atol=1e-9
    )


@given(logs, st.data())
def test_select_and_window_cut_the_table(pair, data):
    log, present, watched = log_of(pair)
    some = np.array(sorted(data.draw(st.sets(st.integers(0, len(present) - 1), min_size=1))))
    first = data.draw(st.integers(0, log.num_slots - 1))
    end = data.draw(st.integers(first + 1, log.num_slots))
    cut = sweeps.window(sweeps.select(log, some), first, end)
    np.testing.assert_array_equal(cut.matrix(), present[some, first:end])
    np.testing.assert_array_equal(cut.watched_matrix(), watched[some, first:end])
    assert list(cut.names) == [str(k) for k in some]


def test_window_keeps_the_clock():
    log = Log.from_matrix(np.ones((1, 10), bool), slot_seconds=600.0, clock_start=100.0)
    assert sweeps.window(log, 3, 10).clock_start == 1900.0


@given(logs, st.integers(1, 5), st.integers(1, 6))
def test_blocks_of_own_time(pair, length, count):
    log, present, watched = log_of(pair)
    inner, seen = sweeps.own_time(log)
    lengths = np.full(len(present), length)
    there, all_there = (sweeps.per_block(runs, lengths, len(present), count) for runs in (inner, seen))
    for k in range(len(present)):
        own = present[k, watched[k]]
        for b in range(count):
            block = own[b * length : (b + 1) * length]
            assert there[k, b] == block.sum()
            assert all_there[k, b] == len(block)


@given(logs)
def test_excess_is_presence_beyond_the_clients_own_rates(pair):
    log, present, watched = log_of(pair)
    pi = np.linspace(0.1, 0.9, len(present))
    excess, number = sweeps.excess_of(log, pi)
    np.testing.assert_array_equal(number, watched.sum(axis=0))
    expected = (present.sum(axis=0) - pi @ watched) / np.maximum(watched.sum(axis=0), 1)
    np.testing.assert_allclose(excess, expected, atol=1e-12)


def test_a_sample_keeps_within_its_bounds():
    log = Log.from_matrix(np.ones((100, 50), bool))
    assert len(sweeps.sample(log, 10_000, 1000)) == 100
    assert len(sweeps.sample(log, 1000, 1000)) == 20
    assert len(sweeps.sample(log, 10_000, 30)) == 30
