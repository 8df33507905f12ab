"""An audit says what a training would have done: the same weights, found without one."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from turnout import Local, Trial, World, audit, availability, compute, effective_weights, links, simulate_trials
from turnout.auditor.auditing import _shares
from turnout.auditor.voting import BURN_IN, SEGMENTS, play_trials
from turnout.server.facts import Online
from turnout.strategies import (
    MIFA,
    AdaFed,
    CAFed,
    CAFedAvg,
    Debiased,
    FedACS,
    FedAvg,
    FedAWE,
    FedLaAvg,
    FedNova,
    FedVARP,
    LastWord,
    OptimalSampling,
    Unbiased,
)
from turnout.tasks import quadratics
from turnout.tasks.base import Task
from turnout.types import Fleet, PerClient
from turnout.workbench.experiment.build import audit_experiment
from turnout.workbench.experiment.experiment_file import read_experiment
from turnout.workbench.report.audit import audit_page, audit_summary, audit_words, save_audit

PI = [0.9, 0.3, 0.5, 0.7, 0.2, 0.6]
LAM = [0.0, 0.5, 0.8, 0.0, 0.5, -0.2]
WORTH = [1.0, 2.0, 1.0, 3.0, 1.0, 1.0]
SUCCESS = [1.0, 0.8, 0.6, 1.0, 0.9, 0.7]
STEPS = [1, 2, 3, 4, 5, 6]


class Ballot(Task):
    """The long way: a model of N numbers, and client k pushes the k-th. Each step moves by the learning rate."""

    worth: PerClient

    @property
    def sizes(self):
        return jnp.ones(self.worth.shape, jnp.int32)

    @property
    def importance(self):
        return self.worth

    def init(self, key):
        return jnp.zeros(self.worth.shape)

    def batch(self, client, positions):
        return jnp.full(positions.shape, client)

    def loss(self, params, batch, present):
        return -params[batch[0]]

    def per_client(self, params):
        return {"train_loss": -params}


def scene(lossy=True):
    process = availability.markov(6, pi=PI, lam=LAM)
    return World(process, links.bernoulli(6, SUCCESS) if lossy else None, compute.per_client(6, STEPS))


@pytest.mark.parametrize(
    "strategy",
    [FedVARP(cohort=2), LastWord(), FedAWE(), FedLaAvg(cohort=2), Debiased()],
    ids=lambda s: type(s).__name__,
)
def test_votes_count_as_a_model_with_a_number_for_each_client_does(strategy):
    task, world, length = Ballot(jnp.asarray(WORTH)), scene(), 2
    trial = Trial(strategy, world, Local(learning_rate=0.5, batch_size=1))
    models = [
        simulate_trials(task, [trial], rounds=rounds, seeds=3, evaluate_every=rounds)[0].params
        for rounds in (length * BURN_IN, length * SEGMENTS)
    ]
    votes = play_trials(task.fleet, [trial], rounds=length * SEGMENTS, seeds=3)[0]
    np.testing.assert_allclose(np.sum(votes.counted, axis=1), models[1] - models[0], rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(votes.moves.sum(axis=1), models[1].sum(axis=1), rtol=2e-5)


def agrees(entry):
    """Closed form and what was played, within five standard errors, and the play is not that of the target alone."""
    assert entry.exact is not None, entry.label
    off = np.abs(entry.weights - entry.exact)
    assert (off <= 5 * entry.errors + 1e-5).all(), (entry.label, entry.weights, entry.exact, entry.errors)


def test_what_is_played_is_what_the_closed_form_says():
    strategies = {
        "received": FedAvg(),
        "all": FedAvg(normaliser="all"),
        "nova": FedNova(effective_steps=1.0, normaliser="all"),
        "unbiased": Unbiased(),
        "mifa": MIFA(),
        "optimal": OptimalSampling(cohort=2),
    }
    found = audit(scene(), strategies, importance=WORTH, rounds=5000, seeds=2)
    for entry in found.entries:
        agrees(entry)
        assert not entry.consistent, entry.label
        assert entry.participants >= entry.uploads >= entry.arrivals > 0
    assert found["mifa"].total_variation == pytest.approx(
        np.abs(np.array(WORTH) / 9 - np.multiply(WORTH, STEPS) / np.dot(WORTH, STEPS)).sum() / 2
    )


def test_absences_lost_uploads_and_unequal_work_at_once():
    """FedNova mends the work, MIFA absences and losses; LastWord all three."""
    kinds = [FedNova(), MIFA(), LastWord(), LastWord(fading=0.0)]
    played = audit(scene(), kinds, importance=WORTH, rounds=5000, seeds=2)
    assert {type(entry.strategy) for entry in played.entries if entry.consistent} == {LastWord}
    for entry in played.entries[-2:]:
        agrees(entry)


def test_closed_forms_of_worlds_in_which_clients_move_together():
    together = World(availability.clustered(6, [0, 0, 1, 1, 2, 2], pi=[0.9, 0.3, 0.5], lam=0.5))
    chain = World(
        availability.finite_chain(
            3, [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4]], [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
        )
    )
    spaced = World(availability.minimum_separation(6, batch=1, separation=2, weights=[1.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    for world, worth in ((together, WORTH), (chain, [1.0, 2.0, 3.0]), (spaced, None)):
        for entry in audit(world, [FedAvg(), AdaFed()], importance=worth, rounds=5000).entries:
            agrees(entry)
    for entry in audit(spaced, [Debiased()], rounds=5000).entries:
        agrees(entry)
        assert entry.consistent


def test_known_links_and_reach_are_made_up_for():
    world = World(availability.bernoulli(6, 1.0), links.redrawn(6, [0.2] * 6, SUCCESS), compute.redrawn(6, 1, STEPS))
    found = audit(world, [FedACS(cohort=3), CAFedAvg(cohort=3)], importance=WORTH, rounds=5000)
    for entry in found.entries:
        agrees(entry)
    assert found["FedACS"].consistent
    assert not found["CAFedAvg"].consistent


def test_the_verdict_without_a_closed_form():
    found = audit(scene(lossy=False), [Unbiased(), FedAvg()], importance=WORTH, facts=Online(), rounds=5000)
    assert found["Unbiased"].exact is None
    assert not found["Unbiased"].consistent
    alike = World(availability.markov(6, pi=PI, lam=LAM))
    found = audit(alike, {"told": Unbiased(), "online": FedAWE()}, importance=WORTH, rounds=5000)
    assert found["online"].exact is None
    assert found["online"].consistent
    assert found["told"].consistent
    assert found["online"].total_variation < 3 * found["online"].noise
    assert next(entry.label for entry in found.ranked()) in ("told", "online")


def test_intervals_hold_what_they_promise():
    rates = np.linspace(0.1, 0.9, 150)
    found = audit(World(availability.markov(150, pi=rates.tolist(), lam=0.5)), FedAvg(), rounds=2500).entries[0]
    inside = np.mean((found.exact >= found.low) & (found.exact <= found.high))
    assert 0.9 <= inside <= 0.99


def test_errors_of_shares_shrink_as_independent_segments_should():
    rng = np.random.default_rng(0)
    counted = rng.exponential(size=(40, SEGMENTS, 5))
    shares, errors, freedom = _shares(counted)
    assert freedom == 40 * (SEGMENTS - BURN_IN) - 1
    np.testing.assert_allclose(shares.sum(), 1)
    # A share of five exponentials of mean one varies by sqrt(4 / 5) / 5 a segment, for small fluctuations.
    np.testing.assert_allclose(errors, np.sqrt(0.8) / 5 / np.sqrt(freedom + 1), rtol=0.15)


def test_the_audit_predicts_where_training_ends():
    """Effective weights say which optimum the simulator reaches, on quadratics of curvature one and small steps."""
    task = quadratics(num_clients=6, dimension=3, seed=1)
    world = World(availability.markov(6, pi=PI, lam=LAM), compute=1)
    local = Local(learning_rate=0.004, batch_size=1)
    for strategy in (FedAvg(), MIFA()):
        weights = effective_weights(strategy, world, importance=np.asarray(task.importance).tolist())
        predicted = task.minimiser(jnp.asarray(weights, jnp.float32))
        run = simulate_trials(task, [Trial(strategy, world, local)], rounds=3000, seeds=16, evaluate_every=3000)[0]
        mean, error = run.params.mean(axis=0), run.params.std(axis=0, ddof=1) / np.sqrt(16)
        assert (np.abs(mean - predicted) <= 5 * error + 4e-3).all()
        biased = isinstance(strategy, FedAvg)
        far = np.linalg.norm(predicted - task.optimum)
        assert far > 0.05 if biased else far < 1e-3


def test_losses_and_lengths_are_said_to_be_left_out():
    found = audit(World(availability.bernoulli(6, 0.5)), [CAFed(), OptimalSampling(cohort=2)], rounds=100)
    assert "losses" in " ".join(found.entries[0].notes)
    assert "norm" in " ".join(found.entries[1].notes)
    assert len(audit_words(found)) >= 4


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"importance": [1.0, 2.0]}, "importance must be 6 numbers"),
        ({"importance": [0.0] * 6}, "not all zero"),
        ({"rounds": 0}, "rounds must be a whole number from 1 to 16,777,216, not 0"),
        ({"seeds": 0}, "seeds must be a whole number from 1 to 1,000,000 or a list"),
    ],
)
def test_bad_requests_are_refused(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        audit(World(availability.bernoulli(6, 0.5)), FedAvg(), **given)


def test_a_world_in_which_nothing_arrives_is_refused():
    with pytest.raises(ValueError, match="no update ever arrives"):
        audit(World(availability.bernoulli(6, 0.5), links.bernoulli(6, 0.0)), FedAvg(), rounds=50)


def test_two_of_a_kind_are_numbered_and_unknown_labels_are_named():
    found = audit(World(availability.bernoulli(6, 0.5)), [FedAvg(cohort=1), FedAvg(cohort=2)], rounds=50)
    assert [entry.label for entry in found.entries] == ["FedAvg 1", "FedAvg 2"]
    with pytest.raises(KeyError, match="FedAvg 1, FedAvg 2"):
        found["FedAvg"]


def test_an_experiment_is_audited_point_by_point_and_written_whole(tmp_path):
    experiment = read_experiment("demo", ("strategies=[{name='fedavg'}, {name='last_word'}]",))
    shares = []
    found = audit_experiment(experiment, rounds=200, progress=shares.append)
    assert [entry.label for entry in found.entries] == ["fedavg", "last_word"]
    assert shares[-1] == 1.0
    folder = save_audit(found, tmp_path / "out", experiment.to_toml(), "a title")
    assert sorted(each.name for each in folder.iterdir()) == [
        "audit.html",
        "audit.json",
        "clients.parquet",
        "experiment.toml",
        "manifest.json",
        "weights.png",
    ]
    stored = json.loads((folder / "audit.json").read_text())
    assert stored == json.loads(json.dumps(audit_summary(found)))
    assert stored["strategies"][0]["total_variation"] > 0.3
    assert stored["strategies"][1]["consistent"]
    assert found.frame().height == 2 * found.entries[0].target.size


def test_only_clients_above_their_target_are_named_as_such():
    entry = audit(World(availability.bernoulli(3, [0.9, 0.2, 0.2])), FedAvg(), rounds=200).entries[0]
    assert entry.over(3).tolist() == [0]
    assert sorted(entry.under(3).tolist()) == [1, 2]


def test_clients_with_names_are_called_by_them():
    names = ["oslo", "lyon", "bern"]
    result = audit(World(availability.bernoulli(3, [0.9, 0.5, 0.1])), FedAvg(), rounds=200, names=names)
    assert result.frame()["name"].to_list() == names
    assert "client oslo (" in audit_words(result)[0]
    assert ">client oslo<" in audit_page(result, "", "")
    assert audit_summary(result)["strategies"][0]["clients"]["name"] == names
    with pytest.raises(ValueError, match="names: given 2, expected one for each of the 3 clients"):
        audit(World(availability.bernoulli(3, 0.5)), FedAvg(), rounds=200, names=names[:2])


def test_fleets_with_no_target_for_some_client():
    fleet = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    entry = audit(World(availability.bernoulli(6, 0.5)), FedAvg(), importance=fleet, rounds=200).entries[0]
    assert entry.weights[1] == 0
    assert np.isnan(entry.ratio[1])
    assert Fleet(jnp.asarray(fleet)).target[1] == 0


def test_nothing_is_held_against_a_strategy_for_clients_that_hardly_come():
    world = World(availability.markov(6, pi=[0.5, 0.5, 0.5, 0.5, 0.5, 0.0005]))
    entry = audit(world, FedAWE(), rounds=2000).entries[0]
    assert entry.seldom.tolist() == [False] * 5 + [True]
    assert entry.consistent
    assert entry.noise >= 0.5 * abs(entry.weights[5] - entry.target[5])
    assert "1 clients came fewer" in entry.notes[0]
