"""Strategies ranked in a world like the log's."""

import numpy as np
import pytest

from turnout.strategies import MIFA, FedAvg
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world import ranking
from turnout.workbench.diagnosis.world.fit import Fitted
from turnout.workbench.diagnosis.world.likeness import part

PAIR = {"fedavg": FedAvg(), "mifa": MIFA()}


def a_log(clients, **columns):
    return Log.from_matrix(np.eye(clients, 4, dtype=bool), **columns)


def test_the_fair_one_comes_first():
    pi = [0.9, 0.9, 0.2, 0.2]
    found = ranking.rank(a_log(4), Fitted("markov", 4, {"pi": pi, "lam": 0.5}), np.full(4, 0.25), 500, PAIR)
    assert [rank.strategy for rank in found.ranks] == ["mifa", "fedavg"]
    assert found.best.consistent
    assert not found.ranks[1].consistent
    assert found.ranks[1].distance == pytest.approx(0.359, abs=0.02)  # 0.9 against 0.2, mostly not together
    assert (found.rounds, found.clients) == (500, 4)
    assert [rank.remembers_models for rank in found.ranks] == [True, False]


def test_lost_uploads_and_unequal_work_of_the_log_count():
    log = a_log(4, arrived=np.array([1.0, 1.0, 0.5, np.nan]), steps=np.array([1.0, 3.0, 1.0, np.nan]))
    alike = Fitted("bernoulli", 4, {"pi": 0.5})
    found = ranking.rank(log, alike, np.full(4, 0.25), 500, PAIR)
    by_name = {rank.strategy: rank for rank in found.ranks}
    assert by_name["mifa"].distance == pytest.approx(0.25)  # 1, 3, 1, 1 of 6 against a quarter each
    assert by_name["fedavg"].distance > 0.25


def test_a_large_fleet_is_sampled_and_clusters_stay_clusters(monkeypatch):
    monkeypatch.setattr(ranking, "MAX_CLIENTS", 5)
    monkeypatch.setattr(ranking, "SAMPLE_SIZE", 3)
    labels = [0, 1, 2, 3, 3, 3]
    world = Fitted("clustered", 6, {"clusters": labels, "pi": [0.9, 0.8, 0.7, 0.2], "lam": [0.1, 0.2, 0.3, 0.4]})
    chosen = np.sort(np.random.default_rng(0).choice(6, 3, replace=False))
    kept = sorted({labels[k] for k in chosen})
    cut = part(world, chosen).parameters
    assert [cut["pi"][c] for c in cut["clusters"]] == [world.parameters["pi"][labels[k]] for k in chosen]
    assert len(cut["pi"]) == len(kept)
    found = ranking.rank(a_log(6), world, np.full(6, 1 / 6), 100, {"fedavg": FedAvg()})
    assert found.clients == 3


def test_turns_cannot_be_sampled(monkeypatch):
    monkeypatch.setattr(ranking, "MAX_CLIENTS", 5)
    world = Fitted("minimum_separation", 6, {"batch": 1, "separation": 2})
    assert ranking.rank(a_log(6), world, np.full(6, 1 / 6), 100, PAIR) is None


def ranks(*fair, unfair=()):
    remembering = ("last_word", "mifa")
    good = [ranking.Rank(name, 0.0, 0.0, True, 0.1, "", "", name in remembering) for name in fair]
    bad = [ranking.Rank(name, 0.2, 0.0, False, 0.1, "", "", name in remembering) for name in unfair]
    return ranking.Ranking((*good, *bad), 100, 4)


@pytest.mark.parametrize(
    ("fair", "unfair", "recommended", "without"),
    [
        (("mifa", "last_word", "fedavg"), (), "fedavg", "fedavg"),
        (("mifa", "last_word", "fedau"), ("fedavg",), "last_word", "fedau"),
        (("last_word",), ("fedavg", "mifa"), "last_word", None),
        (("mifa", "fedau"), ("fedavg", "last_word"), "mifa", "fedau"),
        ((), ("fedau", "fedavg", "last_word"), "fedau", None),
    ],
)
def test_the_recommendation_follows_from_the_audit(fair, unfair, recommended, without):
    found = ranks(*fair, unfair=unfair)
    assert found.recommended.strategy == recommended
    assert (found.without_models and found.without_models.strategy) == without
