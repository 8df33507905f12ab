# Long: what is under way, what becomes of it, and how it is kept through a crash.
"""Work under way on real nodes, from the question to the step that uses the answer: the host's `simulator/pending.py`.

A client has one order at a time. Its answer waits here until the server steps, and a client whose answer waits is not
asked. So there are never more models than orders under way and answers that wait.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from turnout.flower.server import compiled, compiled_in_time
from turnout.flower.server.compiled_in_time import Moment, Sighting, SinceStep, Used
from turnout.flower.server.driver import Driver
from turnout.flower.server.speeds import Speeds
from turnout.flower.server.turn import Order, RoundRecord, orders_of
from turnout.flower.settings import Clock
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.replies import Reply
from turnout.paces import Pace, PaceState, Traffic

log = logging.getLogger("turnout.flower")

Status = Literal["working", "arrived", "failed"]
_TOGETHER = 8  # clients whose own start models are computed at once
_FEWEST_SLOTS = 8  # of a step: powers of two from here on, so that few programs serve all


@dataclass
class Job:
    """One order, and what has become of it."""

    order: Order
    start: Arrays  # the model that was sent, shared by all that were sent the same
    node: int
    version: int  # steps before it was sent
    tick: int
    begun: float  # when it was sent
    limit: float  # seconds after which it is given up
    copies: float
    share: float  # of its client in the target, when it was sent
    number: str = ""  # of its message
    status: Status = "working"
    late: bool = False  # nobody waits for it any more, but its client works on
    reply: Reply | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0  # until its answer came

    @property
    def client(self) -> str:
        return self.order.client


@dataclass(frozen=True)
class Arrival:
    """One row of `arrivals.parquet`."""

    client: str
    tick: int  # in which it was asked
    seconds: float  # from question to answer, or until it was given up
    version: int  # steps before it was asked
    step: int  # that has used it, counted from 1; 0 if none has
    age: int  # steps in between
    outcome: str  # used, failed, silent, late, left or dropped
    weight: float  # of its update


class Flow:
    """All work under way, the pace's own state, and what is learned of durations.

    `ask`, `end` and `step` are what a tick of the simulator does; who calls them decides when.
    """

    def __init__(self, driver: Driver, pace: Pace, clock: Clock) -> None:
        self.driver = driver
        self.pace = pace
        self.clock = clock
        self.origin: float | None = None  # when tick 0 began
        self.run: int | None = None  # of Flower, in which the orders were sent
        self.speeds = Speeds()
        self.jobs: list[Job] = []
        self.arrivals: list[Arrival] = []
        self.tick = -1  # the last in which clients were asked
        self.counts: dict[str, int] = dict.fromkeys(
            ("silent", "late", "lost", "dropped"), 0
        )  # answers that never counted
        self._opened, self._asked = -1, 0  # of the round, where the pace has rounds
        self._starts: tuple[object, Arrays] | None = None  # the model as it was last sent, and of which state it is
        self._since_step: dict[str, set[str]] = {"asked": set(), "heard": set()}

    # What is under way

    @property
    def working(self) -> list[Job]:
        return [job for job in self.jobs if job.status == "working"]

    @property
    def busy(self) -> set[str]:
        """Clients that must not be asked: at work, or with an answer that is not used yet."""
        return {job.client for job in self.jobs}

    @property
    def models(self) -> int:
        """Models in memory for all this: answers that wait, and different models that were sent."""
        sent = {id(job.start) for job in self.jobs if job.status == "working" or self._keeps_starts}
        return len(sent) + sum(job.reply is not None for job in self.jobs)

    @property
    def _keeps_starts(self) -> bool:
        return self.driver.strategy.needs_starts

    def find(self, number: str) -> Job | None:
        """The order that a message holds."""
        return next((job for job in self.jobs if job.number == number), None)

    # The pace

    def _pace_state(self) -> PaceState:
        return PaceState(*(jnp.asarray(value, jnp.int32) for value in (self.driver.t, self._opened, self._asked)))

    def openings(self) -> int:
        """How many clients may be asked now."""
        fleet = max(len(self.driver.directory), 1)
        return int(self.pace.openings(self._pace_state(), jnp.asarray(len(self.working), jnp.int32), fleet))

    def is_due(self, tick: int) -> bool:
        """Whether the server steps at the end of this tick."""
        ended = sum(job.status != "working" and job.version == self.driver.t for job in self.jobs)
        arrived = sum(job.status == "arrived" for job in self.jobs)
        traffic = Traffic(*(jnp.asarray(count, jnp.int32) for count in (ended, arrived)))
        return bool(self.pace.due(self._pace_state(), jnp.asarray(tick, jnp.int32), traffic))

    # A tick

    def ask(self, idle: Collection[str], tick: int, openings: int, now: float, longest: float) -> list[Job]:
        """Orders for clients among those that are idle, not sent yet."""
        driver, self.tick = self.driver, tick
        _, state = driver.serving()
        limit = jnp.asarray(openings, jnp.int32) if self.pace.is_bounded else None
        moment = self._moment(tick, driver.places.mask(driver.places.find(idle)))
        opened = compiled_in_time.ask((moment, driver.root, limit), state)
        driver.replace_state(opened.state)
        driver.check_shared(opened.shared)
        if int(opened.cohort.overflow) != 0:
            raise RuntimeError(f"{driver.demands.name} asked {int(opened.cohort.overflow)} clients too many")
        ids, copies = np.asarray(opened.cohort.ids), np.asarray(opened.cohort.copies)
        starts = self._starts_of(ids)
        orders = orders_of(
            opened,
            driver.directory.by_place,
            driver.importance,
            driver.acknowledged_rounds(),
            lambda slot: starts(slot),
        )
        jobs = []
        for slot, order in orders.items():
            node = driver.directory.node_of(order.client)
            if node is not None:
                life = self.speeds.limit(order.client, longest)
                share = driver.places.share(order.client)
                jobs.append(Job(order, starts(slot), node, driver.t, tick, now, life, float(copies[slot]), share))
        self.jobs += jobs
        self._since_step["asked"] |= {job.client for job in jobs}
        if self._opened < 0:
            self._opened, self._asked = tick, len(jobs)
        return jobs

    def _moment(self, tick: int, available: Any) -> Moment:
        driver, goal = self.driver, self.pace.goal
        server, _ = driver.serving()
        wanted = None if goal is None else jnp.asarray(goal, jnp.float32)
        return Moment(server, driver.local_now(), driver.now(), jnp.asarray(tick, jnp.int32), available, wanted)

    def _starts_of(self, ids: np.ndarray) -> Any:
        """A function from a slot to the model that its client is sent."""
        driver = self.driver
        server, state = driver.serving()
        if driver.demands.shared_start:
            of = (driver.t, driver.epoch_of_model)
            if self._starts is None or self._starts[0] != of:
                self._starts = (of, driver.arrays())
            shared = self._starts[1]
            return lambda _slot: shared
        count = int(np.sum(ids < server.fleet.num_clients))
        rows: list[Arrays] = []
        for first in range(0, count, _TOGETHER):
            chosen = jnp.asarray(np.resize(ids[first : min(first + _TOGETHER, count)], _TOGETHER), jnp.int32)
            models = jax.device_get(compiled.starts(server, state, chosen))
            rows += [
                driver.layout.to_arrays({name: part[row] for name, part in models.items()}, copy=True)
                for row in range(min(_TOGETHER, count - first))
            ]
        return lambda slot: rows[slot]

    def end(self, job: Job, now: float, reply: Reply | None, answered: bool) -> None:
        """Work that is over: with an update, or without one."""
        job.seconds = now - job.begun
        if answered:
            self.speeds.add(job.client, job.seconds)
            self._since_step["heard"].add(job.client)
        if job.late:
            self.drop(job, "late")
        elif reply is not None:
            job.status, job.reply = "arrived", reply
        elif self.pace.in_rounds:
            job.status = "failed"
        else:  # free at once
            self.drop(job, "failed" if answered else "silent")

    def drop(self, job: Job, outcome: str) -> None:
        """Forget an order; what comes of it later counts for nothing."""
        self.jobs.remove(job)
        self.arrivals.append(Arrival(job.client, job.tick, job.seconds, job.version, 0, 0, outcome, 0.0))
        key = {"silent": "silent", "late": "late", "failed": "lost", "left": "lost"}.get(outcome, "dropped")
        self.counts[key] += 1

    def used_now(self) -> list[Job]:
        """The orders that a step now would use, by place; those of clients that have left are dropped."""
        for job in [job for job in self.jobs if job.client not in self.driver.directory]:
            self.drop(job, "left")
        waits = self.pace.in_rounds and self.pace.drops_late
        chosen = [job for job in self.jobs if job.status != "working" or (waits and not job.late)]
        return sorted(chosen, key=lambda job: self.driver.directory.place(job.client))

    def step(self, tick: int, good: Mapping[str, Reply], available: Collection[str]) -> RoundRecord:
        """Move the model by what has arrived; `good` are the replies as the guard leaves them, by client."""
        driver, chosen = self.driver, self.used_now()
        _, state = driver.serving()
        moment = self._moment(tick, driver.places.mask(driver.places.find(available)))
        stepped = self._play(moment, chosen, good, tick)
        steady = bool(stepped.steady)
        if not steady:
            log.error("step %d would make the model infinite: all its %d replies are dropped", driver.t + 1, len(good))
            good = {}
            stepped = self._play(moment, chosen, good, tick)
        record = self._record(chosen, good, np.asarray(stepped.weight), available, steady)
        driver.accept(stepped.state if bool(stepped.steady) else state, stepped.tally)
        for job in chosen:
            if job.status == "working":
                job.late = True
            else:
                self._book(job, good, record)
        self.jobs = [job for job in self.jobs if job.status == "working" or job not in chosen]
        self._opened, self._since_step = -1, {"asked": set(), "heard": set()}
        return record

    def _book(self, job: Job, good: Mapping[str, Reply], record: RoundRecord) -> None:
        t, is_used = self.driver.t, job.client in record.weights
        outcome = "used" if is_used else "failed" if job.status == "failed" else "dropped"
        self.counts["dropped"] += outcome == "dropped"
        self.counts["lost"] += outcome == "failed"
        number, weight = (t, record.weights[job.client]) if is_used else (0, 0.0)
        self.arrivals.append(
            Arrival(job.client, job.tick, job.seconds, job.version, number, record.t - job.version, outcome, weight)
        )

    def _play(self, moment: Moment, chosen: Sequence[Job], good: Mapping[str, Reply], tick: int) -> Any:
        driver = self.driver
        server, state = driver.serving()
        slots, places = max(_FEWEST_SLOTS, 1 << max(len(chosen) - 1, 0).bit_length()), server.fleet.num_clients
        columns = {name: np.zeros(slots, np.float32) for name in ("copies", "weight", "scale", "lr", "age", "waited")}
        columns |= {name: np.zeros(slots, np.float32) for name in ("losses", "reach")}
        ids, arrived = np.full(slots, places, np.int32), np.zeros(slots, bool)
        updates, second = driver.layout.rows(slots), driver.layout.rows(slots) if driver.demands.second else None
        starts = driver.layout.rows(slots) if self._keeps_starts else None
        numbers = np.zeros((slots, driver.demands.numbers), np.float32) if driver.demands.numbers else None
        versions = np.full(places, driver.t, np.int32)
        for slot, job in enumerate(chosen):
            order, reply = job.order, good.get(job.client) if job.status == "arrived" else None
            ids[slot], arrived[slot] = driver.directory.place(job.client), reply is not None
            weight = order.weight * driver.places.share(job.client) / job.share
            values = (job.copies, weight, order.scale, order.lr, driver.t - job.version, tick - job.tick)
            for name, value in zip(("copies", "weight", "scale", "lr", "age", "waited"), values, strict=True):
                columns[name][slot] = value
            if reply is not None:
                columns["losses"][slot], columns["reach"][slot] = reply.loss or 0.0, reply.reach
                versions[ids[slot]] = job.version
                _fill(updates, slot, reply.update)
                _fill(second, slot, reply.second or {})
                _fill(starts, slot, job.start)
                if numbers is not None:
                    numbers[slot] = reply.numbers
        rows = {"updates": updates, "second": second, "starts": starts, "numbers": numbers}
        used = Used(**jax.device_put({"ids": ids, "arrived": arrived, **columns, **rows}))
        roll = SinceStep(self._mask("heard"), self._mask("asked"), jnp.asarray(versions))
        return jax.block_until_ready(compiled_in_time.step(moment, state, driver.tally, used, roll))

    def _mask(self, which: str) -> Any:
        names = [name for name in self._since_step[which] if name in self.driver.directory]
        return self.driver.places.mask(self.driver.places.find(names))

    def _record(
        self,
        chosen: Sequence[Job],
        good: Mapping[str, Reply],
        weight: np.ndarray,
        available: Collection[str],
        steady: bool,
    ) -> RoundRecord:
        driver = self.driver
        came = {job.client: float(weight[slot]) for slot, job in enumerate(chosen) if job.client in good}
        losses = {name: loss for name in came if (loss := good[name].loss) is not None}
        total = sum(driver.places.worth(name) for name in losses)
        loss = sum(driver.places.worth(name) * value for name, value in losses.items()) / total if losses else None
        asked = tuple(sorted(name for name in self._since_step["asked"] if name in driver.directory))
        heard = tuple(sorted(name for name in self._since_step["heard"] if name in driver.directory))
        late = tuple(job.client for job in chosen if job.client in came and job.version < driver.t)
        uploads = tuple(dict.fromkeys((*came, *(job.client for job in chosen if job.status == "failed"))))
        unknown = tuple(sorted({*available, *self.busy} - set(heard)))
        unknown = tuple(name for name in unknown if name in driver.directory)
        steps = float(sum(good[name].reach for name in came))
        record = RoundRecord(driver.t, heard, asked, uploads, tuple(came), came, steady, unknown, loss=loss)
        return replace(record, late=late, steps=steps, members=driver.directory.names)

    def observe(self, look: Sighting) -> None:
        """Let the server's facts take in what was seen since the last look."""
        server, state = self.driver.serving()
        facts = compiled_in_time.observe(server, state.facts, self.driver.now(), look)
        self.driver.replace_state(replace(state, facts=facts))

    # Through a crash

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Everything as JSON and arrays; a model that several were sent stands there once.

        Times are seconds before now, since the clock of another process begins elsewhere.
        """
        now = self.clock.now()
        models: dict[int, int] = {}
        arrays: Arrays = {}
        for job in self.jobs:
            if id(job.start) not in models:
                models[id(job.start)] = len(models)
                arrays |= {f"{models[id(job.start)]} start {name}": part for name, part in job.start.items()}
        rows = []
        for place, job in enumerate(self.jobs):
            kept = {name: getattr(job, name) for name in _PLAIN} | {"begun": job.begun - now}
            order = {name: getattr(job.order, name) for name in _OF_ORDER}
            reply = None
            if job.reply is not None:
                reply = {name: getattr(job.reply, name) for name in _OF_REPLY}
                arrays |= {f"{place} update {name}": part for name, part in job.reply.update.items()}
                arrays |= {f"{place} second {name}": part for name, part in (job.reply.second or {}).items()}
                arrays |= {} if job.reply.numbers is None else {f"{place} numbers": job.reply.numbers}
            rows.append({"job": kept, "order": order, "reply": reply, "start": models[id(job.start)]})
        table = _columns(self.arrivals)
        arrays |= {f"arrivals {name}": np.array(values) for name, values in table.items() if name not in _TEXTS}
        plain = {"jobs": rows, "speeds": self.speeds.state(), "tick": self.tick, "counts": self.counts}
        plain |= {"opened": self._opened, "asked": self._asked, "run": self.run, "origin": self._since(now)}
        return plain | {name: table[name] for name in _TEXTS}, arrays

    def restore(self, plain: Mapping[str, Any], arrays: Arrays) -> None:
        """Continue from a former `state`."""
        now = self.clock.now()
        self.run = plain["run"]
        self.origin = None if plain["origin"] is None else now + plain["origin"]
        self.tick, self._opened, self._asked = int(plain["tick"]), int(plain["opened"]), int(plain["asked"])
        self.counts |= {str(name): int(count) for name, count in plain["counts"].items()}
        self.speeds.restore(plain["speeds"])
        starts: dict[int, Arrays] = {}
        for place, row in enumerate(plain["jobs"]):
            start = starts.setdefault(row["start"], _of(f"{row['start']} start ", arrays))
            order = Order(find_start=lambda start=start: start, **row["order"])
            job = Job(order, start, **{**row["job"], "begun": now + row["job"]["begun"]})
            if row["reply"] is not None:
                second = _of(f"{place} second ", arrays) or None
                numbers = arrays.get(f"{place} numbers")
                update = _of(f"{place} update ", arrays)
                job.reply = Reply(update=update, second=second, numbers=numbers, **row["reply"])
            self.jobs.append(job)
        columns = {name: plain[name] for name in _TEXTS}
        columns |= {name: arrays[f"arrivals {name}"].tolist() for name in _NAMES if name not in _TEXTS}
        self.arrivals = [Arrival(*row) for row in zip(*(columns[name] for name in _NAMES), strict=True)]

    def _since(self, now: float) -> float | None:
        return None if self.origin is None else self.origin - now

    def leave_former_run(self, run: int) -> int:
        """Drop what was sent in another run of Flower, which hands out no messages of it; returns how many.

        Answers that have come and wait for a step stay.
        """
        lost = self.working if self.run not in (None, run) else []
        for job in lost:
            self.drop(job, "left")
        self.run = run
        return len(lost)

    def table(self) -> dict[str, list[Any]]:
        """All answers so far, and what never was one, by column; `place` counts clients as `clients.parquet` does."""
        places = {name: place for place, name in enumerate(self.driver.directory.names)}
        columns = _columns(self.arrivals)
        return {"place": [places.get(name, -1) for name in columns["client"]], **columns}

    def by_client(self) -> dict[str, np.ndarray]:
        """What was learned of each client by the clock, in the order of the directory's names."""
        names = self.driver.directory.names
        seconds = np.array([self.speeds.median(name) for name in names], np.float64).reshape(len(names), 3)
        ages: dict[str, list[int]] = {name: [] for name in names}
        for one in self.arrivals:
            if one.outcome == "used" and one.client in ages:
                ages[one.client].append(one.age)
        mean_age = np.array([np.mean(ages[name]) if ages[name] else np.nan for name in names], np.float64)
        columns = {"seconds": seconds[:, 0], "seconds_low": seconds[:, 1], "seconds_high": seconds[:, 2]}
        return columns | {"answers_used": np.array([float(len(ages[name])) for name in names]), "mean_age": mean_age}


_PLAIN = ("node", "version", "tick", "begun", "limit", "copies", "share", "number", "status", "late", "seconds")
_OF_ORDER = ("client", "rate", "scale", "weight", "seed", "upload_seed", "acknowledged", "importance")
_OF_REPLY = ("norm", "loss", "reach", "size")
_TEXTS = ("client", "outcome")
_NAMES = tuple(Arrival.__dataclass_fields__)


def _columns(arrivals: Iterable[Arrival]) -> dict[str, list[Any]]:
    rows = [asdict(one) for one in arrivals]
    return {name: [row[name] for row in rows] for name in _NAMES}


def _of(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}


def _fill(rows: Arrays | None, slot: int, vector: Mapping[str, np.ndarray]) -> None:
    if rows is not None:
        for name, part in rows.items():
            part[slot] = vector[name]
