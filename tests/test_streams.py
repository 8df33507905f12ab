import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.simulator.minibatches import drawn, permuted, shuffled
from turnout.streams import Stream, below, client_seeds, round_key, scramble


def test_streams_and_rounds_have_keys_of_their_own():
    keys = [round_key(jr.key(seed), s, t) for seed in (0, 1) for s in Stream for t in range(3)]
    assert len({tuple(np.asarray(jr.key_data(key))) for key in keys}) == len(keys)


def test_a_client_has_the_same_word_in_any_slot():
    key = jr.key(3)
    words = client_seeds(key, jnp.array([4, 1, 7], jnp.int32))
    np.testing.assert_array_equal(words[::-1], client_seeds(key, jnp.array([7, 1, 4], jnp.int32)))


def test_scramble_is_a_bijection_on_a_range_and_looks_uniform():
    words = np.asarray(scramble(jnp.arange(200_000, dtype=jnp.uint32)))
    assert np.unique(words).size == words.size
    counts = np.bincount(words >> 24, minlength=256)
    chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert chi_square < 255 + 6 * math.sqrt(2 * 255)


@pytest.mark.parametrize("bound", [1, 3, 100, 2**20])
def test_below_stays_below(bound):
    words = jnp.array([0, 2**31, 2**32 - 1], jnp.uint32)
    index = np.asarray(below(words, jnp.asarray(bound, jnp.int32)))
    assert index.min() >= 0
    assert index.max() < bound


def steps_of(choose, word, size, batch_size, count):
    size = jnp.asarray(size, jnp.int32)
    pairs = [choose(jnp.uint32(word), jnp.asarray(s, jnp.int32), size, batch_size) for s in range(count)]
    return [np.asarray(p)[np.asarray(m) > 0] for p, m in pairs]


def test_drawn_batches_are_uniform_over_the_samples():
    positions = jax.vmap(lambda w: drawn(w, jnp.asarray(0, jnp.int32), jnp.asarray(7, jnp.int32), 8)[0])
    words = scramble(jnp.arange(5000, dtype=jnp.uint32))
    counts = np.bincount(np.asarray(positions(words)).ravel(), minlength=7)
    expected = 5000 * 8 / 7
    assert ((counts - expected) ** 2 / expected).sum() < 6 + 6 * math.sqrt(12)


@pytest.mark.parametrize(("size", "batch_size"), [(10, 3), (8, 4), (5, 9), (1, 1)])
def test_an_epoch_visits_every_sample_once(size, batch_size):
    batches = -(-size // batch_size)
    epochs = steps_of(shuffled, 17, size, batch_size, 2 * batches)
    first, second = np.concatenate(epochs[:batches]), np.concatenate(epochs[batches:])
    assert sorted(first) == sorted(second) == list(range(size))
    if size > 5:
        assert list(first) != list(second)


def test_every_permutation_is_equally_likely():
    size = 4
    words = scramble(jnp.arange(24_000, dtype=jnp.uint32))
    images = jax.vmap(lambda w: permuted(w, jnp.arange(size, dtype=jnp.int32), jnp.asarray(size, jnp.int32)))(words)
    orders = {order: 0 for order in itertools.permutations(range(size))}
    for row in np.asarray(images):
        orders[tuple(int(i) for i in row)] += 1
    counts = np.array(list(orders.values()))
    assert ((counts - 1000) ** 2 / 1000).sum() < 23 + 6 * math.sqrt(46)
