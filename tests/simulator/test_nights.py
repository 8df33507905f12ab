"""Nights, thin rounds and late starts in the simulator and the audit: nothing walks away meanwhile."""

import numpy as np
import pytest

import nights
from turnout import Local, World, audit, simulate
from turnout.strategies import MIFA, FedAvg, FedLaAvg, FedVARP, LastWord, StaleFill
from turnout.tasks import quadratics
from turnout.world import compute, links

COUNT = 6
QUIET = [LastWord(), LastWord(memory="clients"), MIFA(), FedLaAvg(), StaleFill(cohort=3), FedVARP()]
LOCAL = Local(learning_rate=0.05, batch_size=1)


def distances(strategy, *spells, success=1.0, most=4):
    """How far the model is from the optimum: at the beginning, and after every round."""
    there = nights.given(*spells)
    count = there.num_clients
    steps = compute.per_client(count, (1 + np.arange(count) % most).tolist())
    world = World(there, links.bernoulli(count, success), steps)
    task = quadratics(count, 3, spread=3.0, seed=2)
    run = simulate(task, world, strategy, rounds=len(there.there), evaluate_every=1, local=LOCAL)
    return run.metrics["distance"][0]


@pytest.mark.parametrize("strategy", QUIET, ids=str)
def test_a_hundred_empty_rounds_change_no_model(strategy):
    """Before the first client comes, in the middle and at the end; links may lose uploads as well."""
    day, night = nights.usual(COUNT, 12), nights.nobody(COUNT)
    found = distances(strategy, night, day, night, day, night, success=0.9)
    for begin in (0, 112, 224):
        assert np.ptp(found[begin : begin + 101]) == 0
    assert found[-1] < 0.7 * found[0]


@pytest.mark.parametrize("strategy", [LastWord(rule="plain"), MIFA(moves_when_empty=True)], ids=str)
def test_with_the_rules_of_before_a_model_walks_away_at_night(strategy):
    found = distances(strategy, nights.usual(COUNT, 3), nights.nobody(COUNT))
    assert found[-1] > 2 * found[3]


@pytest.mark.parametrize(("memory", "usual"), [("clients", 5), ("server", 60)])
def test_one_client_of_a_hundred_for_a_hundred_rounds_at_most_doubles_the_distance(memory, usual):
    """Far from the optimum, and when the model has nearly settled."""
    found = distances(LastWord(memory=memory), nights.usual(100, usual), nights.one(100, client=7))
    assert found[usual:].max() <= 2 * found[usual]


ANEW = np.eye(100, dtype=bool)[np.random.default_rng(2).integers(0, 100, 100)]  # one client, drawn in each round


@pytest.mark.parametrize("usual", [10, 60])
def test_one_client_drawn_anew_costs_no_more_than_fading_does(usual):
    """Near the optimum who comes counts a little more than who does not, and that moves the optimum itself."""
    faded, plain = (distances(LastWord(fading=beta), nights.usual(100, usual), ANEW) for beta in (0.5, 0.0))
    assert faded[usual:].max() <= 2 * max(faded[usual], 0.05 * faded[0])
    assert plain[usual:].max() <= 1.1 * plain[usual]


def test_after_two_rounds_thin_ones_are_not_yet_the_usual_ones():
    """Clients go most of their way at once, and were the mean by round what is usual, the model would go six times."""
    found = distances(LastWord(), nights.usual(100, 2), ANEW, most=19)
    assert found[2:].max() < 1.5 * found[2] < found[0]
    later = distances(LastWord(), nights.usual(100, 60), ANEW, most=19)
    assert later[60:].max() < 1.5 * later[60] < 0.5 * later[0]


def test_a_fleet_that_sleeps_at_night_is_as_near_in_the_morning():
    found = distances(LastWord(), nights.days(20, count=6, length=20))
    evening, morning = found[100 + 10], found[-1]
    assert morning == pytest.approx(evening, rel=0.05)
    assert found[-20:].max() < 0.2 * found[0]


def test_clients_that_start_late_count_by_the_target_from_then_on():
    late, all_come = nights.late(COUNT, 30), nights.usual(COUNT, 150)
    found = distances(LastWord(memory="clients"), late, all_come)
    assert found[30:].max() <= 1.2 * found[30]
    assert found[-1] < 0.1 * found[30]


WORLDS = {
    "nights": nights.days(COUNT, count=60),
    "outage": np.concatenate([nights.usual(COUNT, 500), nights.nobody(COUNT), nights.usual(COUNT, 600, seed=1)]),
    "one per round": np.eye(COUNT, dtype=bool)[np.random.default_rng(3).integers(0, COUNT, 1200)],
    "late starts": np.concatenate([nights.late(COUNT, 20), nights.usual(COUNT, 1180, share=0.3)]),
}


@pytest.mark.parametrize("name", WORLDS)
def test_an_audit_finds_everybody_at_the_target(name):
    world = World(
        nights.given(WORLDS[name]), links.bernoulli(COUNT, 0.8), compute.per_client(COUNT, [1, 2, 3, 4, 5, 6])
    )
    found = audit(world, [LastWord(), FedAvg()], rounds=1200)
    assert found["LastWord"].total_variation < 0.001 < 0.1 < found["FedAvg"].total_variation
