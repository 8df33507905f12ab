"""Clusters are found without their number; cycles, persistence and rarity are not taken for company."""

import numpy as np
import pytest

from turnout.workbench.diagnosis.findings import clusters as module
from turnout.workbench.diagnosis.findings.clusters import clusters
from turnout.workbench.diagnosis.findings.cycles import Cycles, cycles
from turnout.workbench.diagnosis.findings.rates import rates
from turnout.workbench.diagnosis.reading.log import Log

CLIENTS, SLOTS = 60, 600
DRAW = np.random.default_rng(5)
PI, LAM = DRAW.uniform(0.1, 0.9, CLIENTS), DRAW.uniform(0, 0.95, CLIENTS)
NONE = Cycles(None, None, None)


def found_in(present, watched=None, rhythm=NONE):
    log = Log.from_matrix(present, watched=watched)
    return clusters(log, rates(log), rhythm)


def same(one, other):
    """Whether two labellings part the clients alike."""
    return (np.equal.outer(one, one) == np.equal.outer(other, other)).all()


def noisy(chains, cluster, share, seed=0):
    """Clients that do as their cluster does in a share of the slots, else as they like."""
    count = cluster.max() + 1
    together = chains(seed, PI[:count], LAM[:count], SLOTS)[cluster]
    alone = chains(seed + 1, PI[:count][cluster], LAM[:count][cluster], SLOTS)
    return np.where(np.random.default_rng(seed).random(together.shape) < share, together, alone)


# One noisy cluster of all clients is the course of the fleet and not looked for.
@pytest.mark.parametrize(("count", "share"), [(1, 1.0), (3, 1.0), (12, 1.0), (3, 0.8), (12, 0.8)])
def test_clusters_are_found(chains, count, share):
    cluster = np.arange(CLIENTS) % count
    found = found_in(noisy(chains, cluster, share))
    assert found.count == count
    assert same(found.label, cluster)
    assert found.strength == pytest.approx(share**2, abs=0.12)
    assert found.sampled is None
    assert (found.identical == CLIENTS) == (share == 1)


def test_who_moves_alone_is_in_no_cluster(chains):
    present = chains(3, PI, LAM, SLOTS)
    present[:10], present[10:15] = present[0], present[10]
    found = found_in(present)
    assert found.sizes.tolist() == [10, 5]
    assert found.label.tolist() == [0] * 10 + [1] * 5 + [-1] * 45
    assert found.share == 0.25
    assert same(found.unit, np.r_[[0] * 10, [1] * 5, np.arange(2, 47)])
    assert found.unit.max() == 46


@pytest.mark.parametrize("kind", ["plain", "slow", "rare", "often", "short"])
def test_independent_clients_are_in_no_cluster(chains, kind):
    pi = {"rare": 0.05, "often": 0.95}.get(kind, 1.0) * (np.ones(CLIENTS) if kind in ("rare", "often") else PI)
    lam = np.full(CLIENTS, 0.97) if kind == "slow" else LAM * 0.8
    counts = [found_in(chains(seed, pi, lam, 150 if kind == "short" else SLOTS)).count for seed in range(4)]
    assert sum(counts) <= 1


def test_a_common_day_is_no_company(chains):
    when = np.arange(SLOTS)[:, None] / 48
    zone = np.arange(CLIENTS) % 3 / 3
    chance = PI + 0.9 * np.minimum(PI, 1 - PI) * np.cos(2 * np.pi * (when - zone))
    log = Log.from_matrix(chains(7, chance, LAM, SLOTS))
    found = rates(log)
    assert clusters(log, found, cycles(log, found)).count == 0


def test_the_never_and_the_always_there_are_no_cluster():
    found = found_in(np.repeat(np.array([[False], [True]]), 100, axis=1).repeat(5, axis=0))
    assert found.count == 0
    assert found.identical == 0


def test_clients_watched_at_different_times(chains):
    cluster = np.arange(CLIENTS) % 4
    watched = np.ones((CLIENTS, SLOTS), bool)
    watched[::3, : SLOTS // 3] = watched[1::3, 2 * SLOTS // 3 :] = False
    assert same(found_in(noisy(chains, cluster, 0.95), watched).label, cluster)


def test_a_large_fleet_is_sampled_and_the_rest_join(chains, monkeypatch):
    monkeypatch.setattr(module, "MAX_CLIENTS", 24)
    cluster = np.arange(CLIENTS) % 3
    present = noisy(chains, cluster, 0.95)
    present[-12:] = chains(9, PI[-12:], LAM[-12:], SLOTS)
    found = found_in(present)
    assert 24 <= found.sampled < CLIENTS
    assert same(found.label[:-12], cluster[:-12])
    assert (found.label[-12:] == -1).mean() > 0.8


def test_dispersion_is_one_for_the_independent_and_large_for_clusters(chains):
    assert found_in(chains(0, PI, LAM * 0, SLOTS)).dispersion == pytest.approx(1, abs=0.2)
    assert found_in(noisy(chains, np.arange(CLIENTS) % 3, 1.0)).dispersion > 10
