"""Against arodio/CA-Fed: whom CA-Fed keeps, and with what weight; the weights of Unbiased and AdaFed; their models."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from replay import Clients, Replay, by_owner, stored

from turnout.files.downloads import given
from turnout.server.settings import ServerSettings
from turnout.strategies import AdaFed, CAFed, Unbiased
from turnout.types import Fleet, Known, View

WHOLE = given("authors/ca_fed_rounds.npz")


@pytest.fixture(scope="module")
def theirs():
    return stored("ca_fed")


def selections(strategy, theirs):
    """Who is asked, and each client's weight, in every round, with the losses that their server read."""
    alpha, pi, lam = (jnp.asarray(theirs[name]) for name in ("alpha", "pi", "lam"))
    known = Known(pi, lam, jnp.ones_like(pi), jnp.ones_like(pi))
    state, asked, weights = strategy.init(Fleet(alpha), jnp.zeros(1)), [], []
    for t, (active, losses) in enumerate(zip(theirs["act"], theirs["losses"], strict=True)):
        view = View(t, alpha, jnp.asarray(active), known, 0.03, jnp.asarray(losses), slots=len(active))
        ask, state = strategy.select(state, view, jr.key(0))
        asked.append(np.asarray(ask.copies) > 0)
        weights.append(np.asarray(ask.weight * ask.copies))
    return np.stack(asked), np.stack(weights)


def test_ca_fed_keeps_the_same_clients_with_the_same_weights(theirs):
    asked, weights = selections(CAFed(optimum=jnp.asarray(theirs["fstar"])), theirs)
    np.testing.assert_array_equal(asked, theirs["kept"])
    np.testing.assert_allclose(weights, theirs["ca_fed_q"], rtol=1e-5)
    assert (theirs["act"] & ~asked).sum(axis=1).min() > 0  # somebody is left out in every round


def test_another_fill_keeps_other_clients(theirs):
    """Deviation, not the default: with the mean of those seen so far as the loss of a client never seen."""
    asked, _ = selections(CAFed(optimum=jnp.asarray(theirs["fstar"]), unseen="mean"), theirs)
    differing = (asked != theirs["kept"]).sum(axis=1)
    np.testing.assert_array_equal(differing, [0, 2, 0, 0, 2, 1, 2, 1, 2, 1, 3, 2])


@pytest.mark.parametrize(("name", "strategy"), [("unbiased", Unbiased()), ("adafed", AdaFed())])
def test_weights_agree(theirs, name, strategy):
    asked, weights = selections(strategy, theirs)
    np.testing.assert_array_equal(asked, theirs["act"])
    np.testing.assert_allclose(weights, theirs[f"{name}_q"], rtol=1e-5)


@pytest.mark.integration
@pytest.mark.skipif(WHOLE is None, reason="TURNOUT_DATA names no folder with authors/ca_fed_rounds.npz")
@pytest.mark.parametrize("name", ["unbiased", "adafed", "ca_fed"])
def test_forty_whole_rounds(name):
    """From data to models: both codes train, and ours selects by the losses of its own model."""
    with np.load(WHOLE) as arrays:
        theirs = dict(arrays)

    def data(part):
        inputs = np.pad(theirs[f"{part}_inputs"], [(0, 0), (0, 1)], constant_values=1.0)  # the intercept comes last
        return by_owner(inputs, theirs[f"{part}_labels"], theirs[f"{part}_owners"])

    models = theirs[f"{name}_models"].transpose(0, 2, 1)  # one row per class
    clients = Clients(steps=2, data=data("train"), start=models[0], decay=0.01, probed=data("test"))
    decayed = ServerSettings(learning_rate=3.0, optimizer=optax.chain(optax.add_decayed_weights(0.01), optax.sgd(1.0)))
    optimum = jnp.asarray(theirs["fstar"], jnp.float32)
    strategy = {"unbiased": Unbiased(), "adafed": AdaFed(), "ca_fed": CAFed(optimum=optimum)}[name]
    ours = Replay(strategy, clients, theirs["alpha"], decayed, pi=theirs["pi"], lam=theirs["lam"])
    ours.play(theirs[f"{name}_act"], np.full(40, 0.03))
    np.testing.assert_array_equal(ours.asked, theirs[f"{name}_kept"])
    np.testing.assert_allclose(ours.models, models.reshape(41, -1), atol=2e-6)
