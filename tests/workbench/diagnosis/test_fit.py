"""A fitted world has the parameters of the one that made the log, and an experiment takes them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.availability import diurnal, minimum_separation
from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.fit import Fitted, feasible, fit

CLIENTS, SLOTS = 40, 1500
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.15, 0.85, CLIENTS), DRAW.uniform(0.2, 0.9, CLIENTS)


def fitted_to(present, **about):
    log = Log.from_matrix(present, **about)
    found = fit(log, examine(log))
    assert found.process().num_clients == log.num_clients
    assert json.loads(json.dumps(found.parameters)) == found.parameters  # plain numbers and lists
    return found


def test_chains(chains):
    found = fitted_to(chains(0, PI, LAM, SLOTS))
    assert found.kind == "markov"
    assert found.notes == ()
    assert np.abs(np.array(found.parameters["pi"]) - PI).mean() < 0.05
    assert np.abs(np.array(found.parameters["lam"]) - LAM).mean() < 0.05


def test_coins(chains):
    found = fitted_to(chains(1, PI, LAM * 0, SLOTS))
    assert found.kind == "bernoulli"
    assert set(found.parameters) == {"pi"}
    assert np.abs(np.array(found.parameters["pi"]) - PI).max() < 0.06


def test_clusters(chains):
    cluster = np.arange(CLIENTS) % 5
    found = fitted_to(chains(2, PI[:5], LAM[:5], SLOTS)[cluster])
    assert found.kind == "clustered"
    label = np.array(found.parameters["clusters"])
    assert (np.equal.outer(label, label) == np.equal.outer(cluster, cluster)).all()
    assert len(found.parameters["pi"]) == 5
    assert np.abs(np.array(found.parameters["pi"])[label] - PI[:5][cluster]).max() < 0.12


@pytest.mark.parametrize("clock", [None, 1800.0])
def test_days(chains, clock):
    zone = np.where(np.arange(CLIENTS) % 2, 6.0, 0.0)
    swing = 0.8 * np.minimum(PI, 1 - PI)
    lam = LAM * 0.8
    world = diurnal(CLIENTS, 48, PI.tolist(), swing.tolist(), 6.0, zones=(zone + 3).tolist(), lam=lam.tolist())
    start = {} if clock is None else {"slot_seconds": clock, "clock_start": 3 * 3600.0}
    day = np.asarray(world.profile(), np.float64)
    found = fitted_to(chains(5, np.tile(day, (SLOTS // 48 + 1, 1))[:SLOTS], lam, SLOTS), **start)
    assert found.kind == "diurnal"
    assert found.parameters["rounds_per_day"] == 48
    # The same chances of every client in every round of a day.
    off = np.asarray(found.process().profile()) - day
    assert np.abs(off).mean() < 0.07
    assert np.abs(np.array(found.parameters["lam"]) - lam).mean() < 0.08


def rested(weights, separation, slots):
    """One unit per slot, drawn by weight among those that have rested."""
    draw, wait, present = np.random.default_rng(0), np.zeros(len(weights)), np.zeros((len(weights), slots), bool)
    for t in range(slots):
        p = np.where(wait == 0, weights, 0)
        unit = draw.choice(len(weights), p=p / p.sum())
        wait = np.maximum(wait - 1, 0)
        wait[unit], present[unit, t] = separation, True
    return present


def test_rests():
    weights = 1 / np.arange(1, 11)
    found = fitted_to(rested(weights, 3, 4000))
    assert found.kind == "minimum_separation"
    assert (found.parameters["batch"], found.parameters["separation"]) == (1, 3)
    world = minimum_separation(10, weights.tolist(), separation=3)
    np.testing.assert_allclose(found.process().stationary(), world.stationary(), rtol=0.1)


def test_rests_of_whole_groups():
    found = fitted_to(rested(1 / np.arange(1, 11), 2, 1000).repeat(2, axis=0))
    assert found.kind == "minimum_separation"
    group = np.array(found.parameters["groups"]).reshape(10, 2)
    assert (group[:, 0] == group[:, 1]).all()
    assert sorted(group[:, 0]) == list(range(10))
    assert (found.parameters["batch"], found.parameters["separation"]) == (1, 2)


def test_the_stretch_after_a_change(chains):
    later = np.clip(PI + 0.3, 0.02, 0.98)
    chance = np.where((np.arange(SLOTS) < 600)[:, None], PI, later)
    found = fitted_to(chains(3, chance, LAM * 0.8, SLOTS))
    assert abs(found.first_slot - 600) < 130
    assert any("drifts" in note for note in found.notes)
    assert np.abs(np.array(found.parameters["pi"]) - later).mean() < 0.06


def test_flickering_sessions_are_slower_than_their_chains(chains):
    sessions = chains(4, PI, np.full(CLIENTS, 0.95), SLOTS)
    flicker = np.random.default_rng(0).random(sessions.shape) < 0.8
    found = fitted_to(sessions & flicker)
    assert any("forget more slowly" in note for note in found.notes)
    assert np.median(found.parameters["lam"]) > np.median(rates(Log.from_matrix(sessions & flicker)).lam) + 0.05


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 999))
def test_any_rates_are_made_feasible(clients, slots, seed):
    draw = np.random.default_rng(seed)
    watched = draw.random((clients, slots)) < 0.8
    log = Log.from_matrix(draw.random((clients, slots)) < draw.random(), watched=watched)
    pi, lam = feasible(rates(log))
    Fitted("markov", clients, {"pi": pi.tolist(), "lam": lam.tolist()}).process()
