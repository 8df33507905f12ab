"""A world is like a log that it made, and unlike one that another kind made."""

import jax.random as jr
import numpy as np
import pytest

from turnout.availability import clustered, diurnal, markov
from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world import likeness as module
from turnout.workbench.diagnosis.world.fit import Fitted, fit
from turnout.workbench.diagnosis.world.likeness import likeness, part, play, simulate_log
from turnout.world import World

CLIENTS, SLOTS = 40, 600
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.15, 0.85, CLIENTS), DRAW.uniform(0.2, 0.9, CLIENTS)
SWING = 0.8 * np.minimum(PI, 1 - PI)

WORLDS = {
    "markov": markov(CLIENTS, PI.tolist(), LAM.tolist()),
    "clustered": clustered(CLIENTS, 5, PI[:5].tolist(), LAM[:5].tolist()),
    "diurnal": diurnal(CLIENTS, 48, PI.tolist(), SWING.tolist(), lam=(0.5 * LAM).tolist()),
}
PLAIN = {
    "markov": {"pi": PI.tolist(), "lam": LAM.tolist()},
    "clustered": {"clusters": 5, "pi": PI[:5].tolist(), "lam": LAM[:5].tolist()},
    "diurnal": {"rounds_per_day": 48, "mean": PI.tolist(), "amplitude": SWING.tolist(), "lam": (0.5 * LAM).tolist()},
}


@pytest.fixture(scope="module")
def logs():
    return {name: Log.from_matrix(play(world, SLOTS, 7)) for name, world in WORLDS.items()}


@pytest.mark.parametrize("kind", WORLDS)
def test_a_fitted_world_is_like_its_log(logs, kind):
    log = logs[kind]
    findings = examine(log)
    fitted = fit(log, findings)
    assert fitted.kind == kind
    found = likeness(log, findings, fitted, seeds=3)
    assert found.alike, found.differences
    assert found.differences == []
    assert {"availability", "autocorrelation", "clusters"} <= {each.name for each in found.comparisons}
    for each in found.comparisons:
        assert len(each.points) == len(each.real) == len(each.simulated)
        assert (each.low <= each.simulated + 1e-12).all()
        assert (each.simulated <= each.high + 1e-12).all()


@pytest.mark.parametrize(
    ("kind", "wrong", "aspect"),
    [
        ("clustered", "markov", "clusters"),
        ("markov", "clustered", "clusters"),
        ("diurnal", "markov", "course of the cycle"),
        ("markov", "diurnal", "fleet autocorrelation"),
    ],
)
def test_the_wrong_world_is_unlike(logs, kind, wrong, aspect):
    log = logs[kind]
    found = likeness(log, examine(log), Fitted(wrong, CLIENTS, PLAIN[wrong]), seeds=3)
    assert aspect in found.differences


def test_a_simulated_log_is_watched_as_the_real_one():
    watched = np.random.default_rng(0).random((CLIENTS, SLOTS)) < 0.5
    log = Log.from_matrix(watched, watched=watched, slot_seconds=60.0, clock_start=5.0)
    made = simulate_log(log, WORLDS["markov"], 0)
    np.testing.assert_array_equal(made.watched_matrix(), watched)
    np.testing.assert_array_equal(made.matrix(), play(WORLDS["markov"], SLOTS, 0) & watched)
    assert (made.slot_seconds, made.clock_start) == (60.0, 5.0)


def test_a_play_is_what_a_run_meets():
    world, root = World(WORLDS["markov"]), jr.key(3)
    state, met = world.init(root), []
    for t in range(5):
        state, nature = world.step(state, root, t)
        met.append(np.asarray(nature.available))
    np.testing.assert_array_equal(np.stack(met, axis=1), play(WORLDS["markov"], SLOTS, 3)[:, :5])


@pytest.mark.parametrize("kind", WORLDS)
def test_a_part_of_a_world_has_the_same_clients(kind):
    whole = Fitted(kind, CLIENTS, fit_parameters(kind))
    chosen = np.array([1, 4, 17, 30])
    few = part(whole, chosen)
    assert few.num_clients == 4
    before, after = play(whole.process(), SLOTS, 0)[chosen], play(few.process(), SLOTS, 1)
    np.testing.assert_allclose(after.mean(axis=1), before.mean(axis=1), atol=0.25)
    assert part(whole, np.arange(CLIENTS)) is whole


def fit_parameters(kind):
    """As `fit` gives them: a list per client, or per cluster."""
    if kind != "clustered":
        return PLAIN[kind] | ({"zones": [0.0] * CLIENTS} if kind == "diurnal" else {})
    return PLAIN[kind] | {"clusters": (np.arange(CLIENTS) * 5 // CLIENTS).tolist()}


def test_a_large_fleet_is_compared_by_a_sample(logs, monkeypatch):
    monkeypatch.setattr(module, "MAX_CLIENTS", 15)
    log = logs["markov"]
    findings = examine(log)
    found = likeness(log, findings, fit(log, findings), seeds=2)
    assert found.num_clients == 15
