"""Learning rates at which strategies make steps of equal mean length (Weng et al. 2025, appendix I.2).

The mean step of a strategy in a world is E[Σ_k weight_k ‖a_k‖₁], where weight_k is the weight of an update in a round,
zero if it does not arrive. It is measured by playing masks and weights alone, as an audit does: every client votes one,
so that its update is η ‖a_k‖₁, and no data is needed. So factors, divisions and memories that a strategy applies to
updates are included.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from turnout.auditor.voting import Votes, local_rates, play_trials
from turnout.declarations import Count, NumRounds, checked
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.simulator.trial import Trial
from turnout.strategies.base import Strategy
from turnout.types import Fleet, PyTree, Round, Scalar, Schedule
from turnout.world import World

ROUNDS, SEEDS = 500, 32  # by default


@checked
def mean_step(
    strategy: Strategy[PyTree],
    world: World,
    fleet: Fleet,
    *,
    local: Local | None = None,
    rounds: NumRounds = ROUNDS,
    seeds: Count = SEEDS,
    **server: Any,
) -> float:
    """Mean length of the strategy's direction if all gradients agree, in units of the clients' learning rate."""
    optimizer = Local() if local is None else local
    trial = Trial(strategy, world, optimizer, ServerSettings.of(server))
    mean_rate = local_rates(optimizer, rounds).mean()
    return float(mean_moves(fleet, [trial], rounds=rounds, seeds=seeds)[0] / mean_rate)


def mean_moves(fleet: Fleet, trials: Sequence[Trial], *, rounds: int = ROUNDS, seeds: int = SEEDS) -> np.ndarray:
    """Mean step of each trial times its learning rate; the server's own rate and optimizer are left out."""
    for trial in trials:
        if trial.strategy.needs_losses:
            name = type(trial.strategy).__name__
            raise ValueError(f"{name} weighs clients by their losses, so its mean step is known only by training")
    played = play_trials(fleet, trials, rounds=rounds, seeds=seeds, count=False)
    moves = np.array([_mean_move(votes, rounds) for votes in played])
    for trial, move in zip(trials, moves, strict=True):
        if not move > 0:
            name = type(trial.strategy).__name__
            raise ValueError(f"{name} does not move the model on average ({move:g} per round): no rate changes that")
    return moves


def _mean_move(votes: Votes, rounds: int) -> float:
    """Mean over the rounds; where work takes time, over the server's steps."""
    total = votes.moves[:, :rounds].sum(dtype=np.float64)
    steps = votes.records.get("server_steps", np.ones_like(votes.moves))[:, :rounds].sum(dtype=np.float64)
    return float(total / max(steps, 1.0))


def scaled(trial: Trial, factor: float) -> Trial:
    """The trial with the clients' learning rate multiplied by a factor."""
    rate = trial.local.learning_rate
    return replace(
        trial, local=replace(trial.local, learning_rate=Scaled(rate, factor) if callable(rate) else rate * factor)
    )


class Scaled(eqx.Module):
    """A schedule times a factor."""

    schedule: Schedule
    factor: Scalar

    def __call__(self, t: Round) -> Scalar:
        rate = jnp.asarray(self.schedule(t))
        return rate * jnp.asarray(self.factor, rate.dtype)
