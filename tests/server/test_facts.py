import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.availability.markov import markov
from turnout.server.facts import Online, Oracle
from turnout.types import Answer, Ask, Cohort, Fleet, Known, Reports, View


def observe(facts, state, available, arrived=None, reach=None):
    num_clients = len(available)
    mask = jnp.asarray(available, bool)
    known = Known(*[jnp.ones(num_clients)] * 4)
    view = View(jnp.asarray(0), jnp.ones(num_clients), mask, known, 0.1, None, slots=num_clients)
    cohort = Cohort.pack(Ask.of(mask, jnp.ones(num_clients)), num_clients, lr=0.1)
    came = cohort.uploading if arrived is None else cohort.uploading & cohort.take(jnp.asarray(arrived, bool))
    cohort = Cohort(**{**vars(cohort), "arrived": came})
    told = jnp.ones(num_clients) if reach is None else cohort.take(jnp.asarray(reach, jnp.float32))
    reports = Reports.of(cohort, Answer(jnp.zeros((num_clients, 1))), told, told)
    return facts.observe(state, view, cohort, reports)


def test_an_oracle_tells_the_truth_and_needs_it():
    truth = Known(*[jnp.ones(2)] * 4)
    assert Oracle().read(None, truth) is truth
    with pytest.raises(ValueError, match="Online"):
        Oracle().read(None, None)


def test_estimates_by_hand():
    facts, fleet = Online(), Fleet(jnp.ones(2))
    state = facts.init(fleet)
    for available in ([1, 0], [1, 1], [0, 1], [1, 1]):
        state = observe(facts, state, available)
    known = facts.read(state, None)
    np.testing.assert_allclose(known.pi, [(3 + 1) / (4 + 2), (3 + 1) / (4 + 2)], rtol=1e-6)
    stay_on = np.array([(1 + 1) / (2 + 2), (2 + 1) / (2 + 2)])
    stay_off = np.array([(0 + 1) / (1 + 2), (0 + 1) / (1 + 2)])
    np.testing.assert_allclose(known.lam, stay_on + stay_off - 1, rtol=1e-5)


def test_what_was_watched_counts_but_does_not_run_into_round_0():
    facts = Online(past=2)
    state = facts.init(Fleet(jnp.ones(2)))
    for available in ([1, 0], [1, 1]):
        state = facts.watch(state, jnp.asarray(available, bool))
    state = facts.open(state)
    for available in ([0, 1], [0, 0]):
        state = observe(facts, state, available)
    known = facts.read(state, None)
    np.testing.assert_allclose(known.pi, [(2 + 1) / (4 + 2), (2 + 1) / (4 + 2)], rtol=1e-6)
    # Two transitions each, on-on and off-off, off-on and on-off; that from the past to round 0 is none.
    np.testing.assert_allclose(known.lam, [2 / 3 + 2 / 3 - 1, 1 / 3 + 1 / 3 - 1], atol=1e-6)
    with pytest.raises(ValueError, match="past must be a whole number from 0"):
        Online(past=-1)


def test_a_long_past_tells_the_truth():
    process = markov(3, [0.1, 0.5, 0.9], [0.5, 0.0, 0.8])
    facts = Online(past=20_000)
    state = facts.watch_past(facts.init(Fleet(jnp.ones(3))), process, jr.key(0))
    known = facts.read(state, None)
    np.testing.assert_allclose(known.pi, process.stationary(), atol=0.03)
    np.testing.assert_allclose(known.lam, process.correlation(), atol=0.03)


def test_links_and_reach_by_hand():
    facts = Online()
    state = facts.init(Fleet(jnp.ones(3)))
    state = observe(facts, state, [1, 1, 0], arrived=[1, 0, 0], reach=[5, 9, 9])
    state = observe(facts, state, [1, 1, 0], arrived=[1, 1, 0], reach=[7, 3, 9])
    known = facts.read(state, None)
    np.testing.assert_allclose(known.success, [1.0, 2 / 3, 1.0], rtol=1e-6)
    np.testing.assert_allclose(known.reach, [6.0, 3.0, 5.0], rtol=1e-6)


def test_before_anything_is_seen_the_prior_speaks():
    facts = Online(prior_on=1.0, prior_off=3.0)
    known = facts.read(facts.init(Fleet(jnp.ones(2))), None)
    np.testing.assert_allclose(known.pi, 0.25)
    np.testing.assert_allclose(known.lam, 0.0, atol=1e-7)
    np.testing.assert_allclose(known.reach, 1.0)


@pytest.mark.parametrize("lam", [0.9, 0.0, -0.3])
def test_correlation_is_estimated_consistently(lam):
    """Counts are divided by the visits to the origin state: a true 0.9 is read as 0.9, not as 0."""
    process, facts = markov(30, pi=0.5, lam=lam), Online()
    state = facts.init(Fleet(jnp.ones(30)))

    def body(carry, t):
        chain, seen = carry
        chain, mask = process.step(chain, t, jr.fold_in(jr.key(1), t))
        return (chain, observe(facts, seen, mask)), None

    (_, state), _ = jax.lax.scan(body, (process.init(jr.key(0)), state), jnp.arange(5000))
    known = facts.read(state, None)
    assert np.abs(np.asarray(known.lam) - lam).max() < 0.07
    assert abs(float(np.mean(known.lam)) - lam) < 0.01
    np.testing.assert_array_less(np.abs(np.asarray(known.lam)[:5] - lam), 0.05)


def test_a_client_keeps_its_own_estimate():
    facts = Online()
    state = facts.init(Fleet(jnp.ones(3)))
    for _ in range(50):
        state = observe(facts, state, [1, 0, 1])
    pi = np.asarray(facts.read(state, None).pi)
    assert pi[0] == pi[2] > 0.95
    assert pi[1] < 0.05
