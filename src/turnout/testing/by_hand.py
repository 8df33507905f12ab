"""A server driven from outside, as a driver of real nodes does it: clients in plain numpy, one round at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from turnout.server.facts import Facts
from turnout.server.places import is_sum, take_back, words_in
from turnout.server.server import Server, ServerState
from turnout.server.settings import ServerSettings
from turnout.server.tally import Tally
from turnout.simulator.client_optimizer import Local
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide, blank_answers
from turnout.tasks.quadratics import Quadratics
from turnout.testing.claims import require, require_finite, require_same_form
from turnout.types import Answer, Array, Ask, Cohort, Download, Fleet, Known, PyTree, Reports, View, Work

RATE = 0.05
_SPARE_SLOTS = 5  # the result must not depend on them


class Happening(NamedTuple):
    """What nature decides in one round, one entry per client."""

    available: np.ndarray
    delivers: np.ndarray
    steps: np.ndarray


class Uploads(NamedTuple):
    """What a round brings: answers by slot, and by client which of them arrive and the reach of their work."""

    answers: Answer
    delivers: Array
    reach: Array
    starts: Array | None = None  # the models that were sent, by slot


class Late(NamedTuple):
    """Work that is done and not used yet."""

    row: Cohort  # with one slot
    version: int
    until: int  # the round in which it is used
    start: np.ndarray
    kept: PyTree
    answer: Answer


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
        self._late: list[Late] = []

    def play_round(self, t: int, root: Array, now: Happening, truth: Known) -> None:
        view, cohort, state, download = self._ask(t, root, now, now.available, truth, RATE)
        reach = self._reach(jnp.asarray(now.steps))
        told = {
            int(slot): self._train(t, int(slot), cohort, download, now.steps, np.asarray(reach))
            for slot in np.flatnonzero(np.asarray(cohort.uploading))
        }
        sent = self._in_slots(cohort.ids.shape[0], {slot: answer for slot, (_, answer) in told.items()})
        kept = {slot: own for slot, (own, _) in told.items()}
        self._end(state, view, cohort, self._uploads(sent, now, reach), kept, root)

    def play_late(self, t: int, root: Array, now: Happening, truth: Known, ticks: np.ndarray) -> None:
        """A step in which clients answer late, after so many steps each, by a rate that falls from step to step."""
        idle = now.available.copy()
        idle[[int(late.row.ids[0]) for late in self._late]] = False
        view, cohort, state, download = self._ask(t, root, now, idle, truth, RATE / (1 + 0.2 * t))
        reach = self._reach(jnp.asarray(now.steps))
        for slot in np.flatnonzero(np.asarray(cohort.uploading)):
            kept, answer = self._train(t, int(slot), cohort, download, now.steps, np.asarray(reach))
            row = _slots_of(cohort, np.array([slot]))
            until = t + int(ticks[int(cohort.ids[slot])])
            self._late.append(Late(row, t, until, np.asarray(download.model)[slot], kept, answer))
        used = sorted((late for late in self._late if late.until <= t), key=lambda late: int(late.row.ids[0]))
        self._late = [late for late in self._late if late.until > t]
        slots = self.task.num_clients + self._vacant + _SPARE_SLOTS
        cohort = _together(cohort, used, slots, t)
        sent = self._in_slots(slots, {slot: late.answer for slot, late in enumerate(used)})
        starts = None
        if self.strategy.needs_starts:
            starts = jnp.full_like(sent.update, jnp.nan)
            for slot, late in enumerate(used):
                starts = starts.at[slot].set(late.start)
        kept = {slot: late.kept for slot, late in enumerate(used)}
        self._end(state, view, cohort, self._uploads(sent, now, reach)._replace(starts=starts), kept, root)

    def _ask(
        self, t: int, root: Array, now: Happening, idle: np.ndarray, truth: Known, rate: float
    ) -> tuple[View, Cohort, ServerState, Download]:
        losses = jnp.asarray(np.where(idle, self.losses(), 0.0), jnp.float32)
        given = (truth, jnp.asarray(idle), losses if self.strategy.needs_losses else None)
        known, here, probed = jax.tree.map(self._pad, given)
        number, lr = jnp.asarray(t, jnp.int32), jnp.asarray(rate, jnp.float32)
        view, cohort, state, download = _open(self.server, self.state, number, here, known, probed, lr, root)
        require_finite((cohort.weight, cohort.scale, cohort.copies), "what is asked must be finite")
        require(int(cohort.overflow) == 0, "capacity gives fewer slots than clients are asked")
        return view, cohort, state, download

    def _uploads(self, sent: Answer, now: Happening, reach: Array) -> Uploads:
        return Uploads(sent, self._pad(jnp.asarray(now.delivers)), self._pad(jnp.asarray(reach, jnp.float32)))

    def _end(
        self, state: ServerState, view: View, cohort: Cohort, came: Uploads, kept: dict[int, PyTree], root: Array
    ) -> None:
        self.state, cohort = _close(self.server, state, view, cohort, came, root)
        for slot, own in kept.items():
            if cohort.arrived[slot]:
                self._kept[int(cohort.ids[slot])] = own

    @property
    def sums(self) -> list[np.ndarray]:
        """The sums of words that the clients keep themselves."""
        return [np.asarray(words.total) for words in words_in(self.state.strategy) if is_sum(words)]

    def say_goodbye(self, client: int) -> None:
        """Let a client that keeps its own word take it back."""
        said = self._side.goodbye(self._kept[client])
        require(isinstance(said, Answer), "goodbye must return an Answer")  # pyright: ignore[reportUnnecessaryIsInstance]
        require_same_form(said.update, self.state.params, "a goodbye must have the form of the model")
        self.state = take_back(self.server, self.state, jnp.asarray(client), said)

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
        if (form := side.receives(self.task.start)) is not None:
            require_same_form(form, own.shared, "receives must have the form of what the strategy shares")
        push, start = side.push(kept, own.shared), np.asarray(own.model)
        pull = np.float32(0.0 if side.pull is None else side.pull)
        gradients, place, centre = [], start.copy(), np.asarray(self.task.centres[client])
        for _ in range(int(steps[client])):
            gradients.append(np.float32(self.task.curvature[client]) * (place - centre))
            along = gradients[-1] + pull * (place - start) + (0.0 if push is None else np.asarray(push))
            place = place - np.float32(float(cohort.lr[slot]) * float(cohort.scale[slot])) * along
        update, mean, last = map(jnp.asarray, (place - start, np.mean(gradients, axis=0), gradients[-1]))
        rate, mass, number = (jnp.asarray(value, jnp.float32) for value in (cohort.lr[slot], reach[client], t))
        counts = jnp.asarray(self.server.fleet.importance[client], jnp.float32)
        work = Work(update, rate, mass, number, own.shared, mean, last, counts)
        answer = side.say(kept, work)
        require((answer.second is not None) == side.sends_second, "sends_second must say whether answers have a second")
        return side.keep(kept, work, answer), answer

    def _in_slots(self, slots: int, answers: dict[int, Answer]) -> Answer:
        """One row per slot, NaN where nobody has trained, to show that these are never read."""
        nothing = jnp.full((slots, *self.task.start.shape), jnp.nan)
        rows = blank_answers(self._side, nothing)
        for slot, answer in answers.items():
            rows = jax.tree.map(lambda whole, row, slot=slot: whole.at[slot].set(row), rows, answer)
        return rows


@eqx.filter_jit
def _open(
    server: Server,
    state: ServerState,
    t: Array,
    available: Array,
    truth: Known,
    losses: Array | None,
    lr: Array,
    root: Array,
) -> tuple[View, Cohort, ServerState, Download]:
    view = server.view(state, t, available, lr, truth, losses)
    cohort, state = server.ask(state, view, root)
    return view, cohort, state, server.download(state, view, cohort)


@eqx.filter_jit
def _close(
    server: Server, state: ServerState, view: View, cohort: Cohort, came: Uploads, root: Array
) -> tuple[ServerState, Cohort]:
    cohort = server.admit(state, view, cohort, jnp.linalg.norm(came.answers.update, axis=1), root)
    cohort = replace(cohort, arrived=cohort.uploading & cohort.take(came.delivers))
    reach = jnp.where(cohort.uploading, cohort.take(came.reach), jnp.nan)
    reports = Reports.of(cohort, came.answers, reach, reach, came.starts, server.strategy.needs_lost)
    return server.close(state, view, cohort, reports, Tally.empty(cohort.num_clients)).state, cohort


def _slots_of(cohort: Cohort, slots: np.ndarray) -> Cohort:
    """Some slots of a cohort."""
    return jax.tree.map(lambda leaf: leaf[slots] if leaf.ndim else leaf, cohort)


def _together(asked: Cohort, used: list[Late], slots: int, t: int) -> Cohort:
    """The rows that are used in step t as one cohort, behind them empty slots."""
    nobody = Cohort.pack(Ask.of(jnp.zeros(asked.num_clients, bool), jnp.zeros(asked.num_clients)), slots, 0.0)
    for slot, late in enumerate(used):
        age = jnp.asarray([float(t - late.version)])
        row = replace(late.row, age=age, waited=2.0 * age)
        nobody = jax.tree.map(
            lambda whole, own, slot=slot: whole.at[slot].set(own[0]) if whole.ndim else whole, nobody, row
        )
    return nobody
