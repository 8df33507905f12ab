"""A server in time, tick by tick in plain numpy, written from the rules of the paces and from no formula.

Many worlds are played side by side: a row of every array is one of them, a column one of its clients.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Buffered:
    size: int
    concurrency: int | None = None
    odds: np.ndarray | None = None

    def room(self, books):
        cap = books.working.shape[1] if self.concurrency is None else self.concurrency
        return np.maximum(cap - books.working.sum(axis=1), 0)

    def due(self, books):
        return books.waiting.sum(axis=1) >= self.size


@dataclass
class Clocked:
    every: int
    odds: None = None

    def room(self, books):
        return np.full(len(books.working), books.working.shape[1])

    def due(self, books):
        return np.full(len(books.working), (books.tick + 1) % self.every == 0)


@dataclass
class Rounds:
    quorum: float = 1.0
    deadline: int | None = None
    late: str = "drop"
    odds: None = None

    def room(self, books):
        return np.where(books.opened < 0, books.working.shape[1], 0)

    def due(self, books):
        ended = (books.asked & ~books.working).sum(axis=1)
        enough = ended >= np.ceil(self.quorum * books.asked.sum(axis=1) - 1e-4)
        return enough if self.deadline is None else enough | (books.tick - books.opened + 1 >= self.deadline)


@dataclass
class Books:
    """What is under way."""

    there: np.ndarray
    working: np.ndarray = field(init=False)
    waiting: np.ndarray = field(init=False)  # has arrived and is not used yet
    void: np.ndarray = field(init=False)  # works on to no use
    asked: np.ndarray = field(init=False)  # in the open round
    left: np.ndarray = field(init=False)
    version: np.ndarray = field(init=False)  # of the model that was sent
    start: np.ndarray = field(init=False)
    opened: np.ndarray = field(init=False)
    steps: np.ndarray = field(init=False)
    tick: int = 0

    def __post_init__(self):
        shape = self.there.shape
        for name in ("working", "waiting", "void", "asked"):
            setattr(self, name, np.zeros(shape, bool))
        for name in ("left", "version", "start"):
            setattr(self, name, np.zeros(shape, int))
        self.opened, self.steps = np.full(shape[0], -1), np.zeros(shape[0], int)


@dataclass
class Seen:
    """Sums by world and client, after the time that is not counted."""

    ticks: int
    used: np.ndarray
    weight: np.ndarray  # of the used updates, by the discount
    averaged: np.ndarray  # the same over the number of answers in the step
    age: np.ndarray
    word: np.ndarray  # age in ticks of the last used word, summed over ticks
    word_square: np.ndarray
    steps: np.ndarray

    def share(self, name="weight"):
        total = getattr(self, name).sum(axis=0)
        return total / total.sum()

    @property
    def rates(self):
        return self.used.sum(axis=0) / (self.ticks * len(self.used))

    @property
    def ticks_per_step(self):
        return self.ticks * len(self.steps) / self.steps.sum()

    @property
    def mean_age(self):
        return self.age.sum(axis=0) / np.maximum(self.used.sum(axis=0), 1)

    def noise(self, name="weight"):
        """Total variation of the share from its mean that chance alone makes, from the differences between worlds."""
        each = getattr(self, name)
        spread = (each / each.sum(axis=1, keepdims=True)).std(axis=0, ddof=1) / np.sqrt(len(each))
        return 0.5 * np.sqrt(2 / np.pi) * spread.sum()


def play(pace, pi, lam, table, leaving="continue", ticks=1500, settle=300, worlds=40, seed=0, exponent=0.0):
    """The long run of a pace; `table` has P(D = 0), P(D = 1), … in a row per client."""
    draw, table = np.random.default_rng(seed), np.asarray(table, float)
    count = len(table)
    pi, lam = np.broadcast_to(pi, count), np.broadcast_to(lam, count)
    wake, sleep = (1 - lam) * pi, (1 - lam) * (1 - pi)
    below = table.cumsum(axis=1)
    books = Books(draw.random((worlds, count)) < pi)
    seen = Seen(ticks, *(np.zeros((worlds, count)) for _ in range(6)), np.zeros(worlds))
    spoken = np.zeros((worlds, count))  # tick of the start of the last used word
    for tick in range(settle + ticks):
        books.tick = tick
        books.there = draw.random((worlds, count)) < np.where(books.there, 1 - sleep, wake)
        start = _chosen(pace, books, draw)
        _start(books, start, (draw.random((worlds, count, 1)) > below).sum(axis=2))
        _work(books, start, leaving)
        due = pace.due(books)[:, None]
        used = due & books.waiting
        if tick >= settle:
            old = books.steps[:, None] - books.version
            trust = used * (1.0 + np.maximum(old, 0)) ** -exponent
            seen.used += used
            seen.weight += trust
            seen.averaged += trust / np.maximum(used.sum(axis=1, keepdims=True), 1)
            seen.age += used * old
            seen.steps += due[:, 0]
        spoken = np.where(used, books.start, spoken)
        if tick >= settle:
            seen.word += tick - spoken
            seen.word_square += (tick - spoken) ** 2
        _close(pace, books, due, used)
    return seen


def _chosen(pace, books, draw):
    idle = books.there & ~books.working & ~books.waiting
    room = pace.room(books)
    keys = draw.standard_exponential(idle.shape) / (1.0 if pace.odds is None else pace.odds)
    keys = np.where(idle, keys, np.inf)
    place = keys.argsort(axis=1).argsort(axis=1)
    return idle & (place < room[:, None])


def _start(books, start, durations):
    books.working |= start
    books.void &= ~start
    books.left = np.where(start, durations, books.left)
    books.version = np.where(start, books.steps[:, None], books.version)
    books.start = np.where(start, books.tick, books.start)
    opening = books.opened < 0
    books.asked = np.where(opening[:, None], start, books.asked)
    books.opened = np.where(opening, books.tick, books.opened)


def _work(books, start, leaving):
    before = books.working & ~start
    if leaving == "pause":
        books.left = books.left - (before & books.there)
    else:
        books.left = np.maximum(books.left - before, 0)
    if leaving == "abort":
        books.working &= books.there
    done = books.working & (books.left <= 0) & (books.there | (leaving == "answer"))
    books.working &= ~done
    books.waiting |= done & ~books.void


def _close(pace, books, due, used):
    books.waiting &= ~used
    books.steps += due[:, 0]
    if isinstance(pace, Rounds):
        if pace.late == "drop":
            books.void |= due & books.working
        books.opened = np.where(due[:, 0], -1, books.opened)
