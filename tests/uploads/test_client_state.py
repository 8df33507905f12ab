"""What lives on with clients, in whole runs: momentum, what was left out, what was sent."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import turnout
from turnout import availability, compute, links, simulate_trials, tasks
from turnout.auditor.auditing import audit_trials
from turnout.server.settings import ServerSettings
from turnout.simulator import client_state, loop, orders
from turnout.simulator.client_optimizer import Local
from turnout.simulator.clients import Trainees
from turnout.simulator.lane import Lane
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.trial import Trial, check_trial
from turnout.strategies import MIFA, FedAvg, LastWord, OptimalSampling
from turnout.types import Fleet
from turnout.uploads import Chain, Clip, EightBit, ErrorFeedback, FixedPoint, Noise, Plain, TopK

NUM_CLIENTS = 8
TASK = tasks.synthetic_leaf(num_clients=NUM_CLIENTS, num_features=6, num_classes=3, samples_per_client=40, seed=1)
STEPS = [0, 1, 2, 3, 1, 2, 3, 4]
MOMENTUM = optax.sgd(1.0, momentum=0.9)


def world(success=0.6, steps=None):
    work = compute.fixed(NUM_CLIENTS, 2) if steps is None else compute.per_client(NUM_CLIENTS, steps)
    return turnout.World(availability.two_classes(NUM_CLIENTS), links.bernoulli(NUM_CLIENTS, success), work)


def trial(strategy=None, place=None, **changes):
    local = changes.pop("local", Local(learning_rate=0.1, batch_size=8))
    return Trial(FedAvg() if strategy is None else strategy, world() if place is None else place, local, **changes)


def run(trials, rounds=40, **options):
    return simulate_trials(TASK, trials, rounds=rounds, seeds=2, evaluate_every=rounds, **options)


@pytest.mark.parametrize("steps", [None, STEPS], ids=["equal steps", "unequal steps, some none"])
@pytest.mark.parametrize("success", [1.0, 0.6])
@pytest.mark.parametrize("kind", [MIFA, LastWord])
def test_a_memory_on_the_clients_is_that_on_the_server(kind, success, steps):
    falling = Local(learning_rate=lambda t: 0.2 / (1.0 + 0.05 * jnp.asarray(t, jnp.float32)), batch_size=8)
    place = world(success, steps)
    both = [trial(kind(memory=memory), place, local=falling) for memory in ("server", "clients")]
    server, clients = run(both)
    for a, b in zip(jax.tree.leaves(server.params), jax.tree.leaves(clients.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_so_it_is_with_rests_around_it():
    resting = ServerSettings(rest=1)
    server, clients = run([trial(MIFA(memory=memory), server=resting) for memory in ("server", "clients")])
    np.testing.assert_allclose(server.final("train_loss"), clients.final("train_loss"), atol=1e-5)


def test_a_compressor_inside_the_memory_is_corrected():
    own, kept = (MIFA(memory=keeper, moves_when_empty=True) for keeper in ("clients", "server"))
    whole, few = run([trial(own), trial(own, uploads=TopK(0.2))], rounds=200)
    lost = run([trial(kept, uploads=TopK(0.2))], rounds=200)[0]
    off = np.abs(few.final("train_loss") - whole.final("train_loss"))
    assert (off < 0.6 * np.abs(lost.final("train_loss") - whole.final("train_loss"))).all()


@pytest.mark.parametrize("kind", [MIFA, LastWord])
def test_fixed_points_inside_the_memory_add_nothing_up(kind):
    """Neither rounding nor a range that is much too small for the first words."""
    own, coarse = kind(memory="clients"), FixedPoint(2.0**-4, 2.0**4)
    whole, fine, cut = run([trial(own), trial(own, uploads=FixedPoint()), trial(own, uploads=coarse)], rounds=120)
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(fine.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(cut.final("train_loss"), whole.final("train_loss"), rtol=0.02)


def test_segments_do_not_change_a_bit():
    lasting = Local(learning_rate=0.1, batch_size=8, optimizer=MOMENTUM, lasting=True)
    one = trial(local=lasting, uploads=ErrorFeedback(TopK(0.2)))
    whole, cut = (
        simulate_trials(TASK, [one], rounds=20, seeds=2, evaluate_every=4, segment=segment)[0] for segment in (None, 4)
    )
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(cut.params), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_eight_bits_cost_next_to_nothing_and_error_feedback_mends_top_k():
    uploads = [None, EightBit(), TopK(0.1), ErrorFeedback(TopK(0.1))]
    plain, eight, few, fed = (
        run([trial() if upload is None else trial(uploads=upload)], rounds=100)[0].final("train_loss")
        for upload in uploads
    )
    np.testing.assert_allclose(eight, plain, atol=2e-3)
    assert (np.abs(fed - plain) < np.abs(few - plain)).all()


def test_an_update_that_is_lost_leaves_the_error_as_it_was():
    """All uploads of every second client are lost: it must never have an error to send."""
    never = trial(uploads=ErrorFeedback(TopK(0.1)), place=world(success=[1.0, 0.0] * (NUM_CLIENTS // 2)))
    held = _clients_after(never, rounds=10)
    size = np.abs(np.asarray(held.uploads["bias"])).sum(axis=1)
    assert (size[1::2] == 0).all()
    assert (size[::2] > 0).any()


def test_momentum_moves_on_although_the_upload_is_lost():
    lasting = Local(learning_rate=0.1, batch_size=8, optimizer=MOMENTUM, lasting=True)
    held = _clients_after(trial(local=lasting, place=world(success=0.0)), rounds=10)
    moved = np.abs(np.asarray(jax.tree.leaves(held.optimizer)[0])).reshape(NUM_CLIENTS, -1).sum(axis=1)
    assert (moved > 0).any()


def test_a_momentum_that_is_not_finite_is_not_kept():
    blown = Local(learning_rate=1e30, batch_size=8, optimizer=MOMENTUM, lasting=True)
    held = _clients_after(trial(local=blown), rounds=10)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(held.optimizer))


def _clients_after(one, rounds):
    lane = _lane(one)
    carry = loop.begin(lane)
    for t in range(rounds):
        carry, _ = loop.play_round(Trainees(TASK), lane, jnp.asarray(t), carry)
    assert carry.clients is not None
    return carry.clients


def _lane(one):
    plan, record_plan = Plan(NUM_CLIENTS, NUM_CLIENTS, None, 4, NUM_CLIENTS), RecordPlan(64, 64, None)
    return Lane(TASK, None, one, one.world.law(), jax.random.key(0), plan, record_plan)


def test_reach_of_a_lasting_momentum_is_that_of_the_long_run():
    steps = jnp.asarray([0, 1, 10])
    fresh, lasting = (Local(optimizer=MOMENTUM, lasting=lasts).reach(steps, 0.1, 10) for lasts in (False, True))
    np.testing.assert_allclose(lasting, [0.0, 10.0, 100.0], rtol=1e-4)
    assert float(fresh[2] / fresh[1]) > 40
    decayed = Local(optimizer=MOMENTUM, lasting=True, decay=1.0).reach(steps, 0.1, 10)
    np.testing.assert_allclose(decayed[1:], [10.0, 10 * sum(1 / (1 + s) for s in range(10))], rtol=1e-4)


def test_where_nobody_asks_the_program_has_nothing_of_it(monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("client state was touched")

    monkeypatch.setattr(client_state.ClientState, "commit", never)
    monkeypatch.setattr(orders, "UploadContext", never)
    monkeypatch.setattr(Plain, "encode", never)
    carry = loop.begin(_lane(trial()))
    assert carry.clients is None
    assert len(jax.tree.leaves(carry)) == sum(
        len(jax.tree.leaves(part)) for part in (carry.world, carry.server, carry.tally, carry.roll)
    )
    run([trial()], rounds=3)


@pytest.mark.parametrize(
    ("strategy", "uploads", "reason"),
    [
        (FedAvg(), ErrorFeedback(Chain((Clip(1.0), TopK(0.1)))), None),
        (MIFA(memory="clients"), ErrorFeedback(TopK(0.1)), "give the compressor alone"),
        (MIFA(memory="clients"), Noise(0.1), "take the noise out again"),
        (OptimalSampling(cohort=3), Chain((Clip(1.0), Noise(0.1))), "lengths of updates, which Noise hides"),
        (OptimalSampling(cohort=3), EightBit(), None),
    ],
)
def test_combinations_that_break_are_refused(strategy, uploads, reason):
    one = trial(strategy, uploads=uploads)
    if reason is None:
        check_trial(TASK, one)
        return
    with pytest.raises(ValueError, match=reason):
        check_trial(TASK, one)


def test_lasting_needs_something_that_lasts():
    with pytest.raises(ValueError, match="lasting needs an optimizer"):
        Local(lasting=True)


def test_an_audit_leaves_the_way_out_and_says_so():
    fleet = Fleet(jnp.ones(NUM_CLIENTS))
    audited = audit_trials(
        fleet,
        {
            "server": trial(MIFA()),
            "clients": trial(MIFA(memory="clients")),
            "fading on the server": trial(LastWord()),
            "fading on the clients": trial(LastWord(memory="clients")),
            "clipped": trial(FedAvg(), uploads=Clip(1e-9)),
            "plain": trial(FedAvg()),
        },
        rounds=500,
        seeds=1,
    )
    np.testing.assert_allclose(audited["server"].weights, audited["clients"].weights, atol=1e-5)
    fading = (audited[f"fading on the {place}"].weights for place in ("server", "clients"))
    np.testing.assert_allclose(*fading, atol=1e-5)
    np.testing.assert_allclose(audited["clipped"].weights, audited["plain"].weights, atol=1e-6)
    assert any("left out" in note for note in audited["clipped"].notes)
    assert not audited["plain"].notes or not any("left out" in note for note in audited["plain"].notes)
