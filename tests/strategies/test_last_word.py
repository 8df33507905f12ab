from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nights
from turnout.server import places
from turnout.server.server import Server
from turnout.strategies import MIFA, LastWord
from turnout.strategies.last_word import LastWordState
from turnout.types import Answer, Ask, Cohort, Fleet, Known, Reports, View

PLAIN = partial(LastWord, rule="plain")


def test_everybody_heard_counts_in_every_round(play):
    game = play(PLAIN(fading=0.0), importance=(1.0, 3.0))
    assert game.round([1, 0], [2.0, 9.0]) == pytest.approx(2.0)  # the one not heard yet does not shorten the step
    assert game.round([0, 0], [9.0, 9.0]) == pytest.approx(4.0)
    assert game.round([0, 1], [9.0, 4.0]) == pytest.approx(4.0 + (2.0 + 3 * 4.0) / 4)


def test_updates_count_per_unit_of_work(play):
    game = play(PLAIN(fading=0.0), importance=(1.0, 1.0), reach=[2.0, 6.0])
    assert game.round([1, 1], [4.0, 6.0]) == pytest.approx(4.0 * (4.0 / 2.0 + 6.0 / 6.0) / 2)  # τ̄ = 4


def test_old_words_fade_by_their_age(play):
    game = play(PLAIN(fading=1.0), importance=(1.0, 1.0))
    game.round([1, 0], [2.0, 0.0])  # weight 1
    before = game.round([0, 0], [0.0, 0.0])
    assert game.round([0, 1], [0.0, 6.0]) == pytest.approx(before + (1 * 2.0 + 3 * 6.0) / 4)


def test_words_are_used_at_the_present_rate(play):
    game = play(PLAIN(), importance=(1.0,), lr=0.1)
    game.round([1], [1.0])
    game.lr = 0.05
    assert game.round([0], [0.0]) == pytest.approx(1.0 + 0.5)


def test_an_update_of_no_work_says_nothing(play):
    game = play(PLAIN(), importance=(1.0, 1.0))
    game.round([1, 1], [2.0, 4.0])
    game.lr = 0.0
    assert game.round([1, 1], [0.0, 0.0]) == pytest.approx(3.0)
    game.lr, game.known = 0.1, replace(game.known, reach=jnp.array([1.0, 0.0]))
    assert game.round([0, 1], [0.0, 9.0]) == pytest.approx(6.0)


def test_nothing_heard_moves_nothing(play):
    assert play(LastWord(), start=4.0).round([0, 0, 0], [1.0, 1.0, 1.0]) == 4.0


def test_plain_with_equal_work_it_is_mifa(play, weather):
    mifa = MIFA(wait=True, moves_when_empty=True)
    word, memory = play(PLAIN(fading=0.0), weather.importance), play(mifa, weather.importance)
    everybody = [True] * len(weather.importance)
    for game in (word, memory):
        game.round(everybody, lambda starts: weather.pull(0, starts))
    for t in range(1, weather.rounds):
        for game in (word, memory):
            game.lr = weather.lrs[t]
            game.round(weather.available[t], lambda starts, t=t: weather.pull(t, starts), weather.arrived[t])
        assert float(word.state.params[0]) == pytest.approx(float(memory.state.params[0]), abs=2e-5)


@pytest.mark.parametrize(
    ("rule", "fading", "bits"),
    [
        ("plain", 0.0, 32),
        ("plain", 0.5, 8),
        ("plain", 1.3, 32),
        ("blend", 0.5, 32),
        ("blend", 0.5, 8),
        ("all", 0.5, 32),
        ("news", 0.0, 32),
        ("news", 0.5, 32),
        ("news", 1.3, 8),
    ],
)  # one number needs no rounding
def test_as_a_naive_server(play, weather, rule, fading, bits):
    """Every sum made anew in every round, with work that is redrawn; a model of one number is not rounded."""
    words, weights, work, shares = {}, {}, {}, []
    steps = np.random.default_rng(4).integers(1, 9, weather.available.shape)
    game = play(LastWord(rule=rule, fading=fading, bits=bits), weather.importance)
    model = 0.0

    def naive(t, came):
        nonlocal model
        usual = sum(weights[k] * work[k] for k in words) / max(1e-9, sum(weights.values()))
        for k in np.flatnonzero(came):
            word = weather.pull(t, model)[k] / (weather.lrs[t] * steps[t, k])
            trust = min(1.0, steps[t, k] / usual) if rule != "plain" and k in words else 1.0
            words[k] = trust * word + (1.0 - trust) * words.get(k, 0.0)
            weights[k], work[k] = weather.importance[k] * (t + 1) ** fading, steps[t, k]
        share = float(weather.target[came].sum())
        shares.extend([share] if share else [])
        if words and (share or rule != "news"):
            length = sum(weights[k] * work[k] for k in words) / sum(weights.values())
            if rule == "news":
                length *= 2 * share / (share + nights.usual_share(shares))
            everybody = sum(weather.importance) * (t + 1) ** fading
            mass = everybody if rule in ("all", "news") else sum(weights.values())
            model = model + weather.lrs[t] * length * sum(weights[k] * words[k] for k in words) / mass
        if t + 1 < weather.rounds:
            game.known = replace(game.known, reach=jnp.asarray(steps[t + 1], jnp.float32))
        return model

    game.known = replace(game.known, reach=jnp.asarray(steps[0], jnp.float32))
    weather.compare(game, naive)
    assert len(words) == len(weather.importance)


def test_an_empty_round_leaves_the_model(play):
    game = play(LastWord(), importance=(1.0, 1.0))
    before = game.round([1, 0], [2.0, 0.0])
    for _ in range(3):
        assert game.round([0, 0], [9.0, 9.0]) == before
    assert game.round([1, 1], [9.0, 9.0], arrived=[0, 0]) == before  # both uploads are lost


def test_little_news_makes_a_short_step(play):
    game = play(LastWord(fading=0.0), importance=(1.0, 1.0, 2.0))
    assert game.round([1, 1, 1], [4.0, 4.0, 4.0]) == pytest.approx(4.0)
    mean = (1.0 + 0.25) / 2
    assert game.round([1, 0, 0], [4.0, 0.0, 0.0]) == pytest.approx(4.0 + 4.0 * 2 * 0.25 / (0.25 + mean))


def test_many_rounds_with_little_news_are_not_soon_the_usual_ones(play):
    game = play(LastWord(fading=0.0), importance=(0.01, 0.99))
    model, walked = game.round([1, 1], [1.0, 1.0]), 0.0
    for t in range(2, 102):
        mean, among_arrivals = (1.0 + 0.01 * (t - 1)) / t, (1.0 + 0.0001 * (t - 1)) / (1.0 + 0.01 * (t - 1))
        step = 2 * 0.01 / (0.01 + max(mean, 0.5 * among_arrivals))
        after = game.round([1, 0], [1.0, 0.0])
        assert after - model == pytest.approx(step, abs=1e-5)
        model, walked = after, walked + step
    bound = 4 * 1 * (1 + 1)  # 4n (1 + n / T₀), as many came in the spell as in the one round before
    assert walked < bound < 45 < sum(2 * 0.01 / (0.01 + (1.0 + 0.01 * (t - 1)) / t) for t in range(2, 102))


def test_who_is_not_heard_yet_shortens_the_step(play):
    game = play(LastWord(), importance=(1.0, 3.0))
    assert game.round([1, 0], [4.0, 0.0]) == pytest.approx(4.0 / 4)


def test_a_blended_word_of_little_work_corrects_the_one_before(play):
    game = play(LastWord(rule="blend"), importance=(1.0,), lr=1.0, reach=[4.0])
    assert game.round([1], [8.0]) == pytest.approx(8.0)  # the first word: 2 per step
    game.known = replace(game.known, reach=jnp.array([1.0]))
    corrected = 2.0 + (4.0 - 2.0) / 4  # a quarter of the work of the word before
    assert game.round([1], [4.0]) == pytest.approx(8.0 + corrected)
    game.known = replace(game.known, reach=jnp.array([5.0]))
    assert game.round([1], [5.0]) == pytest.approx(8.0 + corrected + 5.0)  # more work than usual replaces it


def test_blended_words_of_equal_work_are_the_plain_ones(play, weather):
    plain, blended = (play(LastWord(rule=rule), weather.importance, reach=[3.0] * 6) for rule in ("plain", "blend"))
    for t in range(weather.rounds):
        for game in (plain, blended):
            game.lr = weather.lrs[t]
            game.round(weather.available[t], lambda starts, t=t: weather.pull(t, starts), weather.arrived[t])
        assert float(plain.state.params[0]) == pytest.approx(float(blended.state.params[0]), rel=1e-5, abs=1e-6)


def test_a_fading_that_grows_with_age_is_refused(play):
    with pytest.raises(ValueError, match="fading must be a finite number of 0 or more, not -1"):
        play(LastWord(fading=-1.0))


def test_the_sum_does_not_drift_from_its_rows():
    """After 20,000 rounds of differences in single precision the sum is that of the rows."""
    num_clients, rounds = 20, 20_000
    strategy, fleet = LastWord(), Fleet(jnp.linspace(0.5, 2.0, num_clients))
    ones = jnp.ones(num_clients)

    def step(state: LastWordState, t):
        draws = jax.random.normal(jax.random.fold_in(jax.random.key(0), t), (2, num_clients))
        view = View(t, fleet.importance, draws[0] > 0.5, Known(ones, ones, ones, ones), 0.1, None, slots=num_clients)
        cohort = Cohort.pack(Ask.of(view.available, view.target), num_clients, view.lr)
        cohort = replace(cohort, arrived=cohort.uploading)
        answers = Answer(cohort.take(draws[1])[:, None])
        reports = Reports.of(cohort, answers, cohort.weight, cohort.take(1 + draws[1] ** 2))
        return strategy.aggregate(state, jnp.zeros(1), view, cohort, reports)[1], None

    state, _ = jax.lax.scan(step, strategy.init(fleet, jnp.zeros(1)), jnp.arange(rounds))
    exact = np.asarray(state.words.weight, np.float64) @ np.asarray(state.words.rows, np.float64)
    size = np.asarray(state.words.weight, np.float64) @ np.abs(np.asarray(state.words.rows, np.float64))
    assert abs(float(state.words.total[0]) - exact[0]) < 1e-5 * size[0]


@pytest.mark.parametrize("rule", ["plain", "blend"])
def test_a_client_that_left_leaves_no_ghost_in_the_sum(play, rule):
    game = play(LastWord(rule=rule), importance=(1.0, 1.0))
    game.round([1, 1], [2.0, 8.0])
    fleet = Fleet(jnp.array([1.0, 0.0]), jnp.array([True, False]))
    server = Server.of(fleet, LastWord(rule=rule), slots=2)
    game.server, game.state = server, places.vacate(server, game.state, jnp.array([False, True]))
    assert game.round([0, 0], [0.0, 0.0]) == pytest.approx(5.0 + 2.0)


def test_the_first_word_of_a_newcomer_is_not_blended_with_that_of_the_one_before(play):
    strategy = LastWord(fading=0.0, rule="blend")
    game = play(strategy, importance=(1.0, 1.0), lr=1.0, reach=[4.0, 4.0])
    game.round([1, 1], [8.0, 80.0])
    server = Server.of(Fleet(jnp.ones(2)), strategy, slots=2)
    game.server, game.state = server, places.vacate(server, game.state, jnp.array([False, True]))
    game.known = replace(game.known, reach=jnp.array([4.0, 1.0]))
    assert game.round([0, 1], [0.0, 4.0]) == pytest.approx(44.0 + 2.5 * (2.0 + 4.0) / 2)  # τ̄ = 2.5
