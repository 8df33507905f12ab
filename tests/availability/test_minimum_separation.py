import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.availability import MinimumSeparation, SeparatedSampling, minimum_separation
from turnout.availability.mathematics.conditional_poisson import draw_by_product, draw_successively


def rates_of_the_chain(p, batch, separation):
    """Long-run rates from the explicit chain over the last R batches, by brute force."""
    batches = list(itertools.combinations(range(len(p)), batch))
    disjoint = [
        window
        for window in itertools.product(batches, repeat=separation)
        if len(set(itertools.chain(*window))) == batch * separation
    ]
    index = {window: s for s, window in enumerate(disjoint)}
    matrix, share = np.zeros((len(disjoint), len(disjoint))), np.zeros((len(disjoint), len(p)))
    for window, s in index.items():
        rested = [b for b in batches if not set(b) & set(itertools.chain(*window))]
        weights = np.array([np.prod(p[list(b)]) for b in rested])
        for b, chance in zip(rested, weights / weights.sum(), strict=True):
            matrix[s, index[(b, *window)[:separation]]] += chance
            share[s, list(b)] += chance
    system = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    law = np.linalg.lstsq(system, np.r_[np.zeros(len(matrix)), 1.0], rcond=None)[0]
    return law @ share


@pytest.mark.parametrize(
    ("n", "batch", "separation"), [(3, 1, 1), (5, 1, 3), (4, 2, 0), (6, 2, 1), (7, 2, 2), (7, 3, 1)]
)
def test_closed_form_is_the_law_of_the_explicit_chain(n, batch, separation):
    p = np.random.default_rng(n).dirichlet(np.ones(n))
    with jax.enable_x64(True):
        process = minimum_separation(n, weights=p.tolist(), batch=batch, separation=separation)
        rates = np.asarray(process.stationary())
    assert isinstance(process, MinimumSeparation)
    assert np.abs(rates - rates_of_the_chain(p, batch, separation)).max() < 1e-12


def test_the_example_of_the_paper():
    process = minimum_separation(3, weights=[0.25, 0.25, 0.5], separation=1)
    assert np.allclose(process.stationary(), [0.3, 0.3, 0.4])
    assert np.allclose(process.correlation(), [-3 / 7, -3 / 7, -2 / 3])


def test_without_separation_a_single_draw_follows_the_weights():
    process = minimum_separation(4, weights=[1.0, 2.0, 3.0, 4.0])
    assert np.allclose(process.stationary(), [0.1, 0.2, 0.3, 0.4])
    assert np.array_equal(process.correlation(), np.zeros(4))


def test_groups_of_the_paper():
    process = minimum_separation(100, tail=1.5, groups=20, separation=4)
    rates = np.asarray(process.stationary()).reshape(20, 5)
    assert (rates == rates[:, :1]).all()
    assert rates[:, 0].sum() == pytest.approx(1.0)
    assert rates.sum() == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("name", "batch", "separation"),
    [
        ("separation_1", 1, 1),
        ("separation_product", 2, 2),
        ("separation_full", 2, 3),
        ("separation_successive", 2, 2),
        ("separation_0", 3, 0),
    ],
)
def test_batches_are_full_and_apart(played, examples, name, batch, separation):
    masks = played(examples[name])
    assert (masks.sum(axis=-1) == batch).all()
    for lag in range(1, separation + 1):
        assert not (masks[:, lag:] & masks[:, :-lag]).any()


def test_groups_come_whole(played, examples):
    masks = played(examples["separation_groups"])
    assert (masks[..., 0::2] == masks[..., 1::2]).all()
    assert (masks.sum(axis=-1) == 2).all()


def test_each_client_keeps_its_own_separation(played, examples):
    masks = played(examples["separation_per_client"])
    for client, rest in enumerate([0, 1, 2, 3, 4]):
        for lag in range(1, rest + 1):
            assert not (masks[:, lag:, client] & masks[:, :-lag, client]).any()
    sizes = masks.sum(axis=-1)
    assert set(np.unique(sizes)) <= {1, 2}
    assert (sizes == 1).any()  # too few are rested at times, and then all of them come


def test_the_window_before_round_zero_is_stationary(agree):
    # Three clients, R = 1: the client that still waits is the last one drawn, so it has the stationary law.
    process = minimum_separation(3, weights=[0.25, 0.25, 0.5], separation=1)
    waits = np.asarray(jax.jit(jax.vmap(lambda key: process.init(key)))(jr.split(jr.key(0), 4000)))
    assert (waits.sum(axis=1) == 1).all()
    agree(waits, [0.3, 0.3, 0.4])


def test_sets_are_drawn_by_product(agree):
    p, pairs = np.array([0.1, 0.2, 0.3, 0.4]), list(itertools.combinations(range(4), 2))
    draw = jax.jit(jax.vmap(lambda key: draw_by_product(key, jnp.log(jnp.asarray(p)), jnp.asarray(2))))
    drawn = np.asarray(draw(jr.split(jr.key(0), 4000)))
    weights = np.array([p[i] * p[j] for i, j in pairs])
    agree(np.stack([drawn[:, i] & drawn[:, j] for i, j in pairs], axis=1), weights / weights.sum())


def test_sets_are_drawn_successively(agree):
    p, pairs = np.array([0.1, 0.2, 0.3, 0.4]), list(itertools.combinations(range(4), 2))
    draw = jax.jit(jax.vmap(lambda key: draw_successively(key, jnp.log(jnp.asarray(p)), 2)))
    drawn = np.asarray(draw(jr.split(jr.key(0), 4000)))
    chances = [p[i] * p[j] * (1 / (1 - p[i]) + 1 / (1 - p[j])) for i, j in pairs]
    agree(np.stack([drawn[:, i] & drawn[:, j] for i, j in pairs], axis=1), chances)


def test_nobody_is_drawn_where_nobody_can_be():
    nobody = jnp.full(4, -jnp.inf)
    assert not draw_successively(jr.key(0), nobody, 2).any()
    assert not draw_by_product(jr.key(0), nobody, jnp.asarray(0)).any()


@pytest.mark.parametrize(
    "arguments",
    [{"batch": 2, "sampling": "successive"}, {"separation": [0, 1, 0, 1, 0, 1]}],
    ids=["successive", "per_client"],
)
def test_no_closed_form_no_stationary_law(arguments):
    process = minimum_separation(6, **arguments)
    assert isinstance(process, SeparatedSampling)
    assert not hasattr(process, "stationary")


def test_a_single_draw_has_the_closed_form_however_it_is_sampled():
    assert isinstance(minimum_separation(6, separation=2, sampling="successive"), MinimumSeparation)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [0.5, 0.0, 0.5, 1.0]}, "client 1 has weight 0: must be positive"),
        ({"weights": [0.5, 0.1, -0.5, 1.0]}, "client 2 has weight -0.5"),
        ({"weights": [0.5, 0.1]}, "weights has 2 values for 4 clients"),
        ({"weights": 1.0, "tail": 1.5}, "both given"),
        ({"batch": 5}, "batch = 5 with 4 clients: must be at most 4"),
        ({"batch": 0}, "batch must be a whole number from 1 to 2³¹ - 1, not 0"),
        ({"batch": 2, "separation": 2}, "separation = 2 with batch = 2 and 4 clients: .* at most 1"),
        ({"separation": [0, 1, -1, 0]}, "client 2 has separation = -1"),
        ({"groups": 2, "separation": 2}, "separation = 2 with batch = 1 and 2 groups"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        minimum_separation(4, **arguments)
