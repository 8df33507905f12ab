import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.tasks.data.partition import (
    TEST,
    TRAIN,
    VALIDATION,
    alike,
    by_id,
    dirichlet,
    divide,
    draw_groups,
    iid,
    label_counts,
    names_of,
    one_class_a_client,
    pathological,
    power_law,
    random_pairs,
    shards,
    swap_labels,
)

seeds = st.integers(0, 2**32 - 1)


def some_labels(count, classes=5, seed=0):
    return np.random.default_rng(seed).integers(0, classes, count)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 200), num_clients=st.integers(1, 50), seed=seeds)
def test_iid_deals_evenly(count, num_clients, seed):
    if count < num_clients:
        with pytest.raises(ValueError, match=f"ask for {count} clients at most"):
            iid(some_labels(count), num_clients, seed)
        return
    sizes = np.bincount(iid(some_labels(count), num_clients, seed), minlength=num_clients)
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=40, deadline=None)
@given(num_clients=st.integers(1, 40), alpha=st.floats(0.01, 100), min_size=st.integers(1, 5), seed=seeds)
def test_dirichlet_gives_everyone_enough_and_repeats_itself(num_clients, alpha, min_size, seed):
    labels = some_labels(200)
    owners = dirichlet(labels, num_clients, alpha, min_size, seed)
    sizes = np.bincount(owners, minlength=num_clients)
    assert sizes.size == num_clients
    assert sizes.sum() == 200
    assert sizes.min() >= min_size
    np.testing.assert_array_equal(owners, dirichlet(labels, num_clients, alpha, min_size, seed))


def test_dirichlet_shares_have_the_mean_and_variance_of_the_law():
    labels = np.zeros(20_000, int)
    shares = np.stack(
        [np.bincount(dirichlet(labels, 5, 0.5, seed=seed), minlength=5) / labels.size for seed in range(400)]
    )
    # Dirichlet(a) over N: mean 1/N, variance (1/N)(1 − 1/N)/(Na + 1).
    assert shares.mean() == pytest.approx(0.2)
    np.testing.assert_allclose(shares.mean(axis=0), 0.2, atol=0.04)
    assert shares.var(axis=0).mean() == pytest.approx(0.2 * 0.8 / 3.5, rel=0.1)


def test_small_alpha_means_few_classes():
    labels = some_labels(5000, classes=10)

    def classes_held(alpha):
        owners = dirichlet(labels, 10, alpha)
        return np.mean([np.unique(labels[owners == k]).size for k in range(10)])

    assert classes_held(0.05) < 5 < 9.5 < classes_held(100.0)


@settings(max_examples=30, deadline=None)
@given(num_clients=st.integers(5, 40), seed=seeds)
def test_one_class_a_client(num_clients, seed):
    labels = np.concatenate([np.repeat(np.arange(5), 8), some_labels(100)])
    owners = one_class_a_client(labels, num_clients, seed)
    assert np.unique(owners).size == num_clients
    np.testing.assert_array_equal(owners % 5, labels)  # client k holds class k mod C
    for label in range(5):
        sizes = np.bincount(owners[labels == label])[label::5]
        assert sizes.max() - sizes.min() <= 1


def test_some_samples_of_one_class_clients_go_to_everybody():
    labels = np.repeat(np.arange(4), 1000)
    own = labels == np.arange(8)[one_class_a_client(labels, 8, 0, similarity=0.2)] % 4
    assert own.mean() == pytest.approx(0.8 + 0.2 / 4, abs=0.02)
    everywhere = one_class_a_client(labels, 8, 0, similarity=1.0)
    assert (np.bincount(everywhere) == 500).all()


@settings(max_examples=30, deadline=None)
@given(num_clients=st.integers(5, 20), per_client=st.integers(1, 5), seed=seeds)
def test_pathological_clients_hold_so_many_classes_and_all_are_held_alike(num_clients, per_client, seed):
    labels = 3 * np.random.default_rng(0).permutation(np.repeat(np.arange(5), 40))
    owners = pathological(labels, num_clients, per_client, seed)
    np.testing.assert_array_equal(owners, pathological(labels, num_clients, per_client, seed))
    held = label_counts(labels // 3, owners, num_clients) > 0
    assert (held.sum(axis=1) == per_client).all()
    assert np.ptp(held.sum(axis=0)) <= 1


@settings(max_examples=30, deadline=None)
@given(num_clients=st.integers(1, 20), per_client=st.integers(1, 5), count=st.integers(100, 200), seed=seeds)
def test_shards_are_stretches_of_sorted_samples(num_clients, per_client, count, seed):
    labels = some_labels(count)
    owners = shards(labels, num_clients, per_client, seed)
    np.testing.assert_array_equal(owners, shards(labels, num_clients, per_client, seed))
    sizes = np.bincount(owners, minlength=num_clients)
    assert np.ptp(sizes) <= per_client
    # A stretch that is no longer than the smallest class covers two classes at most.
    if count // (num_clients * per_client) < np.bincount(labels).min():
        assert (label_counts(labels, owners, num_clients) > 0).sum(axis=1).max() <= 2 * per_client


def test_shards_as_mcmahan_has_them():
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
    counts = label_counts(labels, shards(labels, 100), 100)
    assert set(counts[counts > 0].tolist()) == {3, 6}  # 200 shards of 3, 20 of each class
    assert (counts.sum(axis=1) == 6).all()


def test_sizes_by_a_power_law():
    sizes = np.bincount(power_law(np.zeros(1100, int), 3, exponent=1.0), minlength=3)
    assert sorted(sizes.tolist()) == [200, 300, 600]  # 1100 in proportions 1 : 1/2 : 1/3
    least = np.bincount(power_law(np.zeros(1130, int), 3, exponent=1.0, min_size=10), minlength=3)
    assert sorted(least.tolist()) == [210, 310, 610]
    assert np.bincount(power_law(np.zeros(30, int), 3, exponent=0.0)).tolist() == [10, 10, 10]
    largest = {int(np.bincount(power_law(np.zeros(100, int), 4, 2.0, seed=seed)).argmax()) for seed in range(20)}
    assert largest == {0, 1, 2, 3}


def test_ids_may_be_names():
    ids = np.array(["oslo", "lyon", "oslo", "bern"])
    assert by_id(ids).tolist() == [2, 1, 2, 0]
    assert by_id(ids, min_size=2).tolist() == [0, -1, 0, -1]
    assert names_of(ids, by_id(ids)) == ("bern", "lyon", "oslo")
    assert names_of(ids, by_id(ids, min_size=2)) == ("oslo",)


@settings(max_examples=40, deadline=None)
@given(
    owners=st.lists(st.integers(0, 6), min_size=1, max_size=80),
    validation=st.floats(0, 0.5),
    test=st.floats(0, 0.49),
    seed=seeds,
)
def test_divide_holds_out_the_floor_of_each_share(owners, validation, test, seed):
    owners = np.array(owners)
    parts = divide(owners, validation, test, seed)
    for client in np.unique(owners):
        mine = parts[owners == client]
        assert (mine == TEST).sum() == int(test * mine.size + 1e-9)
        assert (mine == VALIDATION).sum() == int(validation * mine.size + 1e-9)
        assert (mine == TRAIN).any()


def test_divide_rounds_as_meant_and_draws_at_random():
    owners = np.zeros(100, int)
    parts = divide(owners, test=0.29)  # 0.29 · 100 is 28.999… in floats
    assert (parts == TEST).sum() == 29
    assert parts.tolist() != divide(owners, test=0.29, seed=1).tolist()
    with pytest.raises(ValueError, match="together less than one"):
        divide(owners, 0.5, 0.5)


@settings(max_examples=30, deadline=None)
@given(labels=st.lists(st.integers(0, 9), min_size=1, max_size=50), count=st.integers(0, 5), seed=seeds)
def test_swapping_twice_changes_nothing_and_others_keep_their_labels(labels, count, seed):
    labels = np.array(labels)
    owners = np.arange(labels.size) % 4
    group = np.array([False, True, False, True])
    pairs = random_pairs(10, count, seed)
    swapped = swap_labels(labels, owners, group, pairs)
    np.testing.assert_array_equal(swapped[~group[owners]], labels[~group[owners]])
    np.testing.assert_array_equal(swap_labels(swapped, owners, group, pairs), labels)
    table = {a: b for pair in pairs for a, b in (pair, pair[::-1])}
    expected = [table.get(y, y) if group[k] else y for y, k in zip(labels.tolist(), owners, strict=True)]
    assert swapped.tolist() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dirichlet(some_labels(10), 2, 0.0), "must be positive"),
        (lambda: dirichlet(some_labels(10), 4, 1.0, min_size=3), "ask for 3 clients at most"),
        (lambda: iid(some_labels(10), 0), "both must be one or more"),
        (lambda: one_class_a_client(some_labels(100), 3), "ask for more clients"),
        (lambda: one_class_a_client(np.repeat([0, 7], 2), 6), "class 0 has 2 samples for the 3 clients that hold it"),
        (lambda: pathological(some_labels(100), 10, 6), "per_client must be from 1 to 5"),
        (lambda: pathological(some_labels(100), 2, 2), "num_clients times per_client at least 5"),
        (lambda: shards(some_labels(10), 4, 3), "ask for 3 clients at most"),
        (lambda: shards(some_labels(10), 4, 0), "needs one shard or more"),
        (lambda: power_law(some_labels(10), 4, -1.0), "must be a number from 0 on"),
        (lambda: power_law(some_labels(10), 4, min_size=3), "ask for 3 clients at most"),
        (lambda: random_pairs(10, 6), "at most 5 exist"),
        (lambda: swap_labels(some_labels(4), np.zeros(4, int), np.array([True]), [(0, 1), (1, 2)]), "a label twice"),
    ],
)
def test_impossible_partitions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=st.integers(1, 6), data=st.data())
def test_ids_become_clients_with_all_their_samples(sizes, min_size, data):
    writers = np.random.default_rng(0).permutation(np.repeat(3 * np.arange(len(sizes)), sizes))
    enough = sum(size >= min_size for size in sizes)
    if enough == 0:
        with pytest.raises(ValueError, match="asked of 0 ids"):
            by_id(writers, min_size=min_size)
        return
    count, seed = data.draw(st.integers(1, enough)), data.draw(seeds)
    owners = by_id(writers, count, min_size, seed)
    np.testing.assert_array_equal(owners, by_id(writers, count, min_size, seed))
    assert sorted(set(owners.tolist()) - {-1}) == list(range(count))
    for client in range(count):
        (writer,) = set(writers[owners == client].tolist())
        assert (owners[writers == writer] == client).all()
        assert (writers == writer).sum() >= min_size
    assert by_id(writers, None, min_size).max() + 1 == enough


@settings(max_examples=40, deadline=None)
@given(num_clients=st.integers(1, 12), alpha=st.floats(0.05, 10), count=st.integers(1, 300), seed=seeds)
def test_other_samples_follow_each_clients_own_law(num_clients, alpha, count, seed):
    owned, others = some_labels(200, seed=1), some_labels(count, classes=6, seed=2)
    owners = dirichlet(owned, num_clients, alpha, seed=seed)
    dealt = alike(others, owned, owners, num_clients, seed)
    np.testing.assert_array_equal(dealt, alike(others, owned, owners, num_clients, seed))
    assert dealt.min() >= 0
    assert dealt.max() < num_clients
    given_counts, have = (label_counts(*pair, num_clients) for pair in ((others, dealt), (owned, owners)))
    for label in np.unique(others):
        law = have[:, label] if label < 5 else have.sum(axis=1)  # nobody owns the sixth class
        expected = law / law.sum() * (others == label).sum()
        assert np.abs(given_counts[:, label] - expected).max() <= 1 + 1e-9
        assert (given_counts[law == 0, label] == 0).all()


def test_label_counts_by_hand():
    counts = label_counts(np.array([0, 2, 2, 1]), np.array([1, 1, 1, 3]), 4)
    assert counts.tolist() == [[0, 0, 0], [1, 0, 2], [0, 0, 0], [0, 1, 0]]


def test_groups():
    generator = np.random.default_rng(0)
    assert draw_groups(10_000, "random", generator).mean() == pytest.approx(0.5, abs=0.02)
    assert draw_groups(5, "halves", generator).tolist() == [False, False, False, True, True]
    with pytest.raises(ValueError, match="groups is 'thirds'"):
        draw_groups(5, "thirds", generator)
