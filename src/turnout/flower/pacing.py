# Long: the one loop, and what it does with answers, silence and the end.
"""A server of real nodes that does not wait: it asks, collects and steps as its pace says.

The clock runs in ticks of one second. Each turn of the loop is a tick of `simulator/tick.py`: what has come is taken
in, the server steps if that is due, idle clients are asked, and then it sleeps until the next look.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from turnout.flower.fleet.gathering import Shares
from turnout.flower.fleet.presence import Presence
from turnout.flower.run.books import Books, Tempo
from turnout.flower.server.compiled_in_time import Sighting
from turnout.flower.server.driver import Driver
from turnout.flower.server.flow import Flow, Job
from turnout.flower.server.inspector import Inspector
from turnout.flower.server.turn import RoundRecord
from turnout.flower.settings import Limits, Waiting
from turnout.flower.wire import messages, side
from turnout.flower.wire.collecting import Collection, Desk
from turnout.flower.wire.exchange import Mailbox, write_orders
from turnout.flower.wire.messages import metrics_in, to_record
from turnout.flower.wire.replies import Reply
from turnout.flower.wire.retries import PollingGrid

log = logging.getLogger("turnout.flower")
shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning

_LISTING = 3.0  # seconds for which a list of nodes is good
_LOOK = 30.0  # seconds between two notes of who is there: no fleet changes within less
_MISSED = 1000  # ticks without a look that are still gone through
_PATIENT_LOG = 60.0  # seconds between two lines that say that clients are waited for


@dataclass
class Seen:
    """What was seen since the last look."""

    heard: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    ended: dict[str, float | None] = field(default_factory=dict)  # reach of what arrived, None where nothing did


@dataclass
class Evaluating:
    """An evaluation by clients under way."""

    t: int
    clients: dict[str, str]  # by message
    end: float
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)


class PacedTraining:
    """The loop of one training."""

    def __init__(  # noqa: PLR0913 (the parts of one training)
        self,
        flow: Flow,
        grid: PollingGrid,
        presence: Presence,
        inspector: Inspector,
        books: Books,
        shares: Shares,
        limits: Limits,
        waiting: Waiting,
        mailbox: Callable[[], Mailbox],
        size_key: str,
        on_evaluated: Callable[[int, dict[str, dict[str, Any]]], None],
    ) -> None:
        self.flow = flow
        self._grid, self._presence, self._inspector, self._books = grid, presence, inspector, books
        self._shares, self._limits, self._waiting, self._size_key = shares, limits, waiting, size_key
        self._mailbox, self._on_evaluated = mailbox, on_evaluated
        self._listed: list[str] = []
        self._listed_at = self._said_at = -math.inf
        self._seen, self._looked_at = Seen(), -math.inf
        self._backlog: list[tuple[str, float | None]] = []
        self._checked: int | None = None  # the last tick of which it is known whether a step was due
        self._stepped: int | None = None  # the last tick with a step
        self._tempo = Tempo()
        self._refused: list[str] = []
        self._forgotten = False
        self._goodbyes: dict[str, Any] = {}
        self._bytes = 0
        self._warned: set[str] = set()
        self._evaluating: Evaluating | None = None
        self.dropped = 0  # replies that were refused before the last step

    @property
    def driver(self) -> Driver:
        return self.flow.driver

    @property
    def _now(self) -> float:
        return self._grid.clock.now()

    def begin(self) -> None:
        """Go on with what was under way before a restart, as far as Flower still hands it out."""
        run = Message(RecordDict(), 1, MessageType.TRAIN).metadata.run_id
        waiting, lost = len(self.flow.jobs), self.flow.leave_former_run(run)
        if waiting:
            shown.info(
                "Going on with %d orders under way and %d answers that wait; %d orders of a former run are lost",
                len(self.flow.working),
                waiting - lost - len(self.flow.working),
                lost,
            )

    # One turn of the loop

    def play_until_step(self, config: ConfigRecord, timeout: float) -> tuple[RoundRecord, dict[str, dict[str, Any]]]:
        """Ask, collect and wait until the server has stepped; returns the step, and the metrics of its clients."""
        while True:
            self.collect()
            tick = self._ended_tick()
            if self.flow.origin is not None and self._is_due(tick):
                return self._step(tick)
            if self._goodbyes:
                self._let_leave()
            self._look_if_due()
            self._ask(config, timeout)
            self._grid.idle()
            self._grid.clock.sleep(self._grid.interval)

    def _ended_tick(self) -> int:
        """The tick that ends now."""
        origin = self.flow.origin
        return -1 if origin is None else max(self.flow.tick, math.ceil(self._now - origin - 1e-6) - 1)

    def _is_due(self, tick: int) -> bool:
        """Whether the server steps now; ticks in which nobody looked count, too."""
        if self._stepped == tick:  # once in a tick, as in simulations
            return False
        first = tick if self._checked is None else min(self._checked + 1, tick)
        self._checked = tick
        return any(self.flow.is_due(one) for one in range(max(first, tick - _MISSED), tick + 1))

    def collect(self) -> None:
        """Take in what has come, and give up what takes too long."""
        numbers = [job.number for job in self.flow.working if job.number]
        evaluating = self._evaluating
        if evaluating is not None:
            numbers += list(evaluating.clients)
        if numbers:
            self._grid.fetch(numbers, self._take)
        now = self._now
        for job in self.flow.working:
            node = self.driver.directory.node_of(job.client)
            moved = node is not None and node != job.node  # it was restarted, and knows nothing of its order
            if moved or now - job.begun >= job.limit:
                self._give_up(job, moved)
        if evaluating is not None and (not evaluating.clients or now >= evaluating.end):
            self.finish_evaluation()

    def _give_up(self, job: Job, moved: bool) -> None:
        log.info("%s has not answered in %.0f s: its order is given up", job.client, self._now - job.begun)
        self.flow.end(job, self._now, None, answered=False)
        if not moved:
            self._seen.silent.add(job.client)
            if job.client in self.driver.directory:
                self.driver.directory.note_answer(job.client, answered=False, t=self.driver.t + 1)
        self._note_ended(job.client, None)

    def _take(self, message: Message) -> None:
        number = message.metadata.reply_to_message_id
        if self._evaluating is not None and number in self._evaluating.clients:
            client = self._evaluating.clients.pop(number)
            if message.has_content():
                self._evaluating.metrics[client] = metrics_in(message.content)
            return
        job = self.flow.find(number)
        if job is None or job.client not in self.driver.directory:
            return
        answered = message.has_content() or not messages.is_of_link(message, job.node)
        reply = self._check(job, message.content) if message.has_content() else None
        if not message.has_content():
            log.warning("%s failed with %s", job.client, messages.error_in(message))
        self.driver.directory.note_answer(job.client, answered, self.driver.t + 1)
        (self._seen.heard if answered else self._seen.silent).add(job.client)
        self.flow.end(job, self._now, reply, answered)
        self._note_ended(job.client, None if reply is None else reply.reach)

    def _check(self, job: Job, content: RecordDict) -> Reply | None:
        """The update in an answer, None if there is none that counts."""
        desk = Desk(job.version, self.driver.layout, self.driver.demands)
        collection = Collection(
            desk, {job.client: job.order}, self._limits, size_key=self._size_key, warned=self._warned
        )
        collection.add({job.client: content})
        self._bytes += collection.bytes_uploaded
        self._refused += collection.refused
        self._forgotten |= bool(collection.forgotten)
        self._goodbyes |= collection.goodbyes
        job.metrics = collection.metrics.get(job.client, {})
        return collection.good.get(job.client)

    def _note_ended(self, client: str, reach: float | None) -> None:
        if client in self._seen.ended:  # once in a look
            self._backlog.append((client, reach))
        else:
            self._seen.ended[client] = reach

    # Steps

    def _step(self, tick: int) -> tuple[RoundRecord, dict[str, dict[str, Any]]]:
        driver, flow = self.driver, self.flow
        self._stepped = tick
        if self._goodbyes:
            self._let_leave()
        arrived = [job for job in flow.used_now() if job.status == "arrived"]
        acknowledged = driver.acknowledged_rounds()
        held: dict[str, Reply] = {}
        for job in arrived:
            assert job.reply is not None  # or it would not have arrived
            base = int(acknowledged[driver.directory.place(job.client)])
            if driver.demands.memory and job.order.acknowledged != base:  # the sum has begun anew since
                self._refused.append(job.client)
            else:
                held[job.client] = job.reply
        self._inspector.look(
            {name: reply.norm for name, reply in held.items()},
            {job.client: job.order.rate for job in arrived if job.client in held},
        )
        good = self._inspector.correct(driver.t + 1, held)
        self._inspector.note(driver.t + 1, good, self._refused)
        if self._presence.target == "examples":
            driver.weigh_by_size({name: float(reply.size) for name, reply in good.items() if reply.size})
        metrics = {job.client: job.metrics for job in arrived if job.client in good}
        here = [name for name in self._listed if name in driver.directory]
        record = replace(flow.step(tick, good, here), bytes_uploaded=self._bytes)
        if driver.take_reweighed() or self._forgotten:
            driver.begin_epoch()
        self.dropped = len(self._refused)
        self._bytes, self._refused, self._forgotten = 0, [], False
        return record, metrics

    def _let_leave(self) -> None:
        goodbyes, self._goodbyes = self._goodbyes, {}
        for job in [job for job in self.flow.jobs if job.client in goodbyes]:
            self.flow.drop(job, "left")
        self._presence.take_leave(self.driver, goodbyes)
        self._listed_at = -math.inf

    # Questions

    def _ask(self, config: ConfigRecord, timeout: float) -> None:
        driver, flow = self.driver, self.flow
        if not self._refresh():
            return
        openings = flow.openings()
        if openings <= 0:
            return
        t, busy = driver.t + 1, flow.busy
        free = [name for name in self._listed if name not in busy and name in driver.directory]
        idle = [name for name in free if not self._inspector.rests(name, t) and not driver.directory.rests(name, t)]
        if not idle:
            return
        now = self._now
        flow.origin = now if flow.origin is None else flow.origin
        tick = max(flow.tick + 1, math.floor(now - flow.origin + 1e-6))
        self._send(flow.ask(idle, tick, openings, now, timeout), config)

    def _send(self, jobs: list[Job], config: ConfigRecord) -> None:
        driver, t = self.driver, self.driver.t
        for_all = {messages.RUN_ID: self._books.chronicle.run_id, messages.DURABLE: self._books.durable_round(t)}
        for_all |= side.to_config(driver.strategy)
        mailbox, life = self._mailbox(), {job.client: job.limit for job in jobs}
        written = write_orders(mailbox, driver, [job.order for job in jobs], for_all, config, life)
        numbers = list(self._grid.push_messages(written)) if written else []
        sent = dict(zip((message.metadata.dst_node_id for message in written), numbers, strict=False))
        for job in jobs:
            number = sent.get(job.node)
            if number:
                job.number, job.begun = number, self._now
            else:  # the link was away for too long
                self.flow.drop(job, "failed")

    def await_clients(self) -> None:
        """Wait until there are enough clients."""
        while not self._refresh():
            self._grid.clock.sleep(self._grid.interval)

    def _refresh(self) -> bool:
        """Look who is listed, if that is not known; returns whether there are enough."""
        if self._now - self._listed_at >= min(_LISTING, 3 * self._grid.interval) or not self._listed:
            self._listed = self._presence.take(self._grid, self.driver, self.driver.t + 1)
            self._listed_at = self._now
            if self._presence.target == "size":
                self._inspector.bound_sizes(self.driver)
        least = max(self._shares.min_available_nodes, 1)
        if len(self._listed) >= least:
            return True
        if self._now - self._said_at >= _PATIENT_LOG:
            shown.info("Waiting for clients: %d are listed, %d are needed", len(self._listed), least)
            self._said_at = self._now
        return False

    # What is learned of the clients

    def _look_if_due(self) -> None:
        if self.flow.origin is None:
            return
        if self._looked_at == -math.inf:
            self._looked_at = self._now
            self._tempo.begin(self._now)
        elif self._now - self._looked_at >= _LOOK:
            self.look()

    def look(self) -> None:
        """Note who is there: a round of the clock, of which π and λ are learned."""
        driver = self.driver
        self._tempo.begin(self._now)
        self._looked_at = self._now
        members = set(driver.directory.names)
        if not members:
            return
        seen, listed = self._seen, set(self._listed) & members
        heard, silent = seen.heard & members, (seen.silent & members) - seen.heard
        known = heard | silent if self._presence_is_doubted else listed
        doubted = listed - known

        def mask(names: Iterable[str]) -> Any:
            return driver.places.mask(driver.places.find(names))

        ended = {name: reach for name, reach in seen.ended.items() if name in members}
        came = {name: reach for name, reach in ended.items() if reach is not None}
        available = heard if self._presence_is_doubted else listed - silent
        watched = mask([name for name in members if name not in doubted])
        span = jnp.asarray(self._tempo.span, jnp.float32)
        reach = driver.places.column(came)
        self.flow.observe(
            Sighting(mask(available), watched, mask(listed | heard), span, mask(ended), mask(came), reach)
        )
        self._seen, backlog, self._backlog = Seen(), self._backlog, []
        for client, value in backlog:
            self._note_ended(client, value)

    @property
    def _presence_is_doubted(self) -> bool:
        return self._presence.listed == "unknown"

    # Evaluation, beside the training

    def begin_evaluation(self, config: ConfigRecord, t: int, seed: int, timeout: float) -> None:
        """Send the model to idle clients, and go on; their answers are taken in as they come."""
        driver, busy = self.driver, self.flow.busy
        out = driver.directory.silent | busy
        names = [name for name in self._listed if name not in out and name in driver.directory]
        chosen = self._shares.to_evaluate(names, seed, t)
        mailbox, model = self._mailbox(), to_record(driver.model())
        letters = [(name, model, {}) for name in chosen]
        written = mailbox.write(driver.directory, MessageType.EVALUATE, letters, config, t, timeout)
        numbers = list(self._grid.push_messages(written)) if written else []
        by_node = {driver.directory.node_of(name): name for name in chosen}
        clients = {
            number: by_node[message.metadata.dst_node_id]
            for number, message in zip(numbers, written, strict=False)
            if number
        }
        self._evaluating = Evaluating(t, clients, self._now + timeout)

    def finish_evaluation(self) -> None:
        """End an evaluation with the answers that have come."""
        done, self._evaluating = self._evaluating, None
        if done is not None:
            self._on_evaluated(done.t, done.metrics)

    # The end

    def close(self) -> None:
        """Wait for what is under way, or give it up, as `Waiting.at_end` says."""
        while self._evaluating is not None or (self._waiting.at_end == "wait" and self.flow.working):
            self.collect()
            if self._evaluating is not None or self.flow.working:
                self._grid.clock.sleep(self._grid.interval)
        if self.flow.origin is not None:
            self.look()
        left, waiting = len(self.flow.working), len(self.flow.jobs) - len(self.flow.working)
        said = self.flow.counts
        shown.info(
            "The end: %d orders under way are given up, %d answers wait for no step; in all %s never counted",
            left,
            waiting,
            ", ".join(f"{count} {name}" for name, count in said.items()),
        )
