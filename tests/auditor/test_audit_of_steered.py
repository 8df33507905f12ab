"""Strategies that steer local steps: whom they train for where links, availability and work all differ."""

import numpy as np
import pytest

from turnout import World, audit, availability, compute, links
from turnout.strategies import FOCUS, SCAFFOLD, AmplifiedFedAvg, AmplifiedSCAFFOLD, FedAvg, FedDyn, FedProx

COUNT = 10
# Each strategy with the largest share of weight that may be off target.
RIGHT = {
    "scaffold": (SCAFFOLD(), 0.005),
    "feddyn": (FedDyn(), 0.01),
    "focus": (FOCUS(), 0.005),
    "amplified_scaffold": (AmplifiedSCAFFOLD(), 0.005),
}
WRONG = {"fedavg": FedAvg(), "fedprox": FedProx(), "amplified_fedavg": AmplifiedFedAvg(window=8)}


@pytest.fixture(scope="module")
def off_target():
    """Half of the clients come often over good links and do much, half rarely over bad ones and do little."""
    world = World(
        availability.two_classes(COUNT),
        links.bernoulli(COUNT, np.linspace(0.4, 1.0, COUNT).tolist()),
        compute.per_client(COUNT, np.linspace(1, 9, COUNT).astype(int).tolist()),
    )
    entries = audit(world, {**WRONG, **{name: kind for name, (kind, _) in RIGHT.items()}}, rounds=4000)
    return {entry.label: entry.total_variation for entry in entries.entries}


@pytest.mark.parametrize("name", WRONG)
def test_who_averages_what_comes_is_far_off(off_target, name):
    assert off_target[name] > 0.25


@pytest.mark.parametrize("name", RIGHT)
def test_who_steers_by_what_was_kept_trains_for_everybody_alike(off_target, name):
    assert off_target[name] < RIGHT[name][1]
