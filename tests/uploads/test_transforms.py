"""Each transform by numbers worked out by hand, and its contract."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.testing import check_upload
from turnout.types import Answer
from turnout.uploads import Chain, Clip, EightBit, ErrorFeedback, FixedPoint, Noise, Plain, TopK, Upload, UploadContext
from turnout.uploads.base import encode_answer

UPLOADS = {
    "plain": Plain(),
    "clip": Clip(0.5),
    "noise": Noise(0.1),
    "top_k": TopK(0.25),
    "eight_bit": EightBit(),
    "fixed_point": FixedPoint(2.0**-6, 1.0),
    "chain": Chain((Clip(0.5), TopK(0.5), EightBit())),
    "error_feedback": ErrorFeedback(Chain((TopK(0.25), EightBit()))),
}


def context_of(seed):
    rate, reach, t = (jnp.full(jnp.shape(seed), value) for value in (0.1, 2.0, 0.0))
    return UploadContext(jnp.asarray(seed, jnp.uint32), rate, reach, t)


def sent_by(upload, update, state=None, seed=0):
    context = context_of(seed)
    return upload.encode(jnp.asarray(update, jnp.float32), state, context)


@pytest.mark.parametrize("name", UPLOADS)
def test_contract(name):
    check_upload(UPLOADS[name])


@pytest.mark.parametrize("key", [None, jr.key(5)], ids=["seed", "own key"])
def test_the_second_vector_of_an_answer_has_draws_of_its_own(key):
    zeros, context = jnp.zeros(6), replace(context_of(3), noise_key=key)
    sent, _ = encode_answer(Noise(1.0), Answer(zeros, zeros), None, context)
    assert np.abs(np.asarray(sent.update - sent.second)).min() > 1e-3
    alone, _ = encode_answer(Noise(1.0), Answer(zeros), None, context)
    assert alone.second is None
    np.testing.assert_array_equal(alone.update, sent.update)


def test_a_fixed_point_is_a_multiple_near_by_and_right_on_average():
    update = np.linspace(-1.4, 1.4, 29, dtype=np.float32)
    draws = np.stack([sent_by(FixedPoint(0.25, 1.0), update, seed=seed)[0] for seed in range(400)])
    assert np.all(draws == np.round(draws * 4) / 4)
    assert np.abs(draws - np.clip(update, -1, 1)).max() < 0.25
    inside = np.abs(update) <= 1
    np.testing.assert_allclose(draws.mean(axis=0)[inside], update[inside], atol=0.035)  # four deviations of 0.125 / 20


def test_whole_numbers_stay_and_a_sum_of_as_many_as_there_is_room_for_is_exact():
    upload = FixedPoint.with_room(100)
    assert upload.room >= 100 > FixedPoint.with_room(300).room / 6
    whole = np.array([3.0, -(2.0**-16), 2.0**23 + 1, 2.0**30], np.float32)
    sent, _ = sent_by(FixedPoint(2.0**-16, 2.0**14), whole)
    np.testing.assert_array_equal(sent, [3.0, -(2.0**-16), 2.0**14, 2.0**14])
    rows = np.random.default_rng(0).uniform(-2 * upload.most, 2 * upload.most, (upload.room, 5))
    units = [np.asarray(sent_by(upload, row)[0], np.float64) / upload.quantum for row in rows]
    total = np.zeros(5, np.uint32)
    for row in units:
        total += row.astype(np.int64).astype(np.int32).view(np.uint32)
    np.testing.assert_array_equal(total.view(np.int32), np.sum(units, axis=0))


def test_numbers_beside_a_vector_are_rounded_too_and_may_be_large():
    numbers = jnp.array([1.0, 1 / 3, 5e4])
    sent, _ = encode_answer(FixedPoint(2.0**-16, 2.0), Answer(jnp.zeros(2), numbers=numbers), None, context_of(1))
    np.testing.assert_allclose(sent.numbers, numbers, atol=2.0**-16)
    assert float(sent.numbers[1] * 2**16) % 1 == 0


@pytest.mark.parametrize(
    ("quantum", "most", "message"),
    [
        (0.1, 1.0, "quantum of FixedPoint must be a power of two"),
        (2.0**-16, 3.0, "most of FixedPoint must be a power"),
        (2.0**-16, 2.0**16, "are too many: a sum has 32 bits"),
    ],
)
def test_what_has_no_exact_sums_is_refused(quantum, most, message):
    with pytest.raises(ValueError, match=message):
        FixedPoint(quantum, most)


class Shrinks(Upload[None]):
    """A transform that loses an entry on the way."""

    def encode(self, update, state, context):
        return jax.tree.map(lambda leaf: leaf[:-1], update), state


def test_a_broken_transform_is_caught():
    with pytest.raises(AssertionError, match="form of a model"):
        check_upload(Shrinks())


def test_clipping_keeps_the_direction():
    np.testing.assert_allclose(sent_by(Clip(1.0), [3.0, 4.0])[0], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(sent_by(Clip(10.0), [3.0, 4.0])[0], [3.0, 4.0])


def test_the_largest_entries_are_kept_whatever_their_sign():
    update = [0.1, -5.0, 0.0, 2.0, -0.2, 3.0, 1.0, 0.3]
    np.testing.assert_array_equal(sent_by(TopK(0.25), update)[0], [0, -5.0, 0, 0, 0, 3.0, 0, 0])
    np.testing.assert_array_equal(sent_by(TopK(1e-9), update)[0], [0, -5.0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(sent_by(TopK(1.0), update)[0], jnp.asarray(update))


@pytest.mark.parametrize("share", [0.001, 0.03, 0.5])
def test_the_threshold_is_that_of_a_sort(share):
    tree = {"a": jr.normal(jr.key(0), (40, 25)), "b": 1e-20 * jr.normal(jr.key(1), (500,))}
    sent, _ = TopK(share).encode(tree, None, context_of(0))
    flat = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])
    kept = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(sent)])
    wanted = np.argsort(-np.abs(flat))[: int(np.ceil(share * flat.size))]
    np.testing.assert_array_equal(np.sort(np.flatnonzero(kept)), np.sort(wanted))


def test_eight_bits_are_right_on_average_and_never_off_by_more_than_a_level():
    update = jnp.asarray([1.27, 0.005, -0.6049, 0.0])
    contexts = context_of(jnp.arange(4096))
    sent = jax.vmap(lambda context: EightBit().encode(update, None, context)[0])(contexts)
    assert float(np.max(np.abs(np.asarray(sent) - np.asarray(update)))) <= 0.0100001
    np.testing.assert_allclose(sent.mean(axis=0), update, atol=4e-4)
    levels = np.asarray(sent[0]) / 0.01
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-3)


def test_noise_has_its_scale_and_differs_between_uploads():
    draws = np.stack([np.asarray(sent_by(Noise(0.5), np.zeros(2000), seed=seed)[0]) for seed in range(3)])
    assert draws.std() == pytest.approx(0.5, rel=0.05)
    assert abs(np.corrcoef(draws)[0, 1]) < 0.1


def test_what_is_left_out_is_sent_later():
    upload, state = ErrorFeedback(TopK(0.5)), jnp.zeros(2)
    sent, state = sent_by(upload, [1.0, 0.6], state)
    np.testing.assert_allclose((sent, state), ([1.0, 0.0], [0.0, 0.6]), rtol=1e-6)
    sent, state = sent_by(upload, [1.0, 0.6], state)
    np.testing.assert_allclose((sent, state), ([0.0, 1.2], [1.0, 0.0]), rtol=1e-6)


def test_bytes_of_one_upload():
    model = {"weights": jnp.zeros((100, 10)), "bias": jnp.zeros(10)}
    counted = {name: upload.num_bytes(model) for name, upload in UPLOADS.items()}
    assert counted == {
        "plain": 4040,
        "clip": 4040,
        "noise": 4040,
        "fixed_point": 4040,
        "top_k": 253 * 8,
        "eight_bit": 1010 + 8,
        "chain": 505 * 5 + 8,
        "error_feedback": 253 * 5 + 8,
    }
    assert Chain((TopK(0.1), Noise(0.1))).num_bytes(model) == 4040  # noise leaves no entry zero


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Chain((ErrorFeedback(TopK(0.1)), EightBit())), "ErrorFeedback cannot be a part of a chain"),
        (lambda: Chain(()), "one transform or more"),
        (lambda: ErrorFeedback(ErrorFeedback(EightBit())), "one memory is enough"),
        (lambda: ErrorFeedback(Noise(0.1)), "take the noise out again"),
        (lambda: TopK(0.0), "share must be a number above 0 and at most 1"),
        (lambda: TopK(1.5), "at most 1, not 1.5"),
        (lambda: Clip(0.0), "norm must be a number above 0, not 0.0"),
        (lambda: Noise(-1.0), "scale must be a finite number of 0 or more, not -1.0"),
    ],
)
def test_what_breaks_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()
