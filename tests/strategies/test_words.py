"""The sum of all words stays theirs over long runs, though it is kept by differences in 32 bits."""

import importlib
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.server.server import Server
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.strategies import ACE, CA2FL, MIFA, FedLaAvg, FedVARP, LastWord, last_updates
from turnout.strategies.last_updates import Words
from turnout.strategies.memory_rows import unpack
from turnout.types import Answer, Fleet, Known, Reports

CLIENTS, DIMENSION, RATE = 20, 4, 0.1
LOUD, ROUNDS = 300, 2100  # the words of the first rounds are 10,000 times as long as the later ones


def played(strategy, rounds):
    """The words after rounds in which a tenth of the clients is there."""
    ones = jnp.ones(CLIENTS)
    server = Server.of(Fleet(ones), strategy, ServerSettings(), CLIENTS)

    def one_round(state, t):
        own, chosen, lot = jr.split(jr.fold_in(jr.key(0), t), 3)
        available = jr.uniform(chosen, (CLIENTS,)) < 0.1
        view = server.view(state, t, available, RATE, Known(ones, ones, ones, ones), None)
        cohort, state = server.ask(state, view, lot)
        length = jnp.where(t < LOUD, 1e4, 1.0)
        sent = Answer(RATE * length * jr.normal(own, (CLIENTS, DIMENSION)))
        cohort = server.admit(state, view, cohort, ones, lot)
        cohort = replace(cohort, arrived=cohort.uploading)
        reports = Reports.of(cohort, sent, ones, ones)
        return server.close(state, view, cohort, reports, Tally.empty(CLIENTS)).state, None

    @eqx.filter_jit
    def play():
        return jax.lax.scan(one_round, server.init(jnp.zeros(DIMENSION)), jnp.arange(rounds))[0]

    state = play().strategy
    return state if isinstance(state, Words) else state.words


def drift(heard):
    """How far the sum is from that of the words, in units of the length of all of them."""
    rows, weight = np.asarray(unpack(heard.rows), np.float64), np.asarray(heard.weight, np.float64)
    gap = np.asarray(heard.total, np.float64) - weight @ rows
    return float(np.linalg.norm(gap) / (weight @ np.linalg.norm(rows, axis=1)))


@pytest.mark.parametrize(
    "strategy", [MIFA(), MIFA(bits=8), FedVARP(), FedLaAvg(), LastWord(), LastWord(bits=16), ACE(), CA2FL()], ids=repr
)
def test_a_sum_does_not_drift_from_its_words(strategy):
    assert drift(played(strategy, ROUNDS)) < 3e-7


def test_without_its_refreshment_it_would(monkeypatch):
    monkeypatch.setattr(last_updates, "REFRESHED_AFTER", 10**6)
    assert drift(played(MIFA(), ROUNDS)) > 1e-5


@pytest.mark.parametrize("name", ["SCAFFOLD", pytest.param("LastWord, on clients", marks=pytest.mark.variant)])
def test_a_sum_of_what_clients_keep_drifts_with_the_root_of_the_rounds(monkeypatch, name):
    """Nobody can make it anew: it has about 1e-7 after 1,000 rounds and 1e-6 after 100,000."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    long_runs = importlib.import_module("long_runs")
    (found,) = long_runs.drifts(long_runs.STRATEGIES[name], (1000,), 0)
    assert 0 < found < 3e-7


def test_a_large_fleet_is_refreshed_more_rarely():
    """So that no round reads more than one row more, on average."""
    heard = Words(jnp.zeros((3000, 1)), jnp.ones(3000), jnp.ones(1))
    for t, total in ((999, 1.0), (2998, 1.0), (2999, 0.0)):
        assert float(heard._refresh(t).total[0]) == total


def test_audits_look_through_a_refreshment():
    """Its gradient is that of a sum that was never made anew."""
    rows = jnp.arange(6.0).reshape(3, 2)

    def total(weight, t):
        return jnp.sum(Words(rows, weight, weight @ rows)._refresh(t).total)

    weights = [jax.grad(total)(jnp.ones(3), t) for t in (0, 999)]
    np.testing.assert_array_equal(*weights)
