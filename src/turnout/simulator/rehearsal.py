"""A run without training, to see how many clients are asked, at work and used at once: that fixes shapes.

Who is asked when depends on nature, the pace and the strategy's choice, but on no model, unless the strategy asks for
losses or for the lengths of updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator.carry import Carry
from turnout.simulator.clients import Voters
from turnout.simulator.lane import Lane
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.tick import begin_time, play_tick
from turnout.simulator.trial import Trial, as_arrays
from turnout.types import Fleet, Law, RandomKey, RandomKeys
from turnout.uploads import Plain


class Sizes(NamedTuple):
    """Numbers of clients in one tick, the largest over a run."""

    asked: int
    busy: int  # at work, or with an update that is not used yet
    closing: int  # of one step
    usual: int  # of one step, rarely exceeded
    mean: int  # of one step, rounded up


def rehearse(fleet: Fleet, trials: Sequence[Trial], roots: RandomKeys, ticks: int, most_steps: int) -> Sizes:
    """The largest numbers over all trials and seeds; those of all clients where models decide."""
    count = fleet.num_clients
    if any(trial.strategy.needs_losses or not trial.strategy.admits_all for trial in trials):
        return Sizes(*[count] * 5)
    plan = Plan(count, count, None, most_steps, count, places=count, closing=count)
    played = [
        jax.device_get(_play_lanes(fleet, as_arrays(_plain(trial)), trial.world.law(), plan, roots, jnp.int32(ticks)))
        for trial in trials
    ]
    return Sizes(*(int(np.ceil(max(np.max(sizes[part]) for sizes in played))) for part in range(5)))


def _plain(trial: Trial) -> Trial:
    settings = ServerSettings(facts=trial.facts, rest=trial.server.rest)
    return replace(trial, server=settings, uploads=Plain(), local=replace(trial.local, lasting=False))


class _Counts(NamedTuple):
    asked: Array
    busy: Array
    closing: Array
    total: Array  # of the updates of all steps
    squares: Array
    steps: Array


@eqx.filter_jit
def _play_lanes(
    fleet: Fleet, trial: Trial, law: Law | None, plan: Plan, roots: RandomKeys, ticks: Array
) -> tuple[Array, ...]:
    nothing = RecordPlan(evaluations=0, rounds=0, metrics=None)
    mutes = Voters(fleet.importance, jnp.zeros_like(fleet.importance), differentiable=False)

    def play(root: RandomKey) -> tuple[Array, ...]:
        lane, params = Lane(None, None, trial, law, root, plan, nothing), jnp.zeros(())
        state = trial.make_server(fleet, plan.slots).init(params)
        clients, time = trial.client.init(params, fleet.num_clients), begin_time(lane, fleet, state)
        begin = Carry(trial.world.init(root), state, Tally.empty(fleet.num_clients), None, clients, time)

        def body(t: Array, now: tuple[Carry, _Counts]) -> tuple[Carry, _Counts]:
            carry, counts = now
            carry, record = play_tick(mutes, lane, t, carry)
            used = record["closing"]
            return carry, _Counts(
                jnp.maximum(counts.asked, record["cohort"]),
                jnp.maximum(counts.busy, record["busy"]),
                jnp.maximum(counts.closing, used),
                counts.total + used,
                counts.squares + used**2,
                counts.steps + record["server_steps"],
            )

        _, counts = jax.lax.fori_loop(0, ticks, body, (begin, _Counts(*[jnp.zeros(())] * 6)))
        steps = jnp.maximum(counts.steps, 1.0)
        mean = counts.total / steps
        spread = jnp.sqrt(jnp.maximum(counts.squares / steps - mean**2, 0.0))
        return counts.asked, counts.busy, counts.closing, mean + spread, mean

    return jax.vmap(play)(roots)
