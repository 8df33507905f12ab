import jax.numpy as jnp
import numpy as np
import pytest
from naive import NaiveCAFed, ca_fed_kept

from turnout.strategies import CAFed, MoreAvailable, Unbiased
from turnout.strategies.ca_fed import CAFedState, _as_bits, _order, exclude


def kept_by(alpha, pi, lam, gap, bias, tolerance=0.0, clusters=None):
    arrays = [jnp.asarray(values, jnp.float32) for values in (alpha, pi, lam, gap)]
    assignment = None if clusters is None else jnp.asarray(clusters, jnp.int32)
    return np.asarray(exclude(*arrays, jnp.zeros(len(alpha)), bias, tolerance, assignment))


def test_three_rounds_by_hand(play):
    """Equal targets, c = 1. Round 1: gaps 0, 1, 3, so ε is 4/3 with all, and without client 2 1/2 + 3/9 = 5/6.

    Leaving out client 1, too, would give 0 + 3 · 4/9 = 4/3 and client 0 does worse: 0 and 1 train, with weight α/π.
    """
    game = play(CAFed(factor=1.0), pi=[1.0, 0.5, 0.25], lam=[0.0, 0.5, -0.9])
    assert game.round([1, 1, 1], [1.0, 1.0, 1.0], losses=[1.0, 1.0, 1.0]) == pytest.approx((1 + 2 + 4) / 3)
    before = float(game.state.params[0])
    assert game.round([1, 1, 1], [1.0, 1.0, 9.0], losses=[1.0, 2.0, 4.0]) == pytest.approx(before + (1 + 2) / 3)
    np.testing.assert_array_equal(game.asked, [True, True, False])
    # Only client 2 is here and its loss is at its minimum again: gaps 0, 1, 0. Without client 1: 0 + 1/9 < 1/3.
    before = float(game.state.params[0])
    assert game.round([0, 0, 1], [1.0, 1.0, 9.0], losses=[0.0, 0.0, 1.0]) == pytest.approx(before + 9 * 4 / 3)


def test_memory_is_the_weight_of_the_past(play):
    game = play(CAFed(memory=0.25))
    game.round([1, 0, 0], [0.0] * 3, losses=[8.0, 0.0, 0.0])
    game.round([1, 1, 0], [0.0] * 3, losses=[4.0, 3.0, 0.0])
    state = game.state.strategy
    np.testing.assert_allclose(state.loss, [0.25 * 8 + 0.75 * 4, 0.25 * 8 + 0.75 * 3, 8.0])
    np.testing.assert_allclose(state.best, [5.0, 4.25, 8.0])
    np.testing.assert_array_equal(state.seen, [True, True, False])


def test_the_estimate_of_a_client_never_seen_stays_at_the_mean_of_the_first_round(play):
    game = play(CAFed())
    game.round([0, 0, 0], [0.0] * 3, losses=[7.0, 7.0, 7.0])  # nobody is there: no estimate yet
    game.round([1, 1, 0], [0.0] * 3, losses=[4.0, 2.0, 9.0])
    np.testing.assert_allclose(game.state.strategy.loss, [4.0, 2.0, 3.0])
    game.round([1, 1, 0], [0.0] * 3, losses=[1.0, 1.0, 9.0])
    np.testing.assert_allclose(game.state.strategy.loss, [1.0, 1.0, 3.0])
    game.round([0, 0, 1], [0.0] * 3, losses=[9.0, 9.0, 5.0])
    np.testing.assert_allclose(game.state.strategy.loss, [1.0, 1.0, 5.0])
    np.testing.assert_allclose(game.state.strategy.best, [1.0, 1.0, 3.0])


def test_or_follows_the_mean_of_the_others(play):
    state = CAFedState(
        loss=jnp.array([4.0, 2.0, 0.0]), best=jnp.array([1.0, 2.0, 0.0]), seen=jnp.array([True, True, False])
    )
    loss, best = CAFed(unseen="mean")._fill_unseen(state)
    np.testing.assert_allclose(loss, [4.0, 2.0, 3.0])
    np.testing.assert_allclose(best, [1.0, 2.0, 1.5])
    _, known = CAFed(unseen="mean", optimum=0.5)._fill_unseen(state)
    np.testing.assert_allclose(known, [0.5, 0.5, 0.5])
    game = play(CAFed(unseen="mean", memory=0.25))
    game.round([1, 0, 0], [0.0] * 3, losses=[8.0, 0.0, 0.0])
    game.round([1, 1, 0], [0.0] * 3, losses=[4.0, 3.0, 0.0])
    np.testing.assert_allclose(game.state.strategy.loss, [5.0, 3.0, 0.0])


def test_an_infinite_optimum_is_the_running_minimum():
    state = CAFedState(jnp.array([3.0, 1.0, 0.0]), jnp.array([2.0, 1.0, 0.0]), jnp.array([True, True, False]))
    for found, plain in zip(CAFed(optimum=jnp.inf)._fill_unseen(state), CAFed()._fill_unseen(state), strict=True):
        np.testing.assert_array_equal(found, plain)


def test_a_first_round_without_anybody_leaves_nobody_out_later(play):
    game = play(CAFed(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3, losses=[0.0] * 3) == 4.0
    game.round([1, 1, 1], [1.0] * 3, losses=[3.0, 1.0, 2.0])
    assert game.asked.all()


def test_exclude_is_the_direct_form():
    draw = np.random.default_rng(0)
    sizes = []
    for trial in range(300):
        count = (1, 4, 11, 24)[trial % 4]
        alpha = draw.dirichlet(np.full(count, 2.0))
        pi, lam = draw.uniform(0.05, 1, count), draw.uniform(-0.5, 0.95, count)
        pi[draw.random(count) < 0.05] = 0.0
        if not pi.any():
            continue
        gap = draw.exponential(1.0, count) * (draw.random(count) < 0.8)
        bias, tolerance = float(draw.choice([0.1, 1.0, 4.0, 40.0])), float(draw.choice([0.0, 0.01]))
        clusters = None if trial % 3 else draw.integers(0, max(1, count // 2), count).tolist()
        alpha, pi, lam, gap = (values.astype(np.float32).astype(float) for values in (alpha, pi, lam, gap))
        wanted = ca_fed_kept(alpha, pi, lam, gap, bias, tolerance, clusters)
        if gap.max() > 0:
            np.testing.assert_array_equal(kept_by(alpha, pi, lam, gap, bias, tolerance, clusters), wanted)
            sizes.append(np.mean(wanted))
    assert len(sizes) > 250
    assert 0.2 < np.mean(sizes) < 0.9  # neither trivial


def test_ties_are_accepted_and_the_last_client_is_kept():
    """All gaps zero: by the letter of algorithm 1 everybody goes but the one tried last, the least correlated."""
    quarter = [0.25] * 4
    np.testing.assert_array_equal(kept_by(quarter, [0.5] * 4, [0.1, -0.9, 0.3, 0.2], [0.0] * 4, 1.0), [1, 0, 0, 0])
    np.testing.assert_array_equal(kept_by(quarter, [0.5] * 4, [0.3, 0.3, 0.3, 0.3], [0.0] * 4, 1.0), [0, 0, 0, 1])
    np.testing.assert_array_equal(kept_by(quarter, [0.5] * 4, [0.1] * 4, [0.0] * 4, 1.0, tolerance=1e-6), [1] * 4)
    np.testing.assert_array_equal(kept_by([1.0], [0.5], [0.9], [3.0], 0.0), [True])


def test_who_cannot_come_is_not_kept():
    np.testing.assert_array_equal(kept_by([0.5, 0.5, 0.0], [0.0, 0.5, 1.0], [0.0] * 3, [1.0] * 3, 9.0), [0, 1, 0])


@pytest.mark.parametrize("unseen", ["first", "mean"])
def test_fifty_rounds_as_the_paper_prints_them(play, unseen):
    draw = np.random.default_rng(1)
    importance = draw.uniform(0.5, 2.0, 9).astype(np.float32)
    pi, lam = draw.uniform(0.1, 0.9, 9).astype(np.float32), draw.uniform(-0.4, 0.9, 9).astype(np.float32)
    alpha = (importance / importance.sum()).astype(float)
    naive = NaiveCAFed(alpha, pi.astype(float), lam.astype(float), bias=4 * 0.3, memory=0.2, unseen=unseen)
    game = play(CAFed(kappa=0.3, memory=0.2, unseen=unseen), importance=tuple(importance), pi=pi, lam=lam)
    left_out = 0
    for t in range(50):
        available = (draw.random(9) < pi) & (t % 10 != 0)
        losses = np.where(available, np.exp(-t / 20) + draw.exponential(0.3, 9), 0.0).astype(np.float32)
        updates = draw.normal(size=9).astype(np.float32)
        before = float(game.state.params[0])
        weights = np.array(naive.weights(available, losses.astype(float)))
        after = game.round(available, updates, losses=losses)
        np.testing.assert_array_equal(game.asked, weights > 0)
        assert after == pytest.approx(before + weights @ updates, abs=1e-5)
        left_out += int(available.sum() - (weights > 0).sum())
    assert left_out > 20


def run_both(play, one, other, rounds=30):
    """Whom two strategies ask and where they get to, when rare clients are behind with their loss."""
    pi = [0.9, 0.9, 0.9, 0.1, 0.1, 0.1]
    draw = np.random.default_rng(2)
    told = {"importance": (1.0,) * 6, "pi": pi, "lam": [0.0, 0.0, 0.0, 0.3, 0.6, 0.9]}
    games = [play(strategy, **told) for strategy in (one, other)]
    for t in range(rounds):
        available = draw.random(6) < np.array(pi)
        losses = [1.0] * 3 + [3.0] * 3 if t else [0.9] * 3 + [1.0] * 3
        available |= t < 2
        updates = draw.normal(size=6)
        for game in games:
            game.round(available, updates, losses=losses)
        if t > 0:
            np.testing.assert_array_equal(games[0].asked, games[1].asked)
            np.testing.assert_allclose(games[0].cohort.weight, games[1].cohort.weight)


def test_a_large_kappa_is_unbiased_client_by_client(play):
    run_both(play, CAFed(kappa=1e6), Unbiased())


def test_a_small_kappa_is_more_available_where_the_rare_are_behind(play):
    run_both(play, CAFed(kappa=1e-3), MoreAvailable(), rounds=2)


def spatial(gap, bias, clusters=True):
    """Clusters left out in the setting of figure 5: ten of ten clients, the rare five ever more correlated."""
    cluster = np.repeat(np.arange(10), 10)
    pi, lam = np.where(cluster < 5, 0.9, 0.1), np.where(cluster < 5, 0.0, cluster / 10)
    kept = kept_by(np.full(100, 0.01), pi, lam, np.asarray(gap)[cluster], bias, 0.0, cluster if clusters else None)
    by_cluster = kept.reshape(10, 10)
    return by_cluster, {c for c in range(10) if not by_cluster[c].any()}


def test_whole_clusters_go_in_the_order_of_their_correlation():
    """Homogeneous data: a gap is how far a loss is out of date, larger for the rare and more so for the correlated.

    The smaller the factor, the more clusters go: 9 first, then 8, 7 and 6.
    """
    gap = [0.5] * 5 + [0.6, 0.8, 0.9, 1.0, 1.1]
    found = []
    for bias in (20.0, 3.0, 1.0, 0.7, 0.5):
        by_cluster, gone = spatial(gap, bias)
        assert (by_cluster.all(axis=1) | ~by_cluster.any(axis=1)).all()
        found.append(gone)
    assert found == [set(), {9}, {8, 9}, {7, 8, 9}, {6, 7, 8, 9}]


def test_equal_gaps_leave_nobody_out():
    """Homogeneous and all equally out of date: leaving anybody out only adds bias, at any factor above zero."""
    assert spatial([1.0] * 10, 1e-3)[1] == set()
    assert spatial([1.0] * 10, 1e-3, clusters=False)[0].all()


def test_a_cluster_of_small_gap_stays():
    """Figure 5b: cluster 8 happens to be close to its minimum, and stays although its runs are long."""
    assert spatial([0.5] * 5 + [0.6, 0.8, 0.9, 0.2, 1.1], 0.5)[1] == {6, 7, 9}


def test_a_cohort_is_drawn_among_the_kept_and_its_weights_rescaled(play):
    game = play(CAFed(cohort=2), importance=(1.0,) * 4)
    game.round([1, 1, 1, 0], [1.0] * 4, losses=[1.0] * 4)
    assert game.asked.sum() == 2
    assert not game.asked[3]
    np.testing.assert_allclose(game.cohort.weight[game.cohort.uploading], 0.25 / 0.5 * 3 / 2)


def test_a_million_clients_are_decided_as_the_many_they_stand_for():
    """Ten thousand copies of each of a hundred clients: who is kept does not depend on their number."""
    draw = np.random.default_rng(3)
    pi, lam = draw.uniform(0.1, 1, 100), draw.uniform(0, 0.9, 100)
    gap = draw.integers(0, 5, 100).astype(float)
    few = kept_of(*(jnp.asarray(np.repeat(v, 10), jnp.float32) for v in (pi, lam, gap)))
    many = kept_of(*(jnp.asarray(np.repeat(v, 10_000), jnp.float32) for v in (pi, lam, gap)))
    share_few = np.asarray(few).reshape(100, -1).mean(axis=1)
    share_many = np.asarray(many).reshape(100, -1).mean(axis=1)
    assert 0.1 < share_many.mean() < 0.9
    np.testing.assert_allclose(share_many, share_few, atol=0.1)


@pytest.mark.parametrize("count", [10, 70_000])
def test_the_order_is_that_of_a_stable_sort(count):
    values = np.random.default_rng(5).uniform(0, 1, count).round(3).astype(np.float32)
    bits = _as_bits(jnp.asarray(values))
    np.testing.assert_array_equal(_order(bits), np.argsort(values, kind="stable"))
    np.testing.assert_array_equal(_order(~bits), np.argsort(-values, kind="stable"))


def kept_of(pi, lam, gap):
    count = pi.shape[0]
    return exclude(jnp.full(count, 1 / count), pi, lam, gap, jnp.zeros(count), 1.0)


def test_clusters_that_do_not_fit_are_refused(play):
    with pytest.raises(ValueError, match="each of the 3 clients"):
        play(CAFed(clusters=[0, 1]))
    with pytest.raises(ValueError, match="numbered from 0"):
        play(CAFed(clusters=[0, 1, 3]))
