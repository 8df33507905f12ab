"""A server driven from outside, as a driver of real nodes does it: clients in plain numpy, one round at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from turnout.server.facts import Facts
from turnout.server.server import Server, ServerState
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator.local_training import Local
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.tasks.quadratics import Quadratics
from turnout.testing.claims import require, require_finite
from turnout.types import Answer, Array, Cohort, Download, Fleet, Known, PyTree, Reports, View, Work

RATE = 0.05
_SPARE_SLOTS = 5  # the result must not depend on them


class Happening(NamedTuple):
    """What nature decides in one round, one entry per client."""

    available: np.ndarray
    delivers: np.ndarray
    steps: np.ndarray


class HandDriven:
    """A server with clients of quadratics in numpy, which keep and send what the strategy's client side says."""

    def __init__(
        self, strategy: Strategy[PyTree], task: Quadratics, facts: Facts[PyTree] | None = None, vacant: int = 0
    ) -> None:
        num_clients = task.num_clients
        slots = strategy.capacity(num_clients + vacant) + _SPARE_SLOTS
        members = jnp.arange(num_clients + vacant) < num_clients if vacant else None
        fleet = Fleet(jnp.pad(task.importance, (0, vacant)), members)
        self.server = Server.of(fleet, strategy, ServerSettings(facts=facts), slots)
        self.strategy, self.task, self._vacant = strategy, task, vacant
        self.state = eqx.filter_jit(self.server.init)(task.start)
        self._side = strategy.client_side or ClientSide()
        self._kept = [self._side.init(task.start) for _ in range(num_clients)]

    def play_round(self, t: int, root: Array, now: Happening, truth: Known) -> None:
        losses = jnp.asarray(np.where(now.available, self.losses(), 0.0), jnp.float32)
        given = (truth, jnp.asarray(now.available), losses if self.strategy.needs_losses else None)
        known, here, probed = jax.tree.map(self._pad, given)
        number = jnp.asarray(t, jnp.int32)
        view, cohort, state, download = _open(self.server, self.state, number, here, known, probed, root)
        require_finite((cohort.weight, cohort.scale, cohort.copies), "what is asked must be finite")
        require(int(cohort.overflow) == 0, "capacity gives fewer slots than clients are asked")
        reach = self._reach(jnp.asarray(now.steps))
        told = {
            int(slot): self._train(t, int(slot), cohort, download, now.steps, np.asarray(reach))
            for slot in np.flatnonzero(np.asarray(cohort.uploading))
        }
        sent = self._in_slots(cohort.ids.shape[0], {slot: answer for slot, (_, answer) in told.items()})
        comes, padded = self._pad(jnp.asarray(now.delivers)), self._pad(jnp.asarray(reach, jnp.float32))
        self.state, cohort = _close(self.server, state, view, cohort, sent, comes, padded, root)
        for slot, (kept, _) in told.items():
            if cohort.arrived[slot]:
                self._kept[int(cohort.ids[slot])] = kept

    def losses(self) -> np.ndarray:
        """Loss of the server's model on every client."""
        gaps = np.asarray(self.state.params)[None] - np.asarray(self.task.centres)
        return 0.5 * np.asarray(self.task.curvature) * (gaps**2).sum(axis=1)

    def _pad(self, values: Array) -> Array:
        return jnp.pad(values, (0, self._vacant))

    def _reach(self, steps: Array) -> Array:
        return Local(learning_rate=RATE, batch_size=1).with_pull(self._side.pull).reach(steps, RATE, int(steps.max()))

    def _train(
        self, t: int, slot: int, cohort: Cohort, download: Download, steps: np.ndarray, reach: np.ndarray
    ) -> tuple[PyTree, Answer]:
        """What the client in a slot would keep, and what it sends."""
        client, side = int(cohort.ids[slot]), self._side
        own, kept = jax.tree.map(lambda rows: rows[slot], download), self._kept[client]
        push, start = side.push(kept, own.shared), np.asarray(own.model)
        pull = np.float32(0.0 if side.pull is None else side.pull)
        gradients, place, centre = [], start.copy(), np.asarray(self.task.centres[client])
        for _ in range(int(steps[client])):
            gradients.append(np.float32(self.task.curvature[client]) * (place - centre))
            along = gradients[-1] + pull * (place - start) + (0.0 if push is None else np.asarray(push))
            place = place - np.float32(RATE * float(cohort.scale[slot])) * along
        update, mean, last = map(jnp.asarray, (place - start, np.mean(gradients, axis=0), gradients[-1]))
        rate, mass, number = (jnp.asarray(value, jnp.float32) for value in (RATE, reach[client], t))
        work = Work(update, rate, mass, number, own.shared, mean, last)
        answer = side.say(kept, work)
        require((answer.second is not None) == side.sends_second, "sends_second must say whether answers have a second")
        return side.keep(kept, work, answer), answer

    def _in_slots(self, slots: int, answers: dict[int, Answer]) -> Answer:
        """One row per slot, NaN where nobody has trained, to show that these are never read."""
        nothing = jnp.full((slots, *self.task.start.shape), jnp.nan)
        rows = Answer(nothing, nothing if self._side.sends_second else None)
        for slot, answer in answers.items():
            rows = jax.tree.map(lambda whole, row, slot=slot: whole.at[slot].set(row), rows, answer)
        return rows


@eqx.filter_jit
def _open(
    server: Server, state: ServerState, t: Array, available: Array, truth: Known, losses: Array | None, root: Array
) -> tuple[View, Cohort, ServerState, Download]:
    view = server.view(state, t, available, RATE, truth, losses)
    cohort, state = server.ask(state, view, root)
    return view, cohort, state, server.download(state, view, cohort)


@eqx.filter_jit
def _close(
    server: Server,
    state: ServerState,
    view: View,
    cohort: Cohort,
    sent: Answer,
    delivers: Array,
    reach: Array,
    root: Array,
) -> tuple[ServerState, Cohort]:
    cohort = server.admit(state, view, cohort, jnp.linalg.norm(sent.update, axis=1), root)
    cohort = replace(cohort, arrived=cohort.uploading & cohort.take(delivers))
    reach = jnp.where(cohort.uploading, cohort.take(reach), jnp.nan)
    reports = Reports.of(cohort, sent, reach, reach)
    return server.close(state, view, cohort, reports, Tally.empty(cohort.num_clients)).state, cohort
