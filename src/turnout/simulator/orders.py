"""What a cohort is asked to do: from whom, from which model and for how many steps; and what it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from turnout import tree
from turnout.server.server import Server, ServerState
from turnout.simulator.client import Sent
from turnout.simulator.client_state import ClientState
from turnout.simulator.clients import Clients
from turnout.simulator.lane import Lane
from turnout.simulator.local_training import Jobs
from turnout.streams import Stream, client_seeds, round_key
from turnout.types import Cohort, Download, Known, Law, Params, PerSlot, RandomKey, Reports, Scalar, View
from turnout.uploads.base import UploadContext
from turnout.world import Nature


class Orders(eqx.Module):
    """One row per slot. What a client will send is decided by its row: it may be trained whenever that is needed."""

    cohort: Cohort
    jobs: Jobs  # without the state that clients keep, which is read when they train
    reach: PerSlot


class Asked(NamedTuple):
    """What follows from asking."""

    orders: Orders
    download: Download  # what the cohort is sent, one row per slot
    state: ServerState


class DoneWork(eqx.Module):
    """DoneWork work of a cohort, one row per slot."""

    jobs: Jobs  # with the state that the clients kept before
    sent: Sent

    def reports(self, orders: Orders, starts: Params | None = None, keep_lost: bool = False) -> Reports:
        """What has arrived; with the models that were sent, or with what did not arrive, if these are wanted."""
        return Reports.of(orders.cohort, self.sent.answers, self.sent.losses, orders.reach, starts, keep_lost)

    def commit(self, kept: ClientState | None, cohort: Cohort) -> ClientState | None:
        """What clients keep after this work, of which some arrived."""
        if kept is None or self.jobs.held is None or self.sent.held is None:
            return kept
        return kept.commit(cohort, self.jobs.held, self.sent.held, trained=self.jobs.steps > 0)


def known_truth(lane: Lane, nature: Nature, lr: Scalar) -> Known:
    """What an oracle knows of this round."""
    law = Law.unknown(nature.success.shape[0]) if lane.law is None else lane.law
    reach = lane.trial.client.local.reach(nature.steps, lr, lane.plan.most_steps)
    return Known(law.pi, law.lam, nature.success, reach)


def ask(
    lane: Lane,
    server: Server,
    state: ServerState,
    view: View,
    nature: Nature,
    truth: Known,
    openings: Int[Array, ""] | None = None,
) -> Asked:
    """Ask the cohort that the strategy selects."""
    cohort, state = server.ask(state, view, lane.root, openings)
    reach = cohort.take(truth.reach)
    jobs = _jobs(lane, view, cohort, nature, reach)
    return Asked(Orders(cohort, jobs, reach), server.download(state, view, cohort), state)


def _jobs(lane: Lane, view: View, cohort: Cohort, nature: Nature, reach: PerSlot) -> Jobs:
    """The local work of a cohort that is asked now."""

    def seeds(stream: Stream) -> Array:
        return client_seeds(round_key(lane.root, stream, view.now), cohort.ids)

    context = None
    if not lane.trial.client.sends_plainly:
        rate, number = (jnp.full(cohort.ids.shape, value, jnp.float32) for value in (view.lr, view.t))
        own = None if lane.trial.client.side is None else cohort.take(view.importance)
        context = UploadContext(seeds(Stream.UPLOAD), rate, reach, number, importance=own)
    return Jobs(
        clients=jnp.minimum(cohort.ids, cohort.num_clients - 1),
        seeds=seeds(Stream.TRAIN),
        steps=cohort.take(nature.steps),
        rates=cohort.scale * jnp.asarray(view.lr, cohort.scale.dtype),
        context=context,
    )


def work(clients: Clients, lane: Lane, orders: Orders, download: Download, kept: ClientState | None) -> DoneWork:
    """The work of a cohort, done now."""
    jobs = orders.jobs if kept is None else replace(orders.jobs, held=orders.cohort.read(kept))
    return DoneWork(jobs, clients.work(lane, download, jobs, orders.reach))


def admit(server: Server, state: ServerState, view: View, cohort: Cohort, done: DoneWork, root: RandomKey) -> Cohort:
    """The cohort after training, of which only some may upload if the norms of updates decide that."""
    if server.strategy.admits_all:
        return cohort
    # No gradient flows through norms that choose.
    norms = tree.row_norms(jax.lax.stop_gradient(done.sent.answers.update))
    return server.admit(state, view, cohort, norms, root)
