from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.availability import bernoulli, cyclic, two_classes
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies import FedVARP, LastWord
from turnout.tasks import quadratics
from turnout.testing import check_strategy
from turnout.types import Answer, Ask, Cohort, Fleet, Known, Reports, View
from turnout.workbench.reproduction.variants import (
    Compensated,
    Corrected,
    Pooled,
    Shared,
    inverse_root,
    late_starts,
    spell,
)
from turnout.world import World, compute

TASK = quadratics(4, 2, spread=2.0, seed=1)
UNEQUAL = World(bernoulli(4, 0.4), compute=compute.per_client(4, [1, 2, 3, 4]))
PLAIN = LastWord(rule="plain")  # the rule that the variants change


def end(strategy, world, rounds=20):
    local = Local(learning_rate=0.05, batch_size=1)
    return np.asarray(simulate(TASK, world, strategy, rounds=rounds, seeds=2, local=local).params)


@pytest.mark.parametrize("variant", [Corrected, Compensated])
def test_a_variant_of_no_strength_is_last_word_itself(variant):
    plain = end(PLAIN, UNEQUAL)
    np.testing.assert_allclose(end(variant(0.0), UNEQUAL), plain, rtol=1e-5)
    assert np.abs(end(variant(1.0), UNEQUAL) - plain).max() > 1e-3


def test_fresh_changes_count_as_in_fedvarp():
    """FedVARP leaves this round out of the mean of what it remembers; LastWord has it in, with the rest to make up."""
    world = World(cyclic(2, groups=2), compute=1)
    pair = quadratics(2, 1, centres=[[1.0], [-3.0]])
    local = Local(learning_rate=0.05, batch_size=1)
    words, varp = (
        np.asarray(simulate(pair, world, strategy, rounds=400, local=local).params)
        for strategy in (Corrected(0.5, fading=0.0), FedVARP())
    )
    np.testing.assert_allclose(words, varp, atol=1e-3)  # (u - y) / 2 is in LastWord's mean already


def test_compensation_takes_a_stale_word_along_with_the_model():
    """Client 0 came once: its word stays that of the first model, unless it is brought to the present one."""
    world = World(cyclic(4, period=1000, offset=0, duration=[1, 1000, 1000, 1000]), compute=1)
    best = np.asarray(TASK.optimum)
    plain, moved = end(LastWord(0.0, rule="plain"), world, 200), end(Compensated(0.3, 0.0), world, 200)
    assert np.linalg.norm(moved - best) < np.linalg.norm(plain - best)


def test_groups_of_one_are_last_word_itself():
    np.testing.assert_allclose(end(Shared(4), UNEQUAL), end(PLAIN, UNEQUAL), rtol=1e-4)


def test_clients_that_come_together_share_a_row_at_no_loss():
    """With everybody of a group there at once, the group's word is the mean of its clients' words."""
    world = World(cyclic(4, groups=2), compute=3)
    np.testing.assert_allclose(end(Shared(2), world), end(PLAIN, world), rtol=1e-4)
    assert np.abs(end(Shared(2), UNEQUAL) - end(PLAIN, UNEQUAL)).max() > 1e-3


def test_a_variant_that_pools_words_keeps_the_contract():
    check_strategy(Pooled())


def directions(strategy, updates, reaches):
    """What one client's updates, of so much work each, make of the direction, at rate 1."""
    fleet, one = Fleet(jnp.ones(1)), jnp.ones(1)
    state, steps = strategy.init(fleet, jnp.zeros(())), []
    for t, (update, reach) in enumerate(zip(updates, reaches, strict=True)):
        view = View(t, fleet.importance, one > 0, Known(one, one, one, one), 1.0, None, slots=1)
        cohort = Cohort.pack(Ask.of(view.available, view.target), 1, view.lr)
        cohort = replace(cohort, arrived=cohort.uploading)
        reports = Reports.of(cohort, Answer(update * one), one, reach * one)
        move, state = strategy.aggregate(state, jnp.zeros(()), view, cohort, reports)
        steps.append(float(move.direction))
    return steps


def test_pooled_words_are_the_mean_over_recent_work():
    steps = directions(Pooled(0.5), [8.0, 3.0], [4.0, 1.0])
    assert steps[1] == pytest.approx((0.5 * 8.0 + 3.0) / (0.5 * 4.0 + 1.0))


def test_work_of_earlier_rounds_is_pooled_unless_none_is_kept():
    np.testing.assert_allclose(end(Pooled(0.0), UNEQUAL), end(PLAIN, UNEQUAL), rtol=1e-6)
    assert np.abs(end(Pooled(0.5), UNEQUAL) - end(PLAIN, UNEQUAL)).max() > 1e-3


def attendance(process, rounds=8):
    """Who is there, one row per round; processes of one fleet draw alike."""
    state, rows = process.init(jr.key(0)), []
    for t in range(rounds):
        state, available = process.step(state, jnp.asarray(t), jr.fold_in(jr.key(1), t))
        rows.append(np.asarray(available))
    return np.array(rows)


def test_in_a_spell_so_many_are_there_and_before_and_after_it_as_always():
    always, thin, empty = (
        attendance(process)
        for process in (two_classes(20), spell(20, first=3, rounds=4, left=1), spell(20, first=3, rounds=4))
    )
    assert (thin[3:7].sum(axis=1) == 1).all()
    assert len(set(thin[3:7].argmax(axis=1))) > 1  # drawn anew
    assert not empty[3:7].any()
    for found in (thin, empty):
        np.testing.assert_array_equal(np.delete(found, range(3, 7), 0), np.delete(always, range(3, 7), 0))


def test_every_second_client_starts_late():
    always, found = attendance(two_classes(20)), attendance(late_starts(20, first=3))
    assert not found[:3, 1::2].any()
    np.testing.assert_array_equal(found[:, ::2], always[:, ::2])
    np.testing.assert_array_equal(found[3:], always[3:])


def test_a_rate_falls_with_the_root_of_the_round():
    rate = inverse_root(0.1)
    assert [float(rate(t)) for t in (0, 30, 990)] == pytest.approx([0.1, 0.05, 0.01])
