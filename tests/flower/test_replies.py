import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from turnout.flower import Limits
from turnout.flower.server.driver import Driver
from turnout.flower.wire.client_metrics import Dropped
from turnout.flower.wire.layout import Layout
from turnout.flower.wire.replies import LONGEST, Reply, ReplyRules, check_loss, check_reply, check_size
from turnout.strategies import FedAvg

MODEL = {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float64), "count": np.array([3, 4])}
LAYOUT = Layout.of(MODEL)


def check(arrays, metrics=None, limits=None):
    metrics = {} if metrics is None else metrics
    return check_reply(arrays, metrics, MODEL, ReplyRules(LAYOUT, 4, limits or Limits(), reach=5.0))


def changed(**arrays):
    return {**MODEL, **arrays}


def test_a_good_reply_is_an_update():
    reply = check(changed(b=np.array([3.0, 4.0])), {"loss": 0.5, "reach": 7, "num-examples": 12, "turnout.round": 4})
    assert isinstance(reply, Reply)
    assert (reply.norm, reply.loss, reply.reach, reply.size) == (5.0, 0.5, 7.0, 12)
    assert set(reply.update) == {"w", "b"}
    np.testing.assert_array_equal(reply.update["b"], np.array([3.0, 4.0], np.float32))
    assert reply.update["b"].dtype == np.float32


def test_what_is_not_told_is_supposed():
    reply = check(MODEL)
    assert isinstance(reply, Reply)
    assert (reply.loss, reply.reach, reply.size) == (None, 5.0, 0)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"w": MODEL["w"], "b": MODEL["b"]}, "array 'count' is missing"),
        (changed(extra=MODEL["b"]), "array 'extra' is not part of the model"),
        (changed(w=np.ones((3, 2), np.float32)), r"array 'w' has shape \(3, 2\), not \(2, 3\)"),
        (changed(b=np.zeros(2, int)), "array 'b' has dtype int64, not float64"),
        (changed(count=np.zeros(2)), "array 'count' has dtype float64, not int64"),
        (changed(w=[[1.0] * 3] * 2), "array 'w' is a list, not a numpy array"),
        (changed(b=np.array([0.0, np.nan])), "array 'b' holds a value that is not finite"),
        (changed(b=np.array([0.0, np.inf])), "array 'b' holds a value that is not finite"),
        (changed(b=np.array([0.0, 1e300])), "its update has length inf, beyond the limit"),
        (changed(b=np.array([0.0, 2 * LONGEST])), "its update has length 2e"),
        (None, "it holds a NoneType"),
    ],
)
def test_bad_arrays_are_dropped_with_a_reason(arrays, reason):
    dropped = check(arrays)
    assert isinstance(dropped, Dropped)
    assert re.search(reason, dropped.reason)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"loss": float("nan")}, "'loss' is nan"),
        ({"loss": 1e13}, "'loss' is 1"),
        ({"loss": "low"}, "'loss' is 'low'"),
        ({"loss": True}, "'loss' is True"),
        ({"loss": [0.5, 0.25]}, "'loss' is [0.5, 0.25]"),
        ({"reach": 0.0}, "'reach' is 0.0; it must be a number above 0"),
        ({"reach": 10**400}, "'reach' is 1000"),
        ({"num-examples": 0}, "'num-examples' is 0"),
        ({"num-examples": 2.5}, "'num-examples' is 2.5"),
        ({"num-examples": float("nan")}, "'num-examples' is nan"),
    ],
)
def test_metrics_of_no_use_are_ignored_and_the_update_counts(metrics, reason):
    reply = check(changed(b=np.array([3.0, 4.0])), metrics)
    assert isinstance(reply, Reply)
    assert (reply.norm, reply.loss, reply.reach, reply.size) == (5.0, None, 5.0, 0)
    assert reason in reply.ignored[0]


def test_harmless_metrics_are_taken_as_they_are():
    metrics = {"num-examples": 12.0, "round": 99, "accuracy": [0.5, 0.7], "loss": 0.5}
    reply = check(changed(b=np.array([3.0, 4.0])), metrics)
    assert isinstance(reply, Reply)
    assert (reply.size, reply.loss, reply.ignored) == (12, 0.5, ())


def test_floats_of_another_precision_are_taken():
    other = {"w": MODEL["w"].astype(np.float64), "b": np.array([3.0, 4.0], np.float32), "count": np.zeros(2, np.int32)}
    reply = check(other)
    assert isinstance(reply, Reply)
    assert (reply.norm, reply.update["b"].dtype) == (5.0, np.float32)


def test_what_our_own_client_says_of_another_round_is_dropped():
    assert "it is for round 3, not for round 4" in check(MODEL, {"turnout.round": 3}).reason
    assert "it holds a dict and a list" in check(MODEL, [("loss", 1.0)]).reason


def test_a_norm_limit_drops_what_is_longer():
    long = changed(b=np.array([3.0, 4.0]))
    assert isinstance(check(long, limits=Limits(norm=5.0)), Reply)
    assert isinstance(check(long, limits=Limits(norm=4.9)), Dropped)
    with pytest.raises(ValueError, match="limit of norm must be above 0, not -1"):
        Limits(norm=-1.0)


def test_losses_and_sizes_alone():
    limits = Limits()
    assert check_loss({"loss": 0.25, "turnout.round": 1}, t=1, limits=limits) == 0.25
    assert isinstance(check_loss({}, t=1, limits=limits), Dropped)
    assert isinstance(check_loss({"loss": 0.25, "turnout.round": 1}, t=2, limits=limits), Dropped)
    assert isinstance(check_loss(None, t=2, limits=limits), Dropped)
    assert isinstance(check_loss({"loss": float("nan")}, t=1, limits=limits), Dropped)
    assert check_size({"num-examples": 3}) == check_size({"num-examples": 3.0}) == 3
    assert all(isinstance(check_size(bad), Dropped) for bad in (None, {}, {"num-examples": -1}))


def test_only_arrays_that_can_be_trained_or_carried_make_a_model():
    with pytest.raises(ValueError, match="array 'z' has dtype complex128"):
        Layout.of({"z": np.ones(2, complex)})
    with pytest.raises(ValueError, match="nothing to train: none of the 1 arrays"):
        Layout.of({"n": np.ones(2, int)})


def test_the_model_keeps_order_and_dtypes():
    back = LAYOUT.to_arrays(LAYOUT.to_params(MODEL))
    assert list(back) == list(MODEL)
    assert [array.dtype for array in back.values()] == [array.dtype for array in MODEL.values()]
    np.testing.assert_array_equal(back["count"], [3, 4])


NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)
DTYPES = st.one_of(arrays_of.floating_dtypes(), arrays_of.integer_dtypes(), arrays_of.unicode_string_dtypes(max_len=4))
ANY_ARRAY = DTYPES.flatmap(lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(max_dims=3, max_side=3)))
VALUES = st.one_of(
    ANY_ARRAY,
    arrays_of.arrays(np.float32, (2, 3)),
    arrays_of.arrays(np.float64, (2,)),
    st.just(MODEL["count"]),
    NUMBERS,
)
NAMES = st.one_of(st.sampled_from(["w", "b", "count"]), st.text(max_size=3))
TELLS = st.one_of(st.sampled_from(["loss", "reach", "num-examples", "turnout.round"]), st.text(max_size=3))
REPLIES = st.tuples(
    st.one_of(st.dictionaries(NAMES, VALUES, max_size=4), NUMBERS),
    st.one_of(st.dictionaries(TELLS, NUMBERS, max_size=4), NUMBERS),
)


@settings(max_examples=300, deadline=None)
@given(REPLIES)
def test_whatever_is_sent_nothing_raises_and_what_counts_is_finite(sent):
    found = check(*sent)
    if isinstance(found, Reply):
        assert np.isfinite([found.norm, found.loss, found.reach, found.size]).all()
        assert all(np.isfinite(part).all() for part in found.update.values())
    else:
        assert found.reason


@settings(max_examples=60, deadline=None)
@given(REPLIES)
def test_malformed_replies_leave_the_model_to_the_others(sent):
    """One client sends anything, the other something good: only what was found in order moves the model."""
    driver = DRIVER
    before = driver.arrays()
    orders = {order.client: order for order in driver.open_round(["good", "bad"])}
    found = check_reply(*sent, before, ReplyRules(driver.layout, driver.t, Limits(norm=1.0)))
    good = Reply({"w": np.zeros((2, 3), np.float32), "b": np.array([1.0, 0.0], np.float32)}, 1.0, 0.0, 1.0, 1)
    replies = {"good": good} | ({"bad": found} if isinstance(found, Reply) else {})
    assert set(orders) == {"good", "bad"}
    driver.close_round(replies)
    after = driver.arrays()
    if isinstance(found, Dropped):
        np.testing.assert_allclose(after["b"], before["b"] + [1.0, 0.0])
        np.testing.assert_array_equal(after["w"], before["w"])
    assert all(np.isfinite(part).all() for part in after.values())


DRIVER = Driver(FedAvg(), MODEL)
DRIVER.join({"good": 1.0, "bad": 1.0})
