"""Against MingruiLiu-ML-Lab/FL-under-Periodic-Participation: Amplified SCAFFOLD, and the methods beside it."""

import numpy as np
import pytest
from replay import Clients, Replay, stored

from turnout.strategies import SCAFFOLD, AmplifiedFedAvg, AmplifiedSCAFFOLD, FedProx

WINDOW, STEPS, RATE = 5, 3, 0.3
# Each with the γ by which their code divides the tuned rate.
METHODS = {
    "amplified_scaffold": (AmplifiedSCAFFOLD(window=WINDOW, gain=1.5), 1.5),
    "amplified_fedavg": (AmplifiedFedAvg(window=WINDOW, gain=2.0), 2.0),
    "scaffold": (SCAFFOLD(), 1.0),
    "fedprox": (FedProx(mu=0.5), 1.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_it_agrees_round_by_round(name):
    """Three windows of five rounds, all clients starting from zero."""
    theirs, (strategy, gain) = stored("periodic"), METHODS[name]
    came = theirs["came"]
    clients = Clients(STEPS, start=np.zeros((3, 4), np.float32))
    ours = Replay(strategy, clients).play(came, np.full(len(came), RATE / gain)).models
    np.testing.assert_allclose(ours, theirs[f"{name}_models"], atol=1e-5)
