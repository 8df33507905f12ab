import numpy as np
import pytest


class Weather:
    """Random rounds for a strategy and a naive reference to go through together, some of them empty."""

    importance = (0.5, 1.0, 2.0, 0.25, 1.5, 1.0)
    rounds = 50

    def __init__(self, seed=0):
        draw = np.random.default_rng(seed)
        shape = (self.rounds, len(self.importance))
        self.available = draw.random(shape) < draw.choice(
            [0.0, 0.2, 0.6, 1.0], (self.rounds, 1), p=[0.15, 0.35, 0.4, 0.1]
        )
        self.available[0] = False
        self.arrived = draw.random(shape) < 0.8
        self.centres = draw.normal(size=shape[1])
        self.noise = 0.3 * draw.normal(size=shape)
        self.lrs = 0.2 / np.sqrt(1.0 + np.arange(self.rounds))
        self.target = np.asarray(self.importance) / np.sum(self.importance)

    def pull(self, t, starts):
        """Updates of one noisy gradient step from each of the models."""
        return self.lrs[t] * (self.centres - starts + self.noise[t])

    def compare(self, game, naive):
        """Play all rounds: `naive(t, came)` must return the model that the server should have."""
        for t in range(self.rounds):
            game.lr = self.lrs[t]
            found = game.round(self.available[t], lambda starts, t=t: self.pull(t, starts), self.arrived[t])
            assert found == pytest.approx(naive(t, self.available[t] & self.arrived[t]), abs=2e-5), f"round {t}"


@pytest.fixture(params=[0, 1])
def weather(request):
    return Weather(request.param)
