import numpy as np
import pytest

import least_squares
from slow_fleet import CASES, COUNT, FLEET, check_against, task
from turnout import Local, World, audit, simulate
from turnout.availability import bernoulli
from turnout.strategies import FedAvg, FedPBC
from turnout.world import compute, links

STEPS = [1, 4, 2, 7, 3, 0, 5, 1, 9]


class Pbc:
    """All clients train each round from their own model; those heard are averaged, and get the average at its end.

    Its draws of links are those of the simulator. `models` are those of the clients; the mean of them is evaluated.
    """

    def __init__(self, fleet, start, local_steps, rate, own_rate=1.0):
        self.fleet, self.steps, self.rate, self.own_rate = fleet, local_steps, rate, own_rate
        self.models = np.repeat(start[None], fleet.count, axis=0)

    def round(self, present, heard):
        for k in np.flatnonzero(present):
            z = self.models[k].copy()
            for _ in range(self.steps[k]):
                z = z - self.rate * self.fleet.gradient(k, z)
            self.models[k] = self.models[k] + self.own_rate * (z - self.models[k])
        if heard.any():
            share = self.fleet.share * heard
            self.models[heard] = share @ self.models / share.sum()

    @property
    def model(self):
        return self.fleet.share @ self.models


def natures(world, rounds, seed=0):
    """Who is there and who gets through, round by round, as the world draws it."""
    import equinox as eqx
    import jax.numpy as jnp
    import jax.random as jr

    root, step = jr.key(seed), eqx.filter_jit(world.step)
    state = world.init(root)
    for t in range(rounds):
        state, nature = step(state, root, jnp.asarray(t, jnp.int32))
        yield np.asarray(nature.available), np.asarray(nature.available & nature.delivers)


def test_who_is_not_heard_goes_on_from_its_own_model(play):
    game = play(FedPBC(), importance=(1.0, 1.0))
    assert game.round([1, 1], [2.0, 4.0], arrived=[1, 0]) == pytest.approx(2.0)  # x = 2, 4
    assert float(game.server.model(game.state)[0]) == pytest.approx(3.0)
    assert game.round([1, 1], [1.0, 2.0], arrived=[0, 1]) == pytest.approx(6.0)  # x = 3, 6
    assert game.round([1, 1], [0.0, 0.0]) == pytest.approx(4.5)
    np.testing.assert_allclose(game.state.strategy.models[:, 0], [4.5, 4.5])


def test_averaging_leaves_the_model_that_is_evaluated(play):
    game = play(FedPBC(own_rate=0.5), importance=(1.0, 3.0, 2.0))
    game.round([1, 1, 1], [2.0, 1.0, -4.0], arrived=[1, 0, 1])
    before = float(game.server.model(game.state)[0])
    assert before == pytest.approx(0.5 * (2.0 + 3.0 - 8.0) / 6)
    game.round([1, 1, 1], [0.0] * 3, arrived=[1, 1, 0])
    assert float(game.server.model(game.state)[0]) == pytest.approx(before)


def test_if_nobody_is_heard_the_clients_drift_and_the_servers_model_stays(play):
    game = play(FedPBC(), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0
    assert game.round([1, 0, 0], [1.0] * 3, arrived=[0, 0, 0]) == 4.0
    np.testing.assert_allclose(game.state.strategy.models[:, 0], [5.0, 4.0, 4.0])


def test_over_perfect_links_with_everybody_there_it_is_fedavg():
    """Also where a share of the clients is absent, since all that are there are heard and start from their own."""
    world, local = World(bernoulli(COUNT, 1.0), compute=3), Local(learning_rate=0.1, batch_size=1)
    one, other = (simulate(task(), world, each, rounds=30, local=local).params[0] for each in (FedPBC(), FedAvg()))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("own_rate", [1.0, 0.5])
def test_as_the_papers_box_in_plain_loops(own_rate):
    """Links that fail unequally, some absences and unequal work, some of it none."""
    world = World(
        bernoulli(COUNT, 0.8),
        links.bernoulli(COUNT, np.linspace(0.1, 0.9, COUNT).tolist()),
        compute.per_client(COUNT, STEPS),
    )
    run = simulate(task(), world, FedPBC(own_rate), rounds=40, local=Local(learning_rate=0.05, batch_size=1))
    twin = Pbc(FLEET, np.ones(3), STEPS, 0.05, own_rate)
    for present, heard in natures(world, 40):
        twin.round(present, heard)
    np.testing.assert_allclose(run.params[0], twin.model, rtol=2e-5, atol=5e-6)


class InTime:
    """Where work takes time: lost work is lost, whatever came is averaged and kept by those that were heard."""

    def __init__(self):
        self.models = np.ones_like(FLEET.centres)
        self.server = np.ones(FLEET.centres.shape[1])

    def __call__(self, model, step):
        for job in step.jobs:
            z = self.models[job.client].copy()
            for _ in range(job.steps):
                z = z - job.lr * FLEET.gradient(job.client, z)
            self.models[job.client] = z
        heard = [job.client for job in step.jobs]
        if heard:
            self.models[heard] = FLEET.share[heard] @ self.models[heard] / FLEET.share[heard].sum()
        return FLEET.share @ self.models


@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(InTime(), FedPBC(), pace, leaving)


def test_it_corrects_for_links_as_far_as_its_steps_are_small():
    """What links of 8 to 42 % leave of the error falls with the rate; FedAvg's hardly does."""
    fleet, count = least_squares.regressions(), least_squares.COUNT
    world = World(bernoulli(count, 1.0), links.bernoulli(count, least_squares.PRESENT.tolist()), least_squares.STEPS)
    far = {}
    for rate, rounds in ((1e-4, 500), (2.5e-5, 2000)):
        twin = Pbc(fleet, np.zeros(least_squares.DIMENSION), [least_squares.STEPS] * count, rate)
        for present, heard in natures(world, rounds):
            twin.round(present, heard)
        goal = least_squares.settled(fleet, rate)
        far[rate] = np.linalg.norm(twin.model - goal) / np.linalg.norm(goal)
        if rounds == 500:
            run = simulate(
                least_squares.task(fleet), world, FedPBC(), rounds=500, local=Local(learning_rate=rate, batch_size=1)
            )
            np.testing.assert_allclose(run.params[0], twin.model, rtol=1e-4, atol=1e-5)
    print("distance from where all updates sum to zero, by rate", far)
    assert far[2.5e-5] < 0.5 * far[1e-4] < 1e-3


def test_an_audit_finds_everybody_at_the_target_where_links_differ_and_not_where_availability_does():
    success = links.bernoulli(6, np.linspace(0.2, 0.9, 6).tolist())
    fair = audit(World(bernoulli(6, 1.0), success), [FedPBC(), FedAvg()], rounds=4000)
    one, other = fair.entries
    assert one.total_variation < 0.02 < 0.1 < other.total_variation
    absent = World(bernoulli(6, np.linspace(0.2, 0.9, 6).tolist()))
    assert audit(absent, FedPBC(), rounds=4000).entries[0].total_variation > 0.1


def test_refused_on_real_nodes():
    pytest.importorskip("flwr")
    from turnout.flower.server.fleet_server import for_real_nodes

    with pytest.raises(ValueError, match="FedPBC needs the updates that are lost, which only a simulation has"):
        for_real_nodes(None, FedPBC())
