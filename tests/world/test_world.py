import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.availability.bernoulli import bernoulli
from turnout.types import Ask, Cohort
from turnout.world import World, compute, links


def play(step, state, rounds):
    def body(carry, t):
        carry, *rest = step(carry, t, jr.fold_in(jr.key(0), t))
        return carry, rest

    return jax.lax.scan(body, state, jnp.arange(rounds))[1]


def test_perfect_links_deliver_everything():
    _, delivers, success = links.perfect(3).step(None, 0, jr.key(0))
    assert bool(delivers.all())
    np.testing.assert_array_equal(success, 1.0)


def test_bernoulli_links_deliver_at_their_rate():
    law = links.bernoulli(3, [0.2, 0.5, 1.0])
    delivers, _ = play(law.step, None, 4000)
    np.testing.assert_allclose(delivers.mean(axis=0), [0.2, 0.5, 1.0], atol=0.04)


def test_redrawn_links_stay_in_their_range_and_deliver_by_it():
    law = links.redrawn(2, [0.5, 0.9], [0.6, 1.0])
    delivers, success = play(law.step, None, 4000)
    assert float(success[:, 0].min()) >= 0.5
    assert float(success[:, 0].max()) <= 0.6
    assert np.asarray(success).std(axis=0).min() > 0.02
    np.testing.assert_allclose(delivers.mean(axis=0), [0.55, 0.95], atol=0.04)


def test_what_is_drawn_once_fills_its_range_and_follows_its_seed():
    success = np.asarray(links.drawn(2000, 0.4, 1.0).mean_success())
    assert 0.4 <= success.min() < 0.41
    assert 0.99 < success.max() <= 1.0
    steps = np.asarray(compute.drawn(2000, 1, 19).step(0, jr.key(0)))
    assert set(steps) == set(range(1, 20))
    np.testing.assert_array_equal(steps, compute.drawn(2000, 1, 19).step(7, jr.key(7)))
    assert (steps != np.asarray(compute.drawn(2000, 1, 19, seed=1).step(0, jr.key(0)))).any()


def test_bursty_links_have_the_stated_mean_and_runs_of_failure():
    law = links.bursty(50, good=1.0, bad=0.0, fail=0.1, heal=0.2)
    delivers, success = play(law.step, law.init(jr.key(1)), 4000)
    np.testing.assert_allclose(success[0], 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(delivers.mean(), 2 / 3, atol=0.02)
    lost = ~np.asarray(delivers)
    stays = (lost[1:] & lost[:-1]).sum() / lost[:-1].sum()
    assert stays == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: links.bernoulli(3, 1.2), "success must be a number from 0 to 1 or a list"),
        (lambda: links.bernoulli(3, [0.5, -0.1, 0.5]), r"success\[1\] must be a number from 0 to 1, not -0.1"),
        (lambda: links.bernoulli(3, [0.5, 0.5]), r"success has shape \(2,\): give one number, or one per client \(3\)"),
        (lambda: links.redrawn(2, [0.1, 0.9], [0.2, 0.8]), "low must not exceed high.*client 1"),
        (lambda: links.drawn(2, 0.9, 0.8), "low must not exceed high, but 0.9 > 0.8"),
        (lambda: links.drawn(2, 0.9, 1.8), "high must be a number from 0 to 1, not 1.8"),
        (lambda: compute.drawn(2, 5, 4), "low must not exceed high, but 5 > 4"),
        (lambda: links.bursty(2, fail=0.0, heal=0.0), "must not both be 0"),
        (lambda: compute.per_client(2, [1, -1]), "from 0 to 16,777,216"),
        (lambda: compute.fixed(2, 2**31), "from 1 to 16,777,216, not 2147483648"),
        (
            lambda: compute.per_client(2, 10_000, "epochs", sizes=jnp.array([10, 10**6]), batch_size=1),
            "client 1 does 10,000,000,000 local steps, by steps = 10,000: must be at most 16,777,216",
        ),
        (
            lambda: compute.redrawn(2, 1, 10_000, "epochs", sizes=jnp.array([10, 10**6]), batch_size=1),
            "client 1 does 10,000,000,000 local steps, by high = 10,000",
        ),
        (lambda: compute.redrawn(2, [1, 5], [3, 4]), "low must not exceed high.*client 1"),
        (lambda: compute.fixed(2, 1, "epochs"), "needs the clients' sizes"),
        (
            lambda: compute.per_client(2, 1, "epochs", sizes=jnp.array([10, 10, 10]), batch_size=1),
            "sizes has 3 values for 2 clients",
        ),
        (
            lambda: compute.per_client(2, 1, "epochs", sizes=jnp.array([10, -1]), batch_size=1),
            r"sizes\[1\] must be a finite number of 0 or more, not -1",
        ),
    ],
)
def test_bad_input_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_epochs_count_the_batches_of_each_client():
    law = compute.fixed(3, 2, "epochs", sizes=jnp.array([10, 32, 33], jnp.int32), batch_size=32)
    np.testing.assert_array_equal(law.step(0, jr.key(0)), [2, 2, 4])
    assert law.most == 4
    assert law.common is None


def test_redrawn_steps_cover_their_range_ends_included():
    law = compute.redrawn(1, 2, 4)
    steps = np.array([int(law.step(t, jr.key(t))[0]) for t in range(60)])
    assert set(steps) == {2, 3, 4}
    assert law.most == 4


def test_parts_must_speak_of_the_same_fleet():
    with pytest.raises(ValueError, match="links describes 3 clients, but the availability 2"):
        World(bernoulli(2, 0.5), links.perfect(3))
    with pytest.raises(ValueError, match="compute describes 4 clients, but the availability 2"):
        World(bernoulli(2, 0.5), compute=compute.per_client(4, 1))


def test_a_world_tells_the_law_only_where_there_is_one():
    law = World(bernoulli(2, [0.25, 0.5])).law()
    np.testing.assert_allclose(law.pi, [0.25, 0.5])
    np.testing.assert_allclose(law.lam, 0.0, atol=1e-7)


def test_only_the_asked_can_arrive():
    scene = World(bernoulli(3, 1.0), links.bernoulli(3, [1.0, 0.0, 1.0]))
    _, nature = scene.step(scene.init(jr.key(0)), jr.key(0), 0)
    cohort = Cohort.pack(Ask.of(jnp.array([True, True, False]), jnp.ones(3)), 3, lr=0.1)
    np.testing.assert_array_equal(nature.deliver(cohort).arrived, [True, False, False])
