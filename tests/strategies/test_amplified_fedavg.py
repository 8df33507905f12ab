import numpy as np
import pytest

from slow_fleet import CASES, COUNT, FLEET, check_against, check_in_rounds, task
from turnout import Local, World, simulate
from turnout.availability import cyclic
from turnout.server.settings import ServerSettings
from turnout.strategies import AmplifiedFedAvg, FedAvg

P, GAIN = 3, 1.5
TURNS = [client % 3 for client in range(COUNT)]


class Amplified:
    """FedAvg's rounds; after every P of them x ← x̄ + γ (x - x̄), x̄ ← x."""

    def __init__(self):
        self.start = None

    def __call__(self, model, step):
        if self.start is None:
            self.start = model
        whole = sum(step.fleet.share[job.client] for job in step.jobs)
        for job in step.jobs:
            model = model + step.fleet.share[job.client] / whole * job.update(step.fleet)
        if (step.version + 1) % P == 0:
            model = self.start + GAIN * (model - self.start)
            self.start = model
        return model


def test_after_a_window_the_model_goes_further(play):
    game = play(AmplifiedFedAvg(window=2, gain=3.0), importance=(1.0, 1.0, 2.0), start=1.0)
    assert game.round([1, 0, 1], [2.0, 9.0, 8.0]) == pytest.approx(1.0 + 6.0)
    assert game.round([1, 1, 0], [1.0, 3.0, 9.0]) == pytest.approx(1.0 + 3 * (6.0 + 2.0))
    assert game.round([0, 1, 0], [9.0, 4.0, 9.0]) == pytest.approx(25.0 + 4.0)


def test_a_window_may_end_in_an_empty_round(play):
    game = play(AmplifiedFedAvg(window=2, gain=3.0))
    assert game.round([1, 1, 1], [1.0] * 3) == pytest.approx(1.0)
    assert game.round([0, 0, 0], [9.0] * 3) == pytest.approx(3.0)


def test_an_empty_first_window_leaves_the_model(play):
    game = play(AmplifiedFedAvg(window=1), start=4.0)
    assert game.round([0, 0, 0], [1.0] * 3) == 4.0


def test_with_gain_one_it_is_fedavg(play):
    game = play(AmplifiedFedAvg(window=2, gain=1.0))
    assert [game.round([1, 1, 1], [1.0, 2.0, 3.0]) for _ in range(4)] == pytest.approx(2.0 * np.arange(1, 5))


def test_numbers_and_servers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="gain must be"):
        AmplifiedFedAvg(gain=0.5)
    with pytest.raises(ValueError, match="window must be"):
        AmplifiedFedAvg(window=0)
    with pytest.raises(ValueError, match="AmplifiedFedAvg sets the model itself, so the server's learning_rate must"):
        ServerSettings(learning_rate=0.5).check(AmplifiedFedAvg())


def test_as_plain_loops():
    check_in_rounds(Amplified(), AmplifiedFedAvg(P, GAIN))


@pytest.mark.variant
@pytest.mark.parametrize(("pace", "leaving"), CASES)
def test_as_plain_loops_where_work_takes_time(pace, leaving):
    check_against(Amplified(), AmplifiedFedAvg(P, GAIN), pace, leaving)


def end_of_a_cycle(strategy, rate, rounds=900):
    """The model after many cycles of six rounds, in which three groups take turns."""
    world, local = World(cyclic(COUNT, groups=TURNS, turn=2), compute=1), Local(learning_rate=rate, batch_size=1)
    return simulate(task(), world, strategy, rounds=rounds, evaluate_every=rounds, local=local).params[0]


def test_over_whole_cycles_it_settles_where_fedavg_does_whose_bias_falls_with_the_rate():
    """Each round weighs those who are there, so all groups weigh the same."""
    whole = np.bincount(TURNS, FLEET.share)[TURNS]
    pull = FLEET.share / whole * FLEET.curvature
    optimum = pull @ FLEET.centres / pull.sum()
    near, far = (end_of_a_cycle(AmplifiedFedAvg(6, 3.0), rate) for rate in (0.01, 0.04))
    np.testing.assert_allclose(near, end_of_a_cycle(FedAvg(), 0.01, rounds=2700), atol=1e-5)
    assert np.linalg.norm(near - optimum) < 0.35 * np.linalg.norm(far - optimum)
    assert np.linalg.norm(far - optimum) > 0.01
