"""Updates in few bytes: what was sent is read, in as many bytes as the transform says, and nothing else counts."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from turnout.flower import Limits
from turnout.flower.wire.client_metrics import Dropped
from turnout.flower.wire.compact import INDICES, LEVELS, SCALES, VALUES, check_parts, compact, most_bytes
from turnout.flower.wire.layout import Layout
from turnout.flower.wire.replies import Reply, ReplyRules
from turnout.uploads import Chain, Clip, EightBit, Noise, Plain, TopK, UploadContext
from turnout.uploads.eight_bit import as_levels

MODEL = {
    "w": np.ones((20, 30), np.float32),
    "b": np.zeros(50, np.float64),
    "count": np.array([3, 4]),
    "alone": np.zeros((), np.float32),
}
LAYOUT = Layout.of(MODEL)
TOTAL = 651  # trained entries, in the order alone, b, w

UPLOADS = {
    "plain": Plain(),
    "clip": Clip(1.0),
    "top": TopK(0.05),
    "bytes": EightBit(),
    "top, then bytes": Chain((TopK(0.05), EightBit())),
    "bytes, then top": Chain((EightBit(), TopK(0.05))),
    "bytes, then clip": Chain((EightBit(), Clip(0.1))),
    "bytes, then noise": Chain((EightBit(), Noise(0.1))),
}
FORMS = {
    "plain": {VALUES},
    "clip": {VALUES},
    "top": {INDICES, VALUES},
    "bytes": {LEVELS, SCALES},
    "top, then bytes": {INDICES, LEVELS, SCALES},
    "bytes, then top": {INDICES, LEVELS, SCALES},
    "bytes, then clip": {LEVELS, SCALES},
    "bytes, then noise": {VALUES},
}


def drawn(seed=0):
    draw = np.random.default_rng(seed)
    return {name: jnp.asarray(draw.normal(size=LAYOUT.shapes[name]), jnp.float32) for name in LAYOUT.trained}


def encoded(name, seed=0):
    rate, reach, t = (jnp.asarray(value, jnp.float32) for value in (0.1, 1.0, 0.0))
    context = UploadContext(jnp.asarray(9 + seed, jnp.uint32), rate, reach, t)
    sent, _ = UPLOADS[name].encode(drawn(seed), None, context)
    return {key: np.asarray(part) for key, part in sent.items()}


def check(parts, metrics=None, limits=None, room=None):
    return check_parts(parts, metrics or {}, ReplyRules(LAYOUT, 4, limits or Limits(), reach=5.0, row=room))


@pytest.mark.parametrize("name", UPLOADS)
def test_what_is_read_is_what_was_sent(name):
    sent = encoded(name)
    parts = compact(sent)
    assert set(parts) == FORMS[name]
    reply = check(parts, {"loss": 0.5, "reach": 7, "num-examples": 12, "turnout.round": 4})
    assert isinstance(reply, Reply)
    assert (reply.loss, reply.reach, reply.size) == (0.5, 7.0, 12)
    assert set(reply.update) == set(LAYOUT.trained)
    for key, part in sent.items():
        np.testing.assert_allclose(reply.update[key], part, rtol=1e-6)
        assert reply.update[key].dtype == np.float32
    assert reply.norm == pytest.approx(np.sqrt(sum(np.sum(part.astype(float) ** 2) for part in sent.values())))


@pytest.mark.parametrize("name", sorted({*UPLOADS} - {"bytes, then top"}))  # there, equal entries are all kept
def test_bytes_are_those_that_the_transform_says(name):
    for seed in range(5):
        parts = compact(encoded(name, seed))
        spent, expected = sum(part.nbytes for part in parts.values()), UPLOADS[name].num_bytes(drawn())
        # Rounding makes zeros of some small entries, which then need not be sent.
        assert 0.8 * expected <= spent <= expected
        assert all(part.nbytes <= most_bytes(LAYOUT)[key] for key, part in parts.items())


@pytest.mark.parametrize("top", [127, 126])
def test_levels_are_found_whatever_the_largest(top):
    levels = np.array([-top, top, 0, 1, 5], np.float32)
    found, scale = as_levels(levels * np.float32(0.0123))
    np.testing.assert_array_equal(found, levels)
    assert scale == pytest.approx(0.0123)


def test_what_was_not_rounded_has_no_levels():
    assert as_levels(np.array([1.0, 0.5001], np.float32)) is None
    assert as_levels(np.array([1.0, np.nan], np.float32)) is None
    assert as_levels(np.array([1.0, np.inf], np.float32)) is None
    levels, scale = as_levels(np.zeros(3, np.float32))
    np.testing.assert_array_equal(levels, 0)
    assert scale == 0


def test_an_upload_is_written_to_its_room_and_over_what_was_there():
    rows = LAYOUT.rows(2)
    for name in ("top", "bytes"):
        for part in rows.values():
            part[...] = 7.0
        room = {key: part[1, ...] for key, part in rows.items()}
        assert isinstance(check(compact(encoded(name)), room=room), Reply)
        for key, part in encoded(name).items():
            np.testing.assert_allclose(rows[key][1], part, rtol=1e-6)
            np.testing.assert_array_equal(rows[key][0], 7.0)


def test_the_limit_of_lengths_is_that_of_what_is_read():
    parts = {INDICES: np.array([0, 650], np.uint32), VALUES: np.array([3.0, 4.0], np.float32)}
    assert check(parts, limits=Limits(norm=5.0)).norm == 5.0
    assert "its update has length 5, beyond the limit of 4.9" in check(parts, limits=Limits(norm=4.9)).reason
    rounded = {LEVELS: np.full(TOTAL, 100, np.int8), SCALES: np.full(3, 1e37, np.float32)}
    assert "its update has length inf" in check(rounded).reason


def sparse(indices, values=None, dtype=np.uint32):
    values = np.ones(len(indices), np.float32) if values is None else values
    return {INDICES: np.array(indices, dtype), VALUES: values}


ONES = np.ones(TOTAL, np.int8)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (sparse([1, 1]), "do not rise: each may appear once"),
        (sparse([2, 1]), "do not rise"),
        (sparse([1, TOTAL]), "an entry number 651, but the model only 651 entries"),
        (sparse([1, 2], np.ones(3, np.float32)), "2 indices, but 3 entries"),
        (sparse([1, 2], dtype=np.int64), "'indices' of its upload is a int64(2,), not a row of uint32"),
        (sparse([1, 2], np.ones(2)), "'values' of its upload is a float64"),
        (sparse([1, 2], np.ones((2, 1), np.float32)), "'values' of its upload is a float32"),
        (sparse([1, 2], [1.0, 2.0]), "'values' of its upload is a list"),
        (sparse([1, 2], np.array([1.0, np.nan], np.float32)), "'values' of its upload hold a value that is not finite"),
        ({VALUES: np.ones(TOTAL - 1, np.float32)}, "650 entries, but the model 651"),
        ({LEVELS: ONES}, "the parts of its upload are ['levels']"),
        ({VALUES: np.ones(TOTAL, np.float32), SCALES: np.ones(3, np.float32)}, "the parts of its upload are"),
        ({}, "the parts of its upload are []"),
        ({LEVELS: ONES, SCALES: np.ones(2, np.float32)}, "2 scales, but the model 3 trained arrays"),
        ({LEVELS: ONES, SCALES: np.full(3, np.inf, np.float32)}, "'scales' of its upload hold a value that is not"),
        ({LEVELS: ONES.astype(np.int16), SCALES: np.ones(3, np.float32)}, "'levels' of its upload is a int16"),
        (None, "it holds a NoneType and a dict"),
    ],
)
def test_bad_uploads_are_dropped_with_a_reason(parts, reason):
    dropped = check(parts)
    assert isinstance(dropped, Dropped)
    assert reason in dropped.reason


def test_metrics_are_checked_like_those_of_a_model():
    assert "it is for round 3, not for round 4" in check(compact(encoded("top")), {"turnout.round": 3}).reason


ANY = st.one_of(
    st.none(),
    st.floats(),
    arrays_of.arrays(np.uint32, st.integers(0, 6)),
    arrays_of.arrays(np.uint32, st.integers(0, 6), elements=st.integers(0, 700), unique=True).map(np.sort),
    arrays_of.arrays(np.float32, st.integers(0, 6)),
    arrays_of.arrays(np.int8, st.integers(0, 6)),
    arrays_of.arrays(np.float64, arrays_of.array_shapes(max_dims=2, max_side=3)),
    st.sampled_from([np.ones(TOTAL, np.float32), ONES, np.arange(TOTAL, dtype=np.uint32)]),
)
PARTS = st.one_of(
    st.dictionaries(st.one_of(st.sampled_from([INDICES, VALUES, LEVELS, SCALES]), st.text(max_size=3)), ANY),
    st.tuples(ANY, ANY).map(lambda pair: {INDICES: pair[0], VALUES: pair[1]}),
    st.tuples(ANY, ANY, ANY).map(lambda parts: dict(zip((INDICES, LEVELS, SCALES), parts, strict=True))),
    st.integers(),
)
METRICS = st.dictionaries(
    st.sampled_from(["loss", "reach", "turnout.round"]), st.one_of(st.none(), st.floats(), st.integers())
)


@settings(max_examples=400, deadline=None)
@given(PARTS, METRICS)
def test_whatever_is_sent_nothing_raises_and_what_counts_is_finite(parts, metrics):
    result = check_parts(parts, metrics, ReplyRules(LAYOUT, t=4))
    if isinstance(result, Reply):
        assert np.isfinite([result.norm, result.reach]).all()
        assert all(np.isfinite(part).all() for part in result.update.values())
    else:
        assert result.reason
