"""Slow clients and servers that do not wait, by plain loops in double precision: a twin of the compiled simulator.

Nothing here is taken from the simulator but what nature decides, tick by tick, and the draw of clients where a server
has too few openings. Clients descend quadratics, whose gradients are exact.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from nights import usual_share
from turnout.paces import Buffered, Clocked, Rounds
from turnout.strategies.sampling import without_replacement
from turnout.streams import Stream, round_key


@dataclass
class Job:
    """One piece of work."""

    client: int
    start: np.ndarray  # the model that was sent
    version: int
    tick: int
    left: int  # ticks of work
    steps: int
    lr: float
    shared: object = None  # what was sent besides
    late: bool = False
    ended: bool = False
    arrived: bool = False

    def update(self, fleet):
        """Δ."""
        z = self.start.copy()
        for _ in range(self.steps):
            z = z - self.lr * fleet.gradient(self.client, z)
        return z - self.start


@dataclass
class Fleet:
    """Quadratics and how much each should count."""

    centres: np.ndarray
    curvature: np.ndarray
    importance: np.ndarray

    @property
    def share(self):
        return self.importance / self.importance.sum()

    @property
    def count(self):
        return len(self.importance)

    def gradient(self, client, z):
        """Of the client's quadratic; its curvature is a number or a matrix."""
        gap, curvature = z - self.centres[client], self.curvature[client]
        return curvature @ gap if np.ndim(curvature) else curvature * gap


@dataclass
class Step:
    """What an algorithm is told when the server steps."""

    fleet: Fleet
    version: int
    tick: int
    lr: float  # of this version
    goal: int | None
    jobs: list  # arrived, by client

    def age(self, job):
        return self.version - job.version

    def waited(self, job):
        return self.tick - job.tick


@dataclass
class Played:
    """A whole run."""

    model: np.ndarray
    versions: int
    used: np.ndarray  # by client
    ages: list = field(default_factory=list)


def play(world, fleet, pace, algorithm, ticks, rate, seed=0, start=None):
    """Run an algorithm: a function of (model, Step) that returns the model after the step.

    It may have `shared()`, what is sent besides the model, and `choose(idle, room, fleet)`, whom it asks.
    """
    root, nature_step = jr.key(seed), eqx.filter_jit(world.step)
    leaving = "continue" if world.durations is None else world.durations.leaving
    state, model = world.init(root), np.ones(fleet.centres.shape[1]) if start is None else start
    jobs, version, opened, asked_now = [], 0, None, 0
    played = Played(model, 0, np.zeros(fleet.count))
    for tick in range(ticks):
        state, nature = nature_step(state, root, jnp.asarray(tick, jnp.int32))
        here, delivers, steps = (np.asarray(each) for each in (nature.available, nature.delivers, nature.steps))
        lasting = np.zeros(fleet.count, int) if nature.durations is None else np.asarray(nature.durations)
        at_work = sum(not job.ended for job in jobs)
        room = fleet.count if pace.concurrency is None else max(int(pace.concurrency) - at_work, 0)
        if isinstance(pace, Rounds) and opened is not None:
            room = 0
        idle = np.array([here[k] and all(job.client != k for job in jobs) for k in range(fleet.count)])
        wanted = idle & (room > 0)
        if pace.concurrency is not None and hasattr(algorithm, "choose"):
            wanted = algorithm.choose(wanted, room, fleet)
        elif pace.concurrency is not None:
            key = round_key(root, Stream.OPENINGS, tick)
            wanted = np.asarray(without_replacement(key, jnp.asarray(wanted), room, fleet.count))
        if room > 0 and opened is None:
            opened, asked_now = tick, int(wanted.sum())
        shared = algorithm.shared() if hasattr(algorithm, "shared") else None
        for k in np.flatnonzero(wanted):
            jobs.append(Job(k, model, version, tick, int(lasting[k]), int(steps[k]), float(rate(version)), shared))
        for job in jobs:
            if job.ended:
                continue
            present = here[job.client]
            if leaving == "abort" and not present:
                job.ended = True
            elif (present or leaving == "answer") and job.left <= 0:
                job.ended, job.arrived = True, bool(delivers[job.client]) and not job.late
            elif leaving in ("continue", "answer") or present:
                job.left -= 1
        jobs = [job for job in jobs if not (job.late and job.ended)]
        if not isinstance(pace, Rounds):
            jobs = [job for job in jobs if job.arrived or not job.ended]
        arrived = sorted((job for job in jobs if job.arrived), key=lambda job: job.client)
        if not is_due(pace, tick, opened, asked_now, sum(j.ended and j.version == version for j in jobs), len(arrived)):
            continue
        goal = int(pace.size) if isinstance(pace, Buffered) else None
        told = Step(fleet, version, tick, float(rate(version)), goal, arrived)
        model = algorithm(model, told)
        for job in arrived:
            played.used[job.client] += 1
            played.ages.append(told.age(job))
        if isinstance(pace, Rounds) and pace.late == "drop":
            for job in jobs:
                job.late = True
        jobs = [job for job in jobs if not job.ended]
        version, opened = version + 1, None
    played.model, played.versions = model, version
    return played


def is_due(pace, tick, opened, asked, ended, arrived):
    """Whether the server steps at the end of this tick."""
    if isinstance(pace, Buffered):
        return arrived >= pace.size
    if isinstance(pace, Clocked):
        return (tick + 1) % int(pace.every) == 0
    if opened is None:
        return False
    over = pace.deadline is not None and tick - opened + 1 >= pace.deadline
    return over or ended >= np.ceil(round(float(pace.quorum) * asked, 6))


def fedavg(model, step):
    """The mean of what has arrived, by importance."""
    total = sum(step.fleet.importance[job.client] for job in step.jobs)
    return model + sum((step.fleet.importance[j.client] / total * j.update(step.fleet) for j in step.jobs), 0.0 * model)


class Mifa:
    """η_t Σ α_k y_k over all clients, y_k the last update per unit of the rate with which it was made."""

    def __init__(self):
        self.words = {}

    def __call__(self, model, step):
        for job in step.jobs:
            if job.steps:
                self.words[job.client] = job.update(step.fleet) / job.lr
        if not step.jobs:
            return model
        return model + step.lr * sum((step.fleet.share[k] * word for k, word in self.words.items()), 0.0 * model)


class LastWords:
    """f η_t τ̄ Σ w_k y_k / Σ α_j (t + 1)^½, w_k = α_k (l_k + 1)^½, l_k the version that the word is about."""

    def __init__(self):
        self.words, self.news = {}, []

    def shared(self):
        """τ̄, by which a client's next word is judged when it is asked."""
        total = sum(weight for weight, _, _ in self.words.values())
        return sum(weight * steps for weight, steps, _ in self.words.values()) / total if self.words else 0.0

    def __call__(self, model, step):
        came = 0.0
        for job in (job for job in step.jobs if job.steps):
            came += step.fleet.share[job.client]
            weight = step.fleet.importance[job.client] * (job.version + 1.0) ** 0.5
            word, trust = job.update(step.fleet) / (job.lr * job.steps), 1.0
            if job.client in self.words:
                trust, former = min(1.0, job.steps / job.shared), self.words[job.client][2]
                word = former + trust * (word - former)
            self.words[job.client] = weight, job.steps, word
        if not came:
            return model
        self.news.append(came)
        length = 2 * came / (came + usual_share(self.news)) * self.shared()
        everybody = step.fleet.importance.sum() * (step.version + 1.0) ** 0.5
        return model + step.lr * length * sum(weight * word for weight, _, word in self.words.values()) / everybody


class Steered:
    """The strategy of `tests/steered.py`: local steps along q + μ (z - x) + c - c_k, with the c that was sent."""

    def __init__(self, fleet, mu):
        self.controls, self.share, self.mu = np.zeros_like(fleet.centres), fleet.share, mu

    def shared(self):
        return self.share @ self.controls

    def __call__(self, model, step):
        moves, fleet = {}, step.fleet
        for job in step.jobs:
            z, gradients = job.start.copy(), []
            for _ in range(job.steps):
                gradients.append(fleet.gradient(job.client, z))
                push = job.shared - self.controls[job.client]
                z = z - job.lr * (gradients[-1] + self.mu * (z - job.start) + push)
            moves[job.client] = z - job.start
            if gradients:
                self.controls[job.client] = (np.mean(gradients, axis=0) + gradients[-1]) / 2
        total = sum(fleet.importance[k] for k in moves)
        return model + sum((fleet.importance[k] / total * move for k, move in moves.items()), 0.0 * model)
