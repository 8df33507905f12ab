"""The clients' part of a round: their losses before it, and what they send."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp

from turnout.metrics import on_split
from turnout.simulator.cohort_work import Sent, train_cohort
from turnout.simulator.local import Jobs
from turnout.simulator.trial import Trial
from turnout.streams import Stream, client_words, round_key
from turnout.tasks.base import Task
from turnout.types import Ask, Cohort, Fleet, Mask, Params, PerClient, PerSlot, RandomKey, Round


@dataclass(frozen=True)
class Plan:
    """What fixes shapes: each plan is a program of its own."""

    slots: int
    most_available: int
    room: int  # capacity in evaluations
    round_room: int  # capacity in rounds
    common_steps: int | None  # local steps, if the same for all clients and rounds
    most_steps: int
    chunk: int  # slots trained together when numbers of steps differ
    metrics: tuple[str, ...] | None  # those to compute; all that the task has if None


class Clients(eqx.Module):
    """The clients that answer the server, by training on data or otherwise."""

    @property
    @abc.abstractmethod
    def fleet(self) -> Fleet:
        """How much each client should count."""

    @abc.abstractmethod
    def losses(self, trial: Trial, plan: Plan, root: RandomKey, t: Round, available: Mask, params: Params) -> PerClient:
        """Fresh loss of the server's model on every available client, zero for the others."""

    @abc.abstractmethod
    def work(self, trial: Trial, plan: Plan, start: Params, jobs: Jobs, reach: PerSlot) -> Sent:
        """What a cohort sends."""


class Trainees(Clients):
    """Clients that train on the data of a task."""

    task: Task

    @property
    def fleet(self) -> Fleet:
        return self.task.fleet

    def losses(self, trial: Trial, plan: Plan, root: RandomKey, t: Round, available: Mask, params: Params) -> PerClient:
        """Loss on one fresh batch, or on all data of a split."""
        task, probed = self.task, trial.local.probed
        if probed != "batch":
            losses = task.per_client(params).get(on_split(probed, "loss"))
            if losses is None:
                raise ValueError(f"probed is {probed!r}, but the task has no {probed} data")
            return jnp.where(available, jnp.nan_to_num(losses, posinf=jnp.inf), 0.0)
        present = Cohort.pack(Ask.of(available, available.astype(jnp.float32)), plan.most_available)
        words = client_words(round_key(root, Stream.PROBE, t), present.ids)
        clients = jnp.minimum(present.ids, task.num_clients - 1)
        losses = trial.local.probe(task, params, clients, words)
        return jnp.zeros(task.num_clients).at[present.ids].set(losses, mode="drop")

    def work(self, trial: Trial, plan: Plan, start: Params, jobs: Jobs, reach: PerSlot) -> Sent:
        return train_cohort(trial.local, self.task, start, jobs, plan.common_steps, plan.chunk, trial.upload)
