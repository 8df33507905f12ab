"""Clients that leave for good: the sum of words is then that of a fleet in which they never were."""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from steered import Corrected, Steered
from turnout.server.places import take_back, vacate
from turnout.server.server import Server, ServerState
from turnout.server.tally import Tally
from turnout.strategies import FOCUS, MIFA, SCAFFOLD, FedAvg, FedDyn, FedVARP, LastWord
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Sums, Words
from turnout.types import Answer, Fleet, Known, PyTree, Reports, Work, where_rows

COUNT, LEAVER, ROUNDS, REACH = 5, 3, 9, 4.0
IMPORTANCE = jnp.array([1.0, 2.0, 0.5, 1.5, 1.0])
OTHERS = jnp.arange(COUNT) != LEAVER
DRAW = np.random.default_rng(6)
COMES = jnp.asarray(DRAW.random((2 * ROUNDS, COUNT)) < 0.6).at[:, 0].set(True)  # so that somebody always comes
UPDATES = jnp.asarray(DRAW.normal(size=(2 * ROUNDS, COUNT, 3)), jnp.float32)  # whatever the model is


def server_of(strategy, members):
    return Server.of(Fleet(jnp.where(members, IMPORTANCE, 0.0), members), strategy, slots=COUNT)


class Sent(NamedTuple):
    """A server, and what each client keeps, after rounds with given updates."""

    server: Server
    state: ServerState
    kept: PyTree

    @classmethod
    def nothing(cls, strategy, members=OTHERS | True):
        server = server_of(strategy, members)
        init = (strategy.client_side or ClientSide()).init
        return cls(server, server.init(jnp.zeros(3)), jax.vmap(lambda _: init(jnp.zeros(3)))(jnp.arange(COUNT)))

    def play(self, first=0, comes=COMES):
        """As many rounds as there are, the members among `comes` being there."""
        return self._replace(**_play(self.server, (self.state, self.kept), first, comes))

    def leave(self, goodbyes=1):
        """The leaver says goodbye so many times, and vacates its place."""
        server, state = self.server, self.state
        for _ in range(goodbyes):
            said = server.strategy.client_side.goodbye(jax.tree.map(lambda rows: rows[LEAVER], self.kept))
            state = take_back(server, state, jnp.asarray(LEAVER), said)
        server = server_of(server.strategy, OTHERS)
        return self._replace(server=server, state=vacate(server, state, ~OTHERS))

    @property
    def words(self):
        state = self.state.strategy
        return state if isinstance(state, Words | Sums) else state.words


@eqx.filter_jit
def _play(server, carried, first, comes):
    strategy, ones, reach = server.strategy, jnp.ones(COUNT), jnp.full(COUNT, REACH)
    side = strategy.client_side or ClientSide()

    def one_round(carried, t):
        (state, kept), now = carried, jnp.asarray(t, jnp.float32)
        lr = 0.5 / (1.0 + now)
        here = comes[t] & server.fleet.members
        view = server.view(state, t, here, lr, Known(ones, ones, ones, ones), None)
        cohort, state = server.ask(state, view, jr.key(0))
        work = Work(
            UPDATES[t], ones * lr, reach, ones * now, server.download(state, view, cohort).shared, importance=IMPORTANCE
        )
        if side.gradients:
            work = replace(work, mean_gradient=-UPDATES[t], last_gradient=-UPDATES[t])
        answers = jax.vmap(side.say)(kept, work)
        after = jax.vmap(side.keep)(kept, work, answers)
        kept = jax.tree.map(lambda new, old: where_rows(here, new, old), after, kept)
        cohort = replace(cohort, arrived=cohort.uploading)
        reports = Reports.of(cohort, jax.tree.map(cohort.take, answers), ones, reach)
        return (server.close(state, view, cohort, reports, Tally.empty(COUNT)).state, kept), None

    state, kept = jax.lax.scan(one_round, carried, jnp.arange(ROUNDS) + first)[0]
    return {"state": state, "kept": kept}


def gap(one, other):
    """How far two sums are apart, relative to the other."""
    return float(jnp.max(jnp.abs(one.total - other.total)) / jnp.max(jnp.abs(other.total)))


ON_CLIENTS = [LastWord(memory="clients"), MIFA(memory="clients"), Steered(), SCAFFOLD(), FedDyn(), FOCUS()]
ON_SERVER = [LastWord(), LastWord(bits=8), FedVARP()]


@pytest.mark.parametrize("strategy", [*ON_CLIENTS, *ON_SERVER], ids=str)
def test_the_sum_is_that_of_a_fleet_in_which_the_client_never_was(strategy):
    keeps = strategy.client_side is not None
    sent, never = Sent.nothing(strategy).play(), Sent.nothing(strategy, OTHERS).play()
    left = sent.leave(goodbyes=keeps)
    assert gap(left.words, never.words) < 1e-6
    np.testing.assert_allclose(left.words.weight, never.words.weight, rtol=1e-6)
    assert gap(left.play(ROUNDS).words, never.play(ROUNDS).words) < 1e-6
    if keeps:
        assert gap(sent.words, never.words) > 0.05
        assert gap(sent.leave(goodbyes=0).words, never.words) > 0.05  # without a goodbye a ghost stays
        if isinstance(sent.words, Words):  # a sum of words that weigh themselves knows nobody: who calls must know
            assert gap(sent.leave(goodbyes=2).words, never.words) < 1e-6  # one that comes twice counts once


@pytest.mark.parametrize("strategy", ON_CLIENTS, ids=str)
def test_who_has_said_nothing_takes_nothing_back(strategy):
    sent = Sent.nothing(strategy).play(comes=COMES.at[:, LEAVER].set(False))
    np.testing.assert_array_equal(sent.leave().words.total, sent.words.total)


@pytest.mark.parametrize("strategy", [FedAvg(), LastWord(), MIFA()], ids=str)
def test_where_clients_keep_nothing_there_is_nothing_to_take_back(strategy):
    name = type(strategy).__name__
    server = Server.of(Fleet(IMPORTANCE), strategy, slots=COUNT)
    with pytest.raises(ValueError, match=f"^{name} has no sum of words that its clients keep"):
        take_back(server, server.init(jnp.zeros(3)), jnp.asarray(0), Answer(jnp.ones(3)))


def test_a_side_that_keeps_no_word_says_no_goodbye():
    with pytest.raises(ValueError, match=r"^ClientSide keeps no word that the server has summed up: nothing to take"):
        ClientSide().goodbye(None)
    np.testing.assert_array_equal(Corrected(0.1).goodbye(jnp.ones(2)).update, -1.0)
