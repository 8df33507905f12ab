"""Slow clients and servers that do not wait: the compiled ticks against plain loops."""

import re

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import turnout
from played_in_time import Fleet, LastWords, Mifa, fedavg, play
from played_in_time import Steered as SteeredLoops
from steered import Steered
from turnout import Local, World, simulate, simulate_trials, types
from turnout.availability import bernoulli, markov
from turnout.paces import Buffered, Clocked, Rounds
from turnout.simulator import crew
from turnout.simulator.lane import Lane
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.rehearsal import rehearse
from turnout.simulator.tick import begin_time
from turnout.simulator.trial import Trial, as_arrays
from turnout.strategies import MIFA, AmplifiedFedAvg, FedAvg, LastWord, OptimalSampling
from turnout.tasks import synthetic_leaf
from turnout.tasks.quadratics import Quadratics, quadratics
from turnout.world import compute, durations, links

COUNT, TICKS = 9, 80
RNG = np.random.default_rng(1)
FLEET = Fleet(RNG.normal(size=(COUNT, 3)), np.linspace(0.5, 1.5, COUNT), np.linspace(1.0, 2.0, COUNT))
PACES = {
    "rounds": Rounds(),
    "quorum": Rounds(quorum=0.5),
    "quorum kept": Rounds(quorum=0.5, late="keep"),
    "deadline": Rounds(deadline=3),
    "capped rounds": Rounds(quorum=0.7, concurrency=4),
    "buffered": Buffered(size=3),
    "capped": Buffered(size=3, concurrency=5),
    "one": Buffered(size=1),
    "clocked": Clocked(every=4),
    "capped clock": Clocked(every=3, concurrency=4),
}
ALGORITHMS = {"fedavg": (FedAvg(), lambda: fedavg), "mifa": (MIFA(), Mifa), "last_word": (LastWord(), LastWords)}


def task():
    return Quadratics.of(FLEET.centres, FLEET.curvature, importance=FLEET.importance.tolist(), start=np.ones(3))


def world(leaving, success=0.8):
    away = markov(COUNT, pi=np.linspace(0.3, 0.9, COUNT).tolist(), lam=0.4)
    slow = durations.lognormal(COUNT, median=np.linspace(1, 7, COUNT).tolist(), sigma=0.5, most=12.0, leaving=leaving)
    steps = compute.per_client(COUNT, [1, 2, 3, 4, 1, 2, 3, 4, 2])
    return World(away, links.bernoulli(COUNT, success), steps, slow)


def rate(version):
    return 0.2 / (1.0 + 0.05 * jnp.asarray(version, jnp.float32))


def compiled(strategy, pace, leaving, **options):
    local = Local(learning_rate=rate, batch_size=1)
    return simulate(task(), world(leaving), strategy, rounds=TICKS, local=local, pace=pace, **options)


def combinations():
    """Each pace with each algorithm, and each way of leaving in turn; without a marker each pace once."""
    for place, pace in enumerate(PACES):
        for turn, name in enumerate(ALGORITHMS):
            leaving = ("continue", "pause", "abort")[(place + turn + place // 3) % 3]
            leaving = "answer" if (place, turn) == (2, 2) else leaving
            yield pytest.param(
                name, pace, leaving, marks=() if place in (2, 6, 8) and place % 3 == turn else pytest.mark.variant
            )


@pytest.mark.parametrize(("name", "pace", "leaving"), list(combinations()))
def test_ticks_are_those_of_plain_loops(name, pace, leaving):
    strategy, twin = ALGORITHMS[name]
    run = compiled(strategy, PACES[pace], leaving)
    plain = play(world(leaving), FLEET, PACES[pace], twin(), TICKS, rate)
    np.testing.assert_allclose(run.params[0], plain.model, rtol=1e-5, atol=1e-6)
    assert run.records["server_steps"].sum() == plain.versions > 0
    np.testing.assert_array_equal(run.clients["used"][0], plain.used)
    assert run.ages.sum() == len(plain.ages)
    np.testing.assert_allclose((run.clients["age"] * run.clients["used"]).sum(), sum(plain.ages), rtol=1e-5)


def short(strategy, slow, rounds=40, **options):
    local = options.pop("local", Local(learning_rate=0.1, batch_size=1))
    away = bernoulli(COUNT, np.linspace(0.4, 0.9, COUNT).tolist())
    everything = World(away, links.bernoulli(COUNT, 0.8), durations=slow)
    return simulate(task(), everything, strategy, rounds=rounds, local=local, **options)


@pytest.mark.parametrize("strategy", [LastWord(), FedAvg(cohort=3)], ids=["last_word", "cohort"])
def test_rounds_of_no_duration_are_rounds(strategy):
    """Ticks give the numbers that rounds give, but for the last bit: the two are programs of their own."""
    ticks, rounds = short(strategy, 0, seeds=2), short(strategy, None, seeds=2)
    np.testing.assert_array_max_ulp(np.asarray(ticks.params), np.asarray(rounds.params), maxulp=2)
    np.testing.assert_array_equal(ticks.clients["weight"], rounds.clients["weight"])
    assert ticks.records["server_steps"].sum() == 2 * 40


@pytest.mark.parametrize(
    "pace",
    [
        Rounds(quorum=0.5, late="keep"),
        *(pytest.param(pace, marks=pytest.mark.variant) for pace in (Rounds(quorum=0.5), Buffered(3), Clocked(4))),
    ],
)
def test_memories_on_clients_train_the_model_of_memories_on_the_server(pace):
    """Also where answers are old: a word is about the model that its client was sent."""
    slow = durations.fixed(COUNT, [0, 1, 2, 3, 4, 5, 6, 7, 8])
    local = Local(learning_rate=rate, batch_size=1)
    runs = [short(LastWord(memory=keeper), slow, pace=pace, local=local) for keeper in ("server", "clients")]
    np.testing.assert_allclose(runs[0].params, runs[1].params, rtol=1e-5)


@pytest.mark.parametrize(
    "pace", ["capped", *(pytest.param(pace, marks=pytest.mark.variant) for pace in PACES if pace != "capped")]
)
def test_a_client_is_steered_by_what_it_was_sent(pace):
    """The second vector is that of the start, however much later the client is trained."""
    run = compiled(Steered(0.1), PACES[pace], "continue")
    plain = play(world("continue"), FLEET, PACES[pace], SteeredLoops(FLEET, 0.1), TICKS, rate)
    np.testing.assert_allclose(run.params[0], plain.model, rtol=1e-5, atol=1e-6)
    assert max(plain.ages) > (1 if isinstance(PACES[pace], Buffered | Clocked) else -1)


def test_what_was_sent_is_held_once_per_busy_place():
    """The model, and the second vector where there is one; nothing else has the size of a model."""
    everywhere, params, places = world("continue"), jnp.zeros(1000), 6
    plan = Plan(slots=4, most_available=COUNT, common_steps=None, most_steps=4, chunk=4, places=places, closing=5)
    fleet = types.Fleet(jnp.asarray(FLEET.importance, jnp.float32))
    for strategy, vectors in ((FedAvg(), 1), (Steered(0.1), 2)):
        trial = as_arrays(Trial(strategy, everywhere, pace=Buffered(size=3, concurrency=4)))
        lane = Lane(None, None, trial, everywhere.law(), jr.key(0), plan, RecordPlan(0, 0, None))
        state = trial.make_server(fleet, plan.slots).init(params)
        held = jax.eval_shape(lambda lane=lane, state=state: begin_time(lane, fleet, state))
        sizes = [leaf.size for leaf in jax.tree.leaves(held) if leaf.size >= params.size]
        assert sizes == [places * params.size] * vectors


def test_seeds_and_trials_side_by_side_are_as_alone():
    """Also where one lane steps in a tick and another does not."""
    paces = Buffered(size=2), Buffered(size=5)
    local = Local(learning_rate=0.1, batch_size=1)
    trials = [Trial(MIFA(), world("pause"), local, pace=pace) for pace in paces]
    together = simulate_trials(task(), trials, rounds=40, seeds=3)
    for pace, both in zip(paces, together, strict=True):
        alone = simulate(task(), world("pause"), MIFA(), rounds=40, seeds=[2], local=local, pace=pace)
        np.testing.assert_allclose(alone.params[0], both.params[2], rtol=1e-6)
        np.testing.assert_array_equal(alone.records["used"][0], both.records["used"][2])


def test_work_that_counts_though_it_is_lost_is_done_at_once():
    """The momentum of a client moves whenever its work is over, also if the upload is lost."""
    local = Local(learning_rate=0.05, batch_size=1, optimizer=optax.sgd(1.0, momentum=0.5), lasting=True)
    slow = durations.fixed(COUNT, [0, 1, 2, 3, 0, 1, 2, 3, 4])
    zero = [short(FedAvg(), quick, local=local) for quick in (0, None)]
    np.testing.assert_array_equal(zero[0].params, zero[1].params)
    assert np.isfinite(short(FedAvg(), slow, local=local, pace=Buffered(size=2)).params).all()


def test_norms_decide_who_uploads_also_in_time():
    zero = [short(OptimalSampling(cohort=3), quick, rounds=20) for quick in (0, None)]
    np.testing.assert_allclose(zero[0].params, zero[1].params, rtol=1e-6)
    run = short(OptimalSampling(cohort=3), 3, pace=Clocked(every=3))
    assert run.records["uploads"].sum() < run.records["cohort"].sum()


def test_segments_do_not_change_a_bit():
    whole, cut = (short(MIFA(), 3, pace=Buffered(size=3), evaluate_every=10, segment=size) for size in (None, 10))
    np.testing.assert_array_equal(whole.params, cut.params)
    np.testing.assert_array_equal(whole.records["at_work"], cut.records["at_work"])


def test_a_late_answer_is_dropped_or_kept():
    """One slow client of two, a quorum of one half: dropped it never counts, kept it counts every third round."""
    two = Quadratics.of(FLEET.centres[:2], start=np.ones(3))
    world = World(bernoulli(2, 1.0), durations=durations.fixed(2, [0, 2]))
    used = {}
    for late in ("drop", "keep"):
        run = simulate(two, world, FedAvg(), rounds=60, pace=Rounds(quorum=0.5, late=late))
        used[late] = run.clients["used"][0].tolist()
    assert used == {"drop": [60, 0], "keep": [60, 20]}


@pytest.mark.parametrize(
    ("pace", "given", "words"),
    [
        (Rounds, dict(quorum=1.5), "quorum must be a number above 0 and at most 1"),
        (Rounds, dict(quorum=0.0), "quorum must be a number above 0"),
        (Rounds, dict(deadline=0), "deadline must be a whole number from 1"),
        (Rounds, dict(deadline=2), "deadline = 2 is over before anybody can answer"),
        (Buffered, dict(size=0), "size must be a whole number from 1"),
        (Buffered, dict(size=10), "size must be a whole number from 1 to the 9 clients"),
        (Buffered, dict(size=5, concurrency=3), "concurrency = 3 is below size = 5"),
        (Clocked, dict(every=0), "every must be a whole number"),
        (Buffered, dict(concurrency=0), "concurrency must be a whole number from 1"),
    ],
)
def test_a_pace_that_cannot_be_kept_is_refused(pace, given, words):
    with pytest.raises(ValueError, match=words):
        short(FedAvg(), 4, pace=pace(**given))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: durations.fixed(3, [1, -1, 2]), "client 1 has durations: ticks = -1"),
        (lambda: durations.fixed(3, 2**22), "at most 1,048,576"),
        (lambda: durations.lognormal(3, [1.0, float("nan"), 2.0]), r"median\[1\] must be a finite number, not nan"),
        (lambda: durations.lognormal(3, float("inf")), "median must be a finite number"),
        (lambda: durations.lognormal(1, -1.0), "^client 0 has durations with median = -1: must be from 0 to"),
        (lambda: durations.timed(3, tick_seconds=0.0, per_step=1.0), "tick_seconds must be a finite number above 0"),
        (lambda: durations.timed(3, tick_seconds=1e-9, per_step=1e9), "ticks for one step: must be at most 1,048,576"),
        (lambda: durations.drawn(3, 2.0, 0.5, low=5, high=2), "0 ≤ low ≤ high"),
        (lambda: durations.resampled(2, [[], []], 60.0), "no client has a recorded duration"),
        (lambda: World(bernoulli(4, 0.5), durations=durations.fixed(3)), "durations describes 3 clients"),
    ],
)
def test_durations_that_cannot_be_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_run_in_which_nobody_can_answer_is_refused():
    with pytest.raises(ValueError, match=r"rounds = 40: all work takes 41 ticks or more.*: run for more ticks"):
        short(FedAvg(), 40)
    with pytest.raises(ValueError, match="rounds = 100: all work takes 121 ticks"):
        turnout.audit(World(bernoulli(COUNT, 1.0), durations=120), FedAvg(), rounds=100)


def test_work_under_way_that_does_not_fit_is_refused_before_it_is_held(monkeypatch):
    """With what was sent: a strategy that sends a second vector needs twice the room."""
    large, models = quadratics(num_clients=COUNT, dimension=1000), 4 * 1000 * COUNT  # bytes of one per client
    local = Local(learning_rate=0.1, batch_size=1)

    def run(strategy, room):
        monkeypatch.setattr("turnout.simulator.crew.device_memory", lambda: room)
        return simulate(large, world("continue"), strategy, rounds=10, local=local, pace=Buffered(size=3))

    for strategy, room in ((FedAvg(), 0.9 * models), (AmplifiedFedAvg(2), 0.9 * models), (Steered(0.1), 1.9 * models)):
        with pytest.raises(ValueError, match=r"GiB for 9 clients at once.*: give the pace a `concurrency`"):
            run(strategy, room)
    assert run(FedAvg(), 1.5 * models).records["used"].sum() > 0


@pytest.mark.parametrize(
    "law",
    [
        durations.fixed(4, [0, 1, 5, 2]),
        durations.drawn(4, 5.0, 0.8, seed=1),
        durations.lognormal(4, [0.5, 1.0, 3.0, 9.0], 0.6, most=15.0),
        durations.timed(4, 60.0, [10.0, 20.0, 30.0, 100.0], download=20.0, sigma=0.4),
        durations.resampled(4, [[30.0, 90.0], [], [600.0], [61.0, 59.0, 300.0]], 60.0),
    ],
)
def test_the_law_of_durations_is_that_of_draws(law):
    steps = jnp.asarray([5, 1, 2, 3], jnp.int32)
    keys = jr.split(jr.key(0), 4000)
    draws = np.asarray(jax.vmap(lambda key: law.step(0, steps, key))(keys))
    table = law.law(np.asarray(steps))
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    for client in range(4):
        counted = np.bincount(draws[:, client], minlength=table.shape[1])[: table.shape[1]] / len(draws)
        np.testing.assert_allclose(counted, table[client], atol=0.03)
    np.testing.assert_allclose(law.mean(np.asarray(steps)), draws.mean(axis=0), rtol=0.05, atol=0.05)


def test_models_are_held_for_busy_clients_only():
    """At most C at work and K - 1 waiting to be used, whatever the number of clients."""
    many, roots = 400, jax.vmap(jr.key)(jnp.arange(2, dtype=jnp.uint32))
    everywhere = World(bernoulli(many, 0.7), durations=durations.drawn(many, 6.0, 1.0, 1, 20))
    trial = Trial(MIFA(), everywhere, pace=Buffered(size=5, concurrency=20))
    sizes = rehearse(types.Fleet(jnp.ones(many)), [trial], roots, 200, 5)
    assert sizes.busy <= 20 + 5 - 1
    assert sizes.closing <= 20 + 5 - 1
    assert sizes.asked == 20


@pytest.mark.parametrize("strategy", [MIFA(), pytest.param(LastWord(), marks=pytest.mark.variant)])
def test_a_memory_is_never_copied(strategy, monkeypatch):
    """Its rows are read and written where clients have answered, in ticks with and without a step of the server."""
    found, compiling = [], crew._compile_for

    def compile_for(function, *arguments, **more):
        program = compiling(function, *arguments, **more)
        if function is crew._advance:
            found.append(program.compiled.as_text())
        return program

    monkeypatch.setattr(crew, "_compile_for", compile_for)
    count, features, classes = 37, 53, 3  # as nothing else has
    data = synthetic_leaf(num_clients=count, num_features=features, num_classes=classes, samples_per_client=20)
    slow = World(bernoulli(count, 0.9), durations=durations.fixed(count, 3))
    simulate(data, slow, strategy, rounds=8, local=Local(batch_size=4), pace=Buffered(5), evaluate_every=8)
    (text,) = found
    memory = rf"f32\[(?:1,)?{count},(?:{features},{classes}|{classes},{features})\]"
    assert re.search(memory, text)
    assert not re.findall(rf"= {memory}\S* copy\(", text)
