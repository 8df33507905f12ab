"""Steps whose length depends on who came, words of little work, clients that vanish: formulas against simulation."""

import numpy as np
import pytest
from words_by_hand import play

from turnout.theory import retirement_age, word_left


def walk(played, came, work, centres, rate, small, noise=0.0, seeds=1, seed=1):
    """Quadratics ½ (x − e_k)² with `work` steps at a rate, and noise of each gradient; all models, seed by seed."""
    rounds, count = came.shape
    draw, x, path = np.random.default_rng(seed), np.zeros(seeds), np.zeros((rounds, seeds))
    said, held = np.zeros((count, rounds, seeds)), np.arange(rounds)
    for t in range(rounds):
        for k in np.flatnonzero(came[t]):
            local = x
            for _ in range(int(work[t, k])):
                local = local - rate * (local - centres[k] + (noise * draw.standard_normal(seeds) if noise else 0.0))
            said[k, t] = (x - local) / (rate * work[t, k])
        used = held[played.shares[t].any(axis=0)]
        x = x - small * played.steps[t] * np.einsum("kl,kls->s", played.shares[t][:, used], said[:, used])
        path[t] = x
    return path


def busy_and_quiet(rounds):
    """All four come every other round and do one step; in between two come alone and do nine."""
    crowd = np.arange(rounds) % 2 == 0
    came = np.stack([np.ones(rounds, bool)] * 2 + [crowd] * 2, axis=1)
    return came, np.where(crowd, 1, 9)[:, None] * np.ones((1, 4))


CENTRES = np.array([2.0, 2.0, -2.0, -2.0])


def test_weights_are_the_targets_whatever_the_length_of_the_step():
    """Sums over the run of what every client counts; steps are longer where all come than where half of them do."""
    came, work = busy_and_quiet(400)
    played = play(came, work, [0.1, 0.2, 0.3, 0.4], fading=0.0)
    late = played.steps[2:]
    assert late.max() > 1.3 * late.min()
    weights = late @ played.shares[2:].sum(axis=2) / late.sum()
    np.testing.assert_allclose(weights, [0.1, 0.2, 0.3, 0.4], atol=1e-12)


@pytest.mark.parametrize("rule", ["plain", "news"])
def test_with_one_step_the_limit_is_the_optimum_at_any_rate(rule):
    """Noise has no part in the mean model, and without noise the optimum is where all directions vanish."""
    came, _ = busy_and_quiet(300)
    one = np.ones((300, 4))
    played = play(came, one, np.ones(4), fading=0.0, rule=rule)
    assert abs(walk(played, came, one, CENTRES, 0.1, 0.2)[-1, 0]) < 1e-6
    ends = walk(played, came, one, CENTRES, 0.1, 0.2, noise=1.0, seeds=4000)[-1]
    assert abs(ends.mean()) < 4 * ends.std() / np.sqrt(4000)


@pytest.mark.parametrize(("rule", "stated", "apart"), [("plain", -0.3070, -0.1735), ("news", -0.3601, -0.3357)])
def test_with_more_steps_the_limit_weighs_by_the_mean_of_step_times_pull(rule, stated, apart):
    """Long steps come with short work: the covariance of both is part of the limit, and of the order of the rate."""
    rounds, rate, small = 600, 0.1, 0.01
    came, work = busy_and_quiet(rounds)
    played = play(came, work, np.ones(4), fading=0.0, rule=rule)
    late = slice(rounds - 40, rounds)  # whole periods
    pulls = np.einsum("tkl,lk->tk", played.shares[late], (1 - (1 - rate) ** work) / (rate * work))
    predicted = played.steps[late] @ pulls @ CENTRES / (played.steps[late] @ pulls).sum()
    x = walk(played, came, work, CENTRES, rate, small)[late].mean()
    assert x == pytest.approx(predicted, abs=0.001)
    assert predicted == pytest.approx(stated, abs=1e-4)
    independent = pulls.sum(axis=0) @ CENTRES / pulls.sum()
    assert independent == pytest.approx(apart, abs=1e-4)


def test_a_step_that_looks_at_its_noise_moves_the_limit_by_their_covariance():
    """One client ½ x², γ half as long or longer by half with the sign of the noise: −E|n| / 2 is −0.399."""
    draw, x, ends = np.random.default_rng(5), np.zeros(2000), []
    for t in range(800):
        noise = draw.standard_normal(2000)
        x = x - 0.02 * (1 + 0.5 * np.sign(noise)) * (x + noise)
        ends += [x.mean()] if t >= 400 else []
    assert np.mean(ends) == pytest.approx(-0.5 * np.sqrt(2 / np.pi), rel=0.02)


def test_words_that_arrive_by_their_noise_are_wrong_and_so_is_the_limit():
    """Two clients ½ (x ∓ 1)²; the second's upload arrives only if its noise was positive, on average E[n | n > 0]."""
    draw, x, word, ends = np.random.default_rng(6), np.zeros(2000), np.zeros(2000), []
    for t in range(800):
        noise = draw.standard_normal((2, 2000))
        word = np.where(noise[1] > 0, x + 1 + noise[1], word)
        x = x - 0.02 * 0.5 * (x - 1 + noise[0] + word)
        ends += [x.mean()] if t >= 500 else []
    assert np.mean(ends) == pytest.approx(-0.5 * np.sqrt(2 / np.pi), rel=0.05)


# Words of little work


def test_blending_makes_words_older_and_quieter_by_the_stated_factors():
    """Work redrawn from 1 to 19 steps, 10 as usual: mean age in arrivals, noise of a word, noise of the model."""
    draw, count = np.random.default_rng(2), 200_000
    work = draw.integers(1, 20, count)
    theta = np.minimum(1, work / 10)
    noise = draw.standard_normal(count) / np.sqrt(work)
    age, word, ages, words = 0.0, 0.0, np.zeros(count), np.zeros(count)
    for i in range(count):
        age, word = (1 - theta[i]) * (age + 1), word + theta[i] * (noise[i] - word)
        ages[i], words[i] = age, word
    steps = np.arange(1, 20)
    share = np.minimum(1, steps / 10)
    assert ages.mean() == pytest.approx(1 / share.mean() - 1, rel=0.01) == pytest.approx(0.310, rel=0.01)
    of_word = np.mean(share**2 / steps) / (1 - np.mean((1 - share) ** 2))
    assert words.var() == pytest.approx(of_word, rel=0.02)
    assert of_word / np.mean(1 / steps) == pytest.approx(0.388, abs=0.001)
    stays = (2 / share.mean() - 1) / (1 - np.mean((1 - share) ** 2))
    of_model = np.mean(share**2 / steps) * stays
    assert 100 * words.reshape(-1, 100).mean(axis=1).var() == pytest.approx(of_model, rel=0.1)
    assert of_model / np.mean(1 / steps) == pytest.approx(0.628, abs=0.001)


# How much noise is left, and that no strategy has less


def spread_at(played, small, noise):
    """E ‖x − x*‖² in the long run, for small steps: ½ Σ c² σ² / Σ γ, c what an update counts in all steps together."""
    counts = np.einsum("t,tkl->kl", small * played.steps, played.shares)
    return 0.5 * np.sum(counts**2) * noise**2 / np.sum(small * played.steps)


def test_noise_grows_with_the_time_between_words():
    """Six clients that take turns: γ E σ² / (2 N), six times as much as if all came in every round."""
    rounds, small = 600, 0.01
    came = np.arange(rounds)[:, None] % 6 == np.arange(6)
    one = np.ones((rounds, 6))
    played = play(came, one, np.ones(6), fading=0.0)
    squares = (walk(played, came, one, np.zeros(6), 0.1, small, noise=1.0, seeds=600) ** 2)[400:]
    assert squares.mean() == pytest.approx(small * 6 / (2 * 6), rel=0.08)
    assert spread_at(played, small, 1.0) == pytest.approx(small * 6 / (2 * 6), rel=0.05)


def test_half_of_the_noise_of_nights_is_that_old_words_are_walked_again():
    """Days of 20 rounds, nights of 30 in which nobody comes; both rules go the same way."""
    rounds, draw = 1200, np.random.default_rng(3)
    came = (draw.random((rounds, 6)) < 0.3) & (np.arange(rounds)[:, None] % 50 < 20)
    came[0] = True
    one = np.ones((rounds, 6))
    stated = {}
    for rule in ("all", "news"):
        played = play(came, one, np.ones(6), fading=0.0, rule=rule)
        small = 0.004 / played.steps.mean()
        path = walk(played, came, one, np.zeros(6), 0.1, small, noise=1.0, seeds=300)
        stated[rule] = spread_at(played, small, 1.0)
        assert (path[600:] ** 2).mean() == pytest.approx(stated[rule], rel=0.1)
    assert stated["all"] > 1.9 * stated["news"]


# A client that vanishes


@pytest.mark.parametrize("fading", [0.0, 0.5, 1.0])
def test_a_vanished_client_draws_the_model_by_what_is_left_of_its_word(fading):
    rounds, last = 500, 60
    came = np.ones((rounds, 4), bool)
    came[last + 1 :, 0] = False
    one = np.ones((rounds, 4))
    x = walk(play(came, one, [0.1, 0.2, 0.3, 0.4], fading), came, one, CENTRES, 0.1, 0.5)[:, 0]
    others = np.array([0.2, 0.3, 0.4]) @ CENTRES[1:] / 0.9
    left = (x[last + 30 :] - others) / (0.1 * (CENTRES[0] - others))
    np.testing.assert_allclose(left, word_left(np.arange(30, rounds - last), last, fading), atol=0.03)


def test_what_is_left_of_a_word_by_hand():
    np.testing.assert_allclose(word_left([0.0, 300.0, 9900.0], 99), [1.0, 0.5, 0.1])
    np.testing.assert_allclose(word_left([0.0, 300.0], 99, 0.0), 1.0)
    with pytest.raises(ValueError, match="away must be 0 rounds or more, not -1"):
        word_left(-1.0, 10)


@pytest.mark.parametrize(("heard", "fading"), [(10**6, 0.5), (100, 1.0)])
def test_retiring_at_the_stated_age_costs_least(heard, fading):
    """Absences drawn one by one: the squares that both mistakes cost, over 400 rounds, by the age of retirement."""
    mean, vanishing, horizon = 20.0, 0.02, 400
    stated = retirement_age(mean_absence=mean, vanishing=vanishing, heard=heard, fading=fading)
    draw = np.random.default_rng(4)
    gone = draw.random(400_000) < vanishing
    lasts = np.where(gone, horizon, np.minimum(draw.geometric(1 / mean, gone.size), horizon))
    away = np.arange(horizon)
    there = np.array([np.sum(lasts > t) for t in away])
    vanished = gone.sum()
    rho = word_left(away, heard, fading)
    keep = vanished * rho**2 + (there - vanished) * (1 - rho) ** 2
    forget = there - vanished
    cost = np.array([keep[:age].sum() + forget[age:].sum() for age in range(horizon)])
    assert abs(int(np.argmin(cost)) - stated) <= 6
    assert retirement_age(mean_absence=1.0, vanishing=vanishing, heard=heard) == 1
    assert retirement_age(mean_absence=mean, vanishing=0.6, heard=heard) == 0
    assert retirement_age(mean_absence=1e18, vanishing=vanishing, heard=10**9, fading=0.0) > 10**18
    assert retirement_age(mean_absence=mean, vanishing=vanishing, heard=10**9) == np.ceil(
        np.log((1 - vanishing) / vanishing) / -np.log1p(-1 / mean)
    )
