"""Against mingxiang12/FedPBC: everybody trains, and a table says who gets through."""

from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from replay import Clients, stored

from turnout.server.server import Server
from turnout.server.tally import Tally
from turnout.strategies import FedPBC
from turnout.types import Answer, Fleet, Known, Reports


@pytest.mark.parametrize(("name", "own_rate"), [("fedpbc", 1.0), ("fedpbc_half", 0.5)])
def test_fedpbc_agrees_round_by_round(name, own_rate):
    theirs, clients, ones = stored("fedpbc"), Clients(steps=5), jnp.ones(8)
    server = Server.of(Fleet(ones), FedPBC(own_rate), slots=8)
    state, found = server.init(jnp.asarray(clients.start.ravel())), []
    found = [np.asarray(server.model(state))]
    for t, heard in enumerate(theirs["heard"]):
        rate = float(theirs["rates"][t])
        view = server.view(state, jnp.asarray(t), jnp.ones(8, bool), rate, Known(ones, ones, ones, ones))
        cohort, state = server.ask(state, view, jr.key(0))
        cohort = replace(cohort, arrived=jnp.asarray(heard))
        starts = np.asarray(server.download(state, view, cohort).model)
        updates = jnp.asarray([clients.work(k, starts[k], rate)[0] for k in range(8)], jnp.float32)
        reports = Reports.of(cohort, Answer(updates), ones, ones, keep_lost=True)
        state = server.close(state, view, cohort, reports, Tally.empty(8)).state
        found.append(np.asarray(server.model(state)))
    np.testing.assert_allclose(found, theirs[f"{name}_means"], atol=5e-6)
