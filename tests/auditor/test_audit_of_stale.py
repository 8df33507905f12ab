"""Memories whose stale updates count in part: whom they train for where availability and links differ."""

import numpy as np
import pytest

from turnout import World, audit, availability, links
from turnout.strategies import FedAR, FedAvg, FedStale

COUNT = 10


@pytest.fixture(scope="module")
def off_target():
    """Half of the clients come often over good links, half rarely over bad ones."""
    success = links.bernoulli(COUNT, np.linspace(1.0, 0.5, COUNT).tolist())
    world = World(availability.two_classes(COUNT, mean=0.5, gap=0.3), success)
    strategies = {
        "FedAvg": FedAvg(),
        "FedStale": FedStale(),
        "FedAR": FedAR(),
        "FedAR by age": FedAR(discount="polynomial", exponent=1.0),
    }
    entries = audit(world, strategies, rounds=4000).entries
    return {entry.label: entry.total_variation for entry in entries}


def test_frequencies_and_memories_correct_for_who_comes_and_what_is_lost(off_target):
    assert off_target["FedAvg"] > 0.2
    assert off_target["FedStale"] < 0.03
    assert off_target["FedAR"] < 0.005


def test_a_memory_that_fades_by_age_leaves_out_the_rare(off_target):
    assert 0.05 < off_target["FedAR by age"] < off_target["FedAvg"]
