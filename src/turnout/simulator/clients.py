"""The clients' part of a round: their losses before it, and what they send."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp

from turnout.metrics import on_split
from turnout.simulator.client import Sent
from turnout.simulator.cohort_work import train_cohort
from turnout.simulator.lane import Lane
from turnout.simulator.local_training import Jobs, Trained, probe_losses
from turnout.streams import Stream, client_seeds, round_key
from turnout.tasks.base import Task
from turnout.types import Ask, Cohort, Download, Fleet, Mask, Params, PerClient, PerSlot, Round


class Clients(eqx.Module):
    """The clients that answer the server, by training on data or otherwise."""

    @property
    def lets_gradients_through(self) -> bool:
        """Whether gradients flow through a run, which can then leave nothing out."""
        return False

    @property
    @abc.abstractmethod
    def fleet(self) -> Fleet:
        """How much each client should count."""

    @abc.abstractmethod
    def losses(self, lane: Lane, t: Round, available: Mask, params: Params) -> PerClient:
        """Fresh loss of the server's model on every available client, zero for the others."""

    @abc.abstractmethod
    def work(self, lane: Lane, download: Download, jobs: Jobs, reach: PerSlot) -> Sent:
        """What a cohort sends."""


class Trainees(Clients):
    """Clients that train on the data of a task."""

    task: Task

    @property
    def fleet(self) -> Fleet:
        return self.task.fleet

    def losses(self, lane: Lane, t: Round, available: Mask, params: Params) -> PerClient:
        """Loss on one fresh batch, or on all data of a split."""
        task, probed = self.task, lane.trial.local.probed
        if probed != "batch":
            losses = task.per_client(params).get(on_split(probed, "loss"))
            if losses is None:
                raise ValueError(f"probed is {probed!r}, but the task has no {probed} data")
            return jnp.where(available, jnp.nan_to_num(losses, posinf=jnp.inf), 0.0)
        everyone = Ask.of(available, available.astype(jnp.float32))
        present = Cohort.pack(everyone, lane.plan.most_available, lr=0.0)
        seeds = client_seeds(round_key(lane.root, Stream.PROBE, t), present.ids)
        clients = jnp.minimum(present.ids, task.num_clients - 1)
        losses = probe_losses(lane.trial.local, task, params, clients, seeds)
        return jnp.zeros(task.num_clients).at[present.ids].set(losses, mode="drop")

    def work(self, lane: Lane, download: Download, jobs: Jobs, reach: PerSlot) -> Sent:
        plan = lane.plan
        client, common = lane.trial.client, plan.common_steps
        return train_cohort(client, self.task, download, jobs, common, plan.chunk, plan.first)


class Voters(Clients):
    """Clients without data, with a vote only."""

    importance: PerClient
    votes: PerClient
    differentiable: bool = eqx.field(static=True, default=True)

    @property
    def lets_gradients_through(self) -> bool:
        return self.differentiable

    @property
    def fleet(self) -> Fleet:
        return Fleet(self.importance)

    def losses(self, lane: Lane, t: Round, available: Mask, params: Params) -> PerClient:
        """The same loss for all."""
        return available.astype(jnp.float32)

    def work(self, lane: Lane, download: Download, jobs: Jobs, reach: PerSlot) -> Sent:
        """A vote is minus the raw gradient of every step, and the push of the algorithm is added to that gradient.

        No momentum is kept here: the reach of a lasting optimizer is that of its steady state.
        """
        client, votes = lane.trial.client, self.votes[jobs.clients]
        push = client.push(download, jobs)
        updates = jobs.rates * reach * (votes if push is None else votes - push)
        gradients = {} if client.side is None else {f"{name}_gradient": -votes for name in client.side.gradients}
        return client.send(Trained(updates, jnp.ones_like(reach), **gradients), download, jobs)
