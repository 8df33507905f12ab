import jax.numpy as jnp
import numpy as np
import optax
import pytest
from words_by_hand import lags, play

from turnout.availability import bernoulli, cyclic
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import LastWord
from turnout.tasks import quadratics
from turnout.theory import faded_distance, last_word_bound, longest_age
from turnout.world import World, compute

CONSTANTS = {
    "steps": 0.01,
    "rounds": 100,
    "lag": 0.03,
    "largest_share": 0.125,
    "smoothness": 2.0,
    "dissimilarity": 3.0,
    "noise": 1.5,
    "gap": 7.0,
    "learning_rate": 0.005,
    "local_steps": 4,
    "path": 0.5,
    "off_target": 0.1,
}


def test_every_term_by_hand():
    assert last_word_bound(**CONSTANTS).named() == pytest.approx(
        {
            "start": (4 * 7 + 2 * 0.5) / (100 * 0.01),
            "noise": 4 * 2 * 2.25 * 0.125 * 0.01,
            "stale_noise": 10.5 * 2 * 2.25 * 0.125 * 0.03,
            "drift": 16 * 4 * 3 * (4 * 4 * 9 + 2.25) * 0.005**2,
            "fading": 4 * 9 * 0.1**2,
        }
    )
    plain = last_word_bound(**(CONSTANTS | {"local_steps": 1, "learning_rate": 9.0, "noise": 0.0, "off_target": 0.0}))
    assert plain.total == plain.start, "staleness alone costs nothing but shorter steps"


def test_rounds_count_by_their_steps():
    """Two rounds with steps of 1 and 3 units, and one in which nothing moves."""
    by_round = {"steps": [0.01, 0.0, 0.03], "lag": [0.02, 0.5, 0.06], "off_target": [0.1, 9.0, 0.3]}
    bound = last_word_bound(**(CONSTANTS | by_round | {"rounds": 3, "smoothness": 0.2}))
    assert bound.start == pytest.approx(29 / 0.04)
    assert bound.noise == pytest.approx(4 * 0.2 * 2.25 * 0.125 * 0.025)
    assert bound.stale_noise == pytest.approx(10.5 * 0.2 * 2.25 * 0.125 * 0.05)
    assert bound.fading == pytest.approx(4 * 9 * (0.1**2 + 3 * 0.3**2) / 4)


def test_falling_rates_tend_to_zero_and_constant_ones_to_a_bias():
    def total(rounds, falls):
        t = np.arange(rounds)
        eta = 0.002 / np.sqrt(1 + t) if falls else np.full(rounds, 0.002)
        scales = {"steps": 4 * eta, "lag": 12 * eta, "learning_rate": eta}
        fades = {"off_target": faded_distance(t + 4, 4), "rounds": rounds}
        return last_word_bound(**(CONSTANTS | scales | fades)).total

    assert total(10**5, falls=True) < 0.2 * total(10**3, falls=True)
    assert total(10**5, falls=False) == pytest.approx(total(10**6, falls=False), rel=0.15)


@pytest.mark.parametrize("name", [name for name in CONSTANTS if name not in ("steps", "rounds", "smoothness")])
def test_grows_with(name):
    more = CONSTANTS[name] + (1 if name == "local_steps" else CONSTANTS[name] / 4)
    assert last_word_bound(**(CONSTANTS | {name: more})).total > last_word_bound(**CONSTANTS).total


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


# The bound against what is measured


def turns(count, turn, rounds):
    """Clients that take turns of so many rounds; one row per round."""
    return (np.arange(rounds)[:, None] // turn) % count == np.arange(count)


@pytest.mark.parametrize("work", [[3] * 6, [1, 5, 2, 4, 3, 6]])
def test_measured_gradients_are_below_the_bound(work):
    """Six clients that take turns of two rounds, the rest of the time away, with noisy gradients of quadratics."""
    rounds, first, noise, rate = 600, 12, 0.5, 0.002
    task = quadratics(6, 2, spread=2.0, noise=noise, seed=3)
    world = World(cyclic(6, groups=6, turn=2), compute=compute.per_client(6, work))
    played = play(turns(6, 2, rounds), np.tile(work, (rounds, 1)), np.ones(6))
    local = Local(learning_rate=rate, batch_size=1)
    run = simulate(task, world, LastWord(), rounds=rounds, seeds=64, local=local, evaluate_every=1)
    centres, best = np.asarray(task.centres, np.float64), np.asarray(task.optimum, np.float64)
    least = 0.5 * ((best - centres) ** 2).sum(axis=1).mean()
    squares = 2 * (np.asarray(run.metrics["train_loss"], np.float64).mean(axis=0) - least)  # E‖∇F‖² = E‖x − x*‖²
    spread = np.sqrt(((best - centres) ** 2).sum(axis=1).max())
    directions = (np.sqrt(squares[:first]) + spread) ** 2  # E‖m_i‖² is at most that
    bound = bound_of(
        played,
        work,
        first,
        rate,
        smoothness=1.0,
        dissimilarity=float(spread),
        noise=float(np.sqrt(2) * noise),
        gap=float(squares[first] / 2),
        path=float(rate * played.steps[:first] @ directions),
    )
    measured = np.average(squares[first:rounds], weights=played.steps[first:])
    assert 0 < measured < bound.total
    assert bound.start > 0.02 * measured  # of the size of what is bounded, where the start rules


def bound_of(played, work, first, rate, **constants):
    """The bound from what was played: steps, lags and shares as they were."""
    steps, shares = rate * played.steps, played.shares[first:]
    behind, largest = lags(steps, played.shares)
    assert largest <= behind.max() * 1.5
    weights = shares.sum(axis=2)
    return last_word_bound(
        steps=steps[first:],
        rounds=len(steps) - first,
        lag=np.maximum(behind[first:], (behind == behind.max())[first:] * largest),
        largest_share=float((played.shares / np.asarray(work)[:, None]).max()),
        learning_rate=rate,
        local_steps=int(max(work)),
        off_target=np.abs(weights - 1 / len(work)).sum(axis=1),
        **constants,
    )


def test_the_bound_holds_where_the_objective_is_not_convex():
    """F_k(x) = z²/(2 + 2z²) with z = x − e_k: smooth with L = 1, flat far away, and six local minima in all."""
    rounds, first, noise, rate, seeds = 500, 30, 0.3, 0.004, 200
    centres, work = np.array([-4.0, -1.5, 0.0, 1.0, 2.5, 5.0]), np.array([1, 5, 2, 4, 3, 6])
    draw = np.random.default_rng(0)
    came = draw.random((rounds, 6)) < np.array([0.9, 0.5, 0.3, 0.3, 0.5, 0.9])
    came[:first] |= np.arange(first)[:, None] % 6 == np.arange(6)
    played = play(came, np.tile(work, (rounds, 1)), np.ones(6))

    def slopes(x):
        z = x[..., None] - centres
        return z / (1 + z**2) ** 2

    x, said, squares, path = np.full(seeds, 3.5), np.zeros((6, rounds, seeds)), np.zeros(rounds), 0.0
    for t in range(rounds):
        squares[t] = np.mean(slopes(x).mean(axis=1) ** 2)
        gap = gap if t > first else loss(x, centres) - least_loss(centres)
        for k in np.flatnonzero(came[t]):
            local = x.copy()
            for _ in range(work[k]):
                z = local - centres[k]
                local = local - rate * (z / (1 + z**2) ** 2 + noise * draw.standard_normal(seeds))
            said[k, t] = (x - local) / (rate * work[k])
        direction = np.einsum("kl,kls->s", played.shares[t], said)
        path += rate * played.steps[t] * np.mean(direction**2) if t < first else 0.0
        x = x - rate * played.steps[t] * direction
    grid = np.linspace(-12, 12, 4001)
    spread = np.abs(slopes(grid) - slopes(grid).mean(axis=1, keepdims=True)).max()
    constants = {"smoothness": 1.0, "dissimilarity": float(spread), "noise": noise, "gap": gap, "path": path}
    bound = bound_of(played, work, first, rate, **constants)
    measured = np.average(squares[first:], weights=played.steps[first:])
    assert 0 < measured < bound.total < 100 * measured


def loss(x, centres):
    z = np.asarray(x)[..., None] - centres
    return float(np.mean(z**2 / (2 + 2 * z**2)))


def least_loss(centres):
    return min(loss(np.array([x]), centres) for x in np.linspace(-6, 6, 2001))


@pytest.mark.parametrize("rule", ["blend", "news"])
def test_the_hand_written_rule_is_the_strategy(rule):
    """Exact gradients of quadratics: the model of the library, from the shares of the rule written out."""
    rounds, rate, work = 40, 0.05, [1, 4, 2, 7]
    task = quadratics(4, 2, spread=2.0, seed=3, importance=[0.1, 0.2, 0.3, 0.4])
    world = World(cyclic(4, period=9, offset=[0, 2, 3, 6], duration=[2, 1, 3, 1]), compute=compute.per_client(4, work))
    run = simulate(task, world, LastWord(rule=rule), rounds=rounds, local=Local(learning_rate=rate, batch_size=1))
    t = np.arange(rounds)[:, None]
    came = (t - np.array([0, 2, 3, 6])) % 9 < np.array([2, 1, 3, 1])
    came &= t >= np.array([0, 2, 3, 6])
    played = play(came, np.tile(work, (rounds, 1)), [0.1, 0.2, 0.3, 0.4], rule=rule)
    centres, x = np.asarray(task.centres, np.float64), np.asarray(task.start, np.float64)
    pulls, said = (1 - (1 - rate) ** np.array(work)) / (rate * np.array(work)), np.zeros((4, rounds, 2))
    for t in range(rounds):
        said[:, t] = pulls[:, None] * (x - centres)
        x = x - rate * played.steps[t] * np.einsum("kl,kld->d", played.shares[t], said)
    np.testing.assert_allclose(np.asarray(run.params)[0], x, atol=2e-5)


def test_what_it_does_not_cover_is_refused():
    with pytest.raises(ValueError, match=r"steps \+ lag = 0.53 is too large: γ \+ Γ ≤ 1/\(4L\) allows at most 0.125"):
        last_word_bound(**(CONSTANTS | {"steps": 0.5}))
    with pytest.raises(ValueError, match=r"learning_rate = 0.02 is too large: η τ ≤ 1/\(8L\) allows at most 0.015625"):
        last_word_bound(**(CONSTANTS | {"learning_rate": 0.02}))
    with pytest.raises(ValueError, match=r"round 2 has lag = -1, .* must not be negative"):
        last_word_bound(**(CONSTANTS | {"lag": [0.0] + [-1.0] * 99}))
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
