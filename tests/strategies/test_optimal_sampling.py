import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.strategies import OptimalSampling
from turnout.strategies.optimal_sampling import approximate_chances, exact_chances
from turnout.streams import Stream, round_key


def naive_exact(lengths, budget):
    """The definition, client by client: try every l from the largest down."""
    count = len(lengths)
    budget = min(budget, count)
    order = np.argsort(lengths, kind="stable")
    rising = np.asarray(lengths, np.float64)[order]
    for l in range(count, 0, -1):  # noqa: E741
        left, total = budget + l - count, rising[:l].sum()
        if left > 0 and left * rising[l - 1] <= total * (1 + 1e-9):
            break
    chance = np.ones(count)
    for place, client in enumerate(order[:l]):
        chance[client] = left * rising[place] / total if total > 0 else left / l
    return np.minimum(chance, 1.0)


def naive_approximate(lengths, budget, iterations):
    total = sum(lengths)
    chance = [min(1.0, budget * (u / total if total > 0 else 1 / len(lengths))) for u in lengths]
    for _ in range(iterations):
        open_ = [p for p in chance if p < 1]
        if not open_ or sum(open_) == 0:
            break
        factor = (budget - len(chance) + len(open_)) / sum(open_)
        if factor <= 1:
            break
        chance = [min(1.0, factor * p) for p in chance]
    return np.array(chance)


@pytest.mark.parametrize("seed", range(5))
def test_chances_agree_with_the_definition(seed):
    draw = np.random.default_rng(seed)
    exact = jax.jit(exact_chances)
    for _ in range(50):
        candidates = draw.random(12) < draw.choice([0.2, 0.7, 1.0])
        lengths = np.where(candidates, draw.exponential(size=12) ** 3, 0.0).astype(np.float32)
        budget = jnp.asarray(draw.integers(1, 8), jnp.float32)
        mask = jnp.asarray(candidates)
        found = np.asarray(exact(jnp.asarray(lengths), mask, budget))
        assert (found[~candidates] == 0).all()
        if candidates.any():
            np.testing.assert_allclose(found[candidates], naive_exact(lengths[candidates], float(budget)), rtol=2e-4)
            close = np.asarray(approximate_chances(jnp.asarray(lengths), mask, budget, 4))[candidates]
            few = min(float(budget), candidates.sum())
            np.testing.assert_allclose(close, naive_approximate(lengths[candidates], few, 4), rtol=2e-4)


def test_chances_by_hand():
    everyone = jnp.ones(3, bool)
    np.testing.assert_allclose(exact_chances(jnp.array([1.0, 1.0, 2.0]), everyone, jnp.asarray(2.0)), [0.5, 0.5, 1.0])
    np.testing.assert_allclose(exact_chances(jnp.array([1.0, 1.0, 8.0]), everyone, jnp.asarray(2.0)), [0.5, 0.5, 1.0])
    np.testing.assert_allclose(exact_chances(jnp.zeros(3), everyone, jnp.asarray(1.5)), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(exact_chances(jnp.array([1.0, 5.0, 2.0]), everyone, jnp.asarray(7.0)), 1.0)


def test_those_who_are_certain_upload_with_their_target(play):
    game = play(OptimalSampling(cohort=3))
    assert game.round([1, 1, 0], [3.0, 6.0, 9.0]) == pytest.approx(3.0)


def test_the_direction_is_unbiased_and_the_budget_is_kept(play):
    moves, uploads = [], []
    for root in range(100):
        game = play(OptimalSampling(cohort=1), root=root)
        moves.append(game.round([1, 1, 1], [1.0, 2.0, 6.0]))
        uploads.append(game.asked.sum())
    assert np.mean(moves) == pytest.approx(3.0, abs=5 * np.std(moves) / np.sqrt(100))
    assert np.mean(uploads) == pytest.approx(1.0, abs=5 * np.std(uploads) / np.sqrt(100))
    assert np.std(moves) < 3.0


@pytest.mark.parametrize("approximate", [False, True])
def test_fifty_rounds_client_by_client(play, approximate):
    """The same lots, chances from the definition; lost uploads and empty rounds included."""
    draw = np.random.default_rng(3)
    importance = draw.uniform(0.5, 2.0, 6).astype(np.float32)
    game = play(OptimalSampling(cohort=2, approximate=approximate), importance=tuple(importance))
    target, model = importance / importance.sum(), 0.0
    for t in range(50):
        available = (draw.random(6) < 0.6) & (t % 8 != 0)
        updates, arrived = draw.normal(size=6).astype(np.float32), draw.random(6) < 0.8
        lots = np.asarray(jr.uniform(round_key(game.root, Stream.ADMIT, t), (6,)))
        here = np.flatnonzero(available)
        lengths = [float(target[k] * abs(updates[k])) for k in here]
        if here.size:
            few = min(2, here.size)
            chances = naive_approximate(lengths, few, 4) if approximate else naive_exact(lengths, few)
            for client, chance in zip(here, chances, strict=True):
                if lots[client] < chance and arrived[client]:
                    model += target[client] / chance * updates[client]
        assert game.round(available, updates, arrived=arrived) == pytest.approx(model, abs=2e-4)


def test_a_client_draws_the_same_lot_in_any_slot(play):
    game = play(OptimalSampling(cohort=1))
    game.round([1, 1, 1], [1.0, 1.0, 1.0])
    assert jr.uniform(jr.key(0), (5,))[:3].tolist() == jr.uniform(jr.key(0), (3,)).tolist()
