"""Each transform by numbers worked out by hand, and its contract."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.testing import check_upload
from turnout.types import ClientMemory
from turnout.uploads import Chain, Clip, Difference, EightBit, ErrorFeedback, Noise, Plain, TopK, Upload, UploadContext

UPLOADS = {
    "plain": Plain(),
    "clip": Clip(0.5),
    "noise": Noise(0.1),
    "top_k": TopK(0.25),
    "eight_bit": EightBit(),
    "chain": Chain((Clip(0.5), TopK(0.5), EightBit())),
    "error_feedback": ErrorFeedback(Chain((TopK(0.25), EightBit()))),
    "difference": Difference(TopK(0.25)),
}


def sent_by(upload, update, state=None, word=0, lr=0.1, **about):
    context = UploadContext(jnp.asarray(word, jnp.uint32), jnp.asarray(lr, jnp.float32), **about)
    return upload.encode(jnp.asarray(update, jnp.float32), state, context)


@pytest.mark.parametrize("name", UPLOADS)
def test_contract(name):
    check_upload(UPLOADS[name])


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
    context = UploadContext(jnp.zeros((), jnp.uint32), 0.1)
    sent, _ = TopK(share).encode(tree, None, context)
    flat = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])
    kept = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(sent)])
    wanted = np.argsort(-np.abs(flat))[: int(np.ceil(share * flat.size))]
    np.testing.assert_array_equal(np.sort(np.flatnonzero(kept)), np.sort(wanted))


def test_eight_bits_are_right_on_average_and_never_off_by_more_than_a_level():
    update = jnp.asarray([1.27, 0.005, -0.6049, 0.0])
    contexts = UploadContext(jnp.arange(4096, dtype=jnp.uint32), jnp.full(4096, 0.1))
    sent = jax.vmap(lambda context: EightBit().encode(update, None, context)[0])(contexts)
    assert float(np.max(np.abs(np.asarray(sent) - np.asarray(update)))) <= 0.0100001
    np.testing.assert_allclose(sent.mean(axis=0), update, atol=4e-4)
    levels = np.asarray(sent[0]) / 0.01
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-3)


def test_noise_has_its_scale_and_differs_between_uploads():
    draws = np.stack([np.asarray(sent_by(Noise(0.5), np.zeros(2000), word=word)[0]) for word in range(3)])
    assert draws.std() == pytest.approx(0.5, rel=0.05)
    assert abs(np.corrcoef(draws)[0, 1]) < 0.1


def test_what_is_left_out_is_sent_later():
    upload, state = ErrorFeedback(TopK(0.5)), jnp.zeros(2)
    sent, state = sent_by(upload, [1.0, 0.6], state)
    np.testing.assert_allclose((sent, state), ([1.0, 0.0], [0.0, 0.6]), rtol=1e-6)
    sent, state = sent_by(upload, [1.0, 0.6], state)
    np.testing.assert_allclose((sent, state), ([0.0, 1.2], [1.0, 0.0]), rtol=1e-6)


def test_a_difference_is_per_rate_and_to_what_was_sent():
    upload = Difference()
    sent, held = sent_by(upload, [0.2, 0.4], upload.init(jnp.zeros(2)), lr=0.2)
    np.testing.assert_allclose(sent, [1.0, 2.0], rtol=1e-6)
    sent, held = sent_by(upload, [0.1, 0.4], held, lr=0.1)
    np.testing.assert_allclose((sent, held.rows), ([0.0, 2.0], [1.0, 4.0]), rtol=1e-6, atol=1e-6)


def test_what_was_sent_fades_and_counts_per_unit_of_work():
    upload = Difference(memory=ClientMemory(fading=0.5, per_work=True))
    sent, held = sent_by(upload, [0.6, 1.2], upload.init(jnp.zeros(2)), lr=0.2, reach=3.0, t=3.0)
    np.testing.assert_allclose(sent, [1.0, 2.0], rtol=1e-6)
    sent, held = sent_by(upload, [0.1, 0.4], held, lr=0.1, reach=1.0, t=15.0)  # 4 of 16 rounds: a root of a quarter
    np.testing.assert_allclose((sent, held.rows), ([0.5, 3.0], [1.0, 4.0]), rtol=1e-6)
    sent, after = sent_by(upload, [0.0, 0.0], held, lr=0.1, reach=0.0, t=20.0)
    np.testing.assert_array_equal(sent, [0.0, 0.0])
    np.testing.assert_array_equal(after.rows, held.rows)
    assert float(after.t) == 15.0


def test_bytes_of_one_upload():
    model = {"weights": jnp.zeros((100, 10)), "bias": jnp.zeros(10)}
    counted = {name: upload.num_bytes(model) for name, upload in UPLOADS.items()}
    assert counted == {
        "plain": 4040,
        "clip": 4040,
        "noise": 4040,
        "top_k": 253 * 8,
        "eight_bit": 1010 + 8,
        "chain": 505 * 5 + 8,
        "error_feedback": 253 * 5 + 8,
        "difference": 253 * 8,
    }
    assert Chain((TopK(0.1), Noise(0.1))).num_bytes(model) == 4040  # noise leaves no entry zero


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Chain((Difference(), TopK(0.1))), r"Difference cannot be a part of a chain: put it around"),
        (lambda: Chain(()), "one transform or more"),
        (lambda: Difference(ErrorFeedback(TopK(0.1))), "give the compressor alone"),
        (lambda: Difference(Chain((Clip(1.0), Noise(0.1)))), "take the noise out again"),
        (lambda: ErrorFeedback(ErrorFeedback(EightBit())), "one memory is enough"),
        (lambda: ErrorFeedback(Noise(0.1)), "take the noise out again"),
        (lambda: TopK(0.0), "share must be above 0"),
        (lambda: TopK(1.5), "at most 1, not 1.5"),
        (lambda: Clip(0.0), "norm must be above 0, not 0.0"),
        (lambda: Noise(-1.0), "scale must be 0 or more, not -1.0"),
    ],
)
def test_what_breaks_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()
