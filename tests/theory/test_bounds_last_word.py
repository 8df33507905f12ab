import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from turnout.availability import bernoulli, cyclic
from turnout.simulator import simulate
from turnout.simulator.local_training import Local
from turnout.strategies import LastWord
from turnout.tasks import quadratics
from turnout.theory import faded_distance, last_word_bound, longest_age
from turnout.world import World, compute

CONSTANTS = {
    "learning_rate": 0.01,
    "rounds": 100,
    "first_round": 3,
    "longest_age": 3,
    "steps": (2, 2),
    "target": [0.25] * 4,
    "smoothness": 2.0,
    "gradient_bound": 5.0,
    "dissimilarity": 3.0,
    "noise": 1.0,
    "gap": 7.0,
    "fading": 0.0,
}


def test_every_term_by_hand():
    assert last_word_bound(**CONSTANTS).named() == pytest.approx(
        {
            "start": 2 * 7 / (100 * 0.02),
            "noise": 2 * 2 * 0.02 * 0.25 / 2,
            "stale_noise": 2 * 2 * 5 * (3 * 0.02) * np.sqrt(0.25 / 2),
            "staleness": 3 * 100 * (3 * 0.02) ** 2,
            "drift": 3 * 100 * 0.005**2,
            "fading": 0.0,
        }
    )
    faded = last_word_bound(**(CONSTANTS | {"fading": 0.5, "rounds": 1, "first_round": 15}))
    root = (13 / 16) ** 0.25
    assert faded.fading == pytest.approx(3 * 9 * (2 * (1 - root) / (1 + root)) ** 2)
    assert faded.noise == pytest.approx(2 * 2 * 0.02 * 0.25 / 2 * 16 / 13)


def test_unequal_work_counts_with_the_smaller_step_below_the_bar():
    bound = last_word_bound(**(CONSTANTS | {"steps": (1, 4)}))
    assert bound.start == pytest.approx(2 * 7 / (100 * 0.01))
    assert bound.staleness == pytest.approx(4 * 3 * 100 * (3 * 0.04) ** 2)
    assert bound.drift == pytest.approx(4 * 3 * 100 * 0.015**2)


def test_falling_rates_tend_to_zero_and_constant_ones_to_a_bias():
    def total(rounds, rate):
        rates = rate / np.sqrt(1 + np.arange(rounds + 3)) if rate > 0.01 else rate
        return last_word_bound(**(CONSTANTS | {"learning_rate": rates, "rounds": rounds, "fading": 0.5})).total

    assert total(10**6, 0.02) < 0.2 * total(10**4, 0.02)
    assert total(10**6, 0.01) == pytest.approx(total(10**7, 0.01), rel=0.02)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("longest_age", 4),
        ("noise", 2.0),
        ("gradient_bound", 6.0),
        ("dissimilarity", 4.0),
        ("gap", 8.0),
        ("fading", 1.0),
    ],
)
def test_grows_with(name, more):
    base = CONSTANTS | {"fading": 0.5, "first_round": 4}
    assert last_word_bound(**(base | {name: more})).total > last_word_bound(**base).total


@pytest.mark.parametrize("fading", [0.3, 0.5, 1.0])
def test_no_weights_are_further_from_the_target_than_stated_and_some_are_as_far(fading):
    draw, t, age = np.random.default_rng(0), 40, 25
    stated = float(faded_distance(t, age, fading))
    root = ((t + 1 - age) / (t + 1)) ** (fading / 2)
    shares = [np.array([root, 1.0]) / (1 + root)] + [draw.dirichlet(np.ones(6)) for _ in range(300)]
    distances = []
    for target in shares:
        heard = np.array([t, t - age]) if len(target) == 2 else t - draw.integers(0, age + 1, len(target))
        weight = target * (heard + 1) ** fading
        distances.append(np.abs(weight / weight.sum() - target).sum())
    assert distances[0] == pytest.approx(stated)
    assert max(distances) <= stated + 1e-12
    assert float(faded_distance(10**6, age, fading)) == pytest.approx(fading * age / 2e6, rel=1e-3)


def test_words_are_rarely_older_than_the_longest_age():
    """Three clients, there once in any 4 rounds, with links of 0.4: one world in a hundred may have an older word."""
    stated = longest_age(within=4, success=0.4, num_clients=3, rounds=500, miss=0.01)
    assert longest_age(within=4, success=1.0, num_clients=3, rounds=500) == 3
    draw = np.random.default_rng(1)
    older = 0
    for _ in range(300):
        age = np.zeros(3, int)
        oldest = 0
        for t in range(500):
            came = (t % 4 == np.arange(3)) & (draw.random(3) < 0.4)
            age = np.where(came, 0, age + 1)
            oldest = max(oldest, age.max())
        older += oldest > stated
    assert older <= 300 * 0.01 + 6


def ages_and_lengths(world, steps, fading, rounds):
    """Age of the oldest word and the weighted mean work of each round; target equal, links perfect."""
    masks, state = [], world.availability.init(jr.key(0))
    for t in range(rounds):
        state, here = world.availability.step(state, jnp.asarray(t), jr.key(t))
        masks.append(np.asarray(here))
    last, oldest, lengths = np.full(len(steps), -1), [], []
    for t, here in enumerate(masks):
        last = np.where(here, t, last)
        weight = np.where(last < 0, 0.0, (last + 1.0) ** fading)
        oldest.append(t - last.min())
        lengths.append(weight @ steps / weight.sum())
    return np.array(oldest), np.array(lengths)


@pytest.mark.parametrize(
    ("fading", "rate", "steps"),
    [(0.5, 0.01, [3] * 6), (0.5, 0.01, [1, 5, 2, 4, 3, 6]), (0.0, 0.002, [1, 5, 2, 4, 3, 6])],
)
def test_measured_gradients_are_below_the_bound(fading, rate, steps):
    """Six clients that take turns of two rounds, the rest of the time away, with noisy gradients."""
    rounds, first, noise = 300, 12, 0.5
    task = quadratics(6, 2, spread=2.0, noise=noise, seed=3)
    world = World(cyclic(6, groups=6, turn=2), compute=compute.per_client(6, steps))
    oldest, lengths = ages_and_lengths(world, np.array(steps), fading, rounds)
    local = Local(learning_rate=rate, batch_size=1)
    run = simulate(task, world, LastWord(fading=fading), rounds=rounds, seeds=64, local=local, evaluate_every=1)
    centres, best = np.asarray(task.centres, np.float64), np.asarray(task.optimum, np.float64)
    least = 0.5 * ((best - centres) ** 2).sum(axis=1).mean()
    squares = 2 * (np.asarray(run.metrics["train_loss"], np.float64).mean(axis=0) - least)  # E‖∇F‖² = E‖x − x*‖²
    spread = np.sqrt(((best - centres) ** 2).sum(axis=1).max())
    kept = slice(first, rounds)
    bound = last_word_bound(
        learning_rate=rate,
        rounds=rounds - first,
        first_round=first,
        longest_age=int(oldest[kept].max()),
        steps=(min(steps), max(steps)),
        target=[1 / 6] * 6,
        smoothness=1.0,
        gradient_bound=float(np.sqrt((np.sqrt(squares.max()) + spread) ** 2 + 2 * noise**2)),
        dissimilarity=float(spread),
        noise=float(np.sqrt(2) * noise),
        gap=float(squares[first] / 2),
        fading=fading,
    )
    measured = np.average(squares[:rounds][kept], weights=lengths[kept])
    assert 0 < measured < bound.total
    assert bound.start > 0.02 * measured  # of the size of what is bounded, where the start rules


def test_what_it_does_not_cover_is_refused():
    with pytest.raises(ValueError, match=r"learning_rate = 0.2 is too large: γ ≤ 1/\(2L\) allows at most 0.125"):
        last_word_bound(**(CONSTANTS | {"learning_rate": 0.2}))
    with pytest.raises(ValueError, match="first_round must be a whole number of 3 or more, not 2"):
        last_word_bound(**(CONSTANTS | {"first_round": 2}))
    with pytest.raises(ValueError, match=r"steps = \(3, 2\): the first number must not exceed the second"):
        last_word_bound(**(CONSTANTS | {"steps": (3, 2)}))
    with pytest.raises(ValueError, match="longest_age = 9: in round 4 no word can be that old"):
        faded_distance([4, 5], 9)
    with pytest.raises(ValueError, match="success must be a number above 0 and at most 1, not 0"):
        longest_age(within=2, success=0.0, num_clients=3, rounds=10)


# Where the theory does not hold, and what happens there

RATE = 0.02


def limit(task, world, strategy, rounds=4000, **local):
    """Mean of the final models over seeds."""
    work = Local(learning_rate=RATE, batch_size=1, **local)
    run = simulate(task, world, strategy, rounds=rounds, seeds=16, local=work, evaluate_every=rounds)
    return np.asarray(run.params, np.float64).mean(axis=0)


def test_who_never_comes_never_counts():
    task = quadratics(4, 2, spread=3.0, seed=5, importance=[0.1, 0.2, 0.3, 0.4])
    end = limit(task, World(bernoulli(4, [0.5, 0.5, 0.5, 0.0]), compute=1), LastWord())
    others = np.asarray(task.minimiser(jnp.array([0.1, 0.2, 0.3, 0.0])))
    np.testing.assert_allclose(end, others, atol=0.02)
    assert np.abs(end - np.asarray(task.optimum)).max() > 0.3


def test_an_absence_longer_than_the_training_is_a_wrong_word_that_fades():
    """Client 0 is there in the first round only: its word stays that of the first model, and pulls for ever."""
    task = quadratics(3, 1, centres=[[4.0], [0.0], [1.0]])
    world = World(cyclic(3, period=10**6, offset=0, duration=[1, 10**6, 10**6]), compute=1)
    plain, faded = (limit(task, world, LastWord(fading=fading)) for fading in (0.0, 0.5))
    others = 0.5
    # Fixed point of ((0 - x) + (1 - x) + 4 w) / (2 + w) = 0 with w the weight of the word against a fresh one:
    np.testing.assert_allclose(plain, (0 + 1 + 4) / 2, atol=0.02)
    np.testing.assert_allclose(faded, (0 + 1 + 4 / np.sqrt(4000)) / 2, atol=0.02)
    assert abs(faded[0] - others) < 0.05 < abs(plain[0] - others)


@pytest.mark.slow
def test_adam_on_the_clients_is_not_linear_in_the_gradients(lenient_promotion):
    task = quadratics(3, 1, centres=[[6.0], [0.0], [1.0]])
    world = World(bernoulli(3, 1.0), compute=compute.per_client(3, [5, 5, 5]))
    best = float(task.optimum[0])
    assert abs(limit(task, world, LastWord(), rounds=1500)[0] - best) < 0.01
    assert abs(limit(task, world, LastWord(), rounds=1500, optimizer=optax.adam(1.0))[0] - best) > 0.5
