"""The rules of strategies made for work that takes time, line by line, for the plain loops of `played_in_time.py`.

Each is a function of (model, Step) that returns the model after the step.
"""

from collections import defaultdict

import numpy as np


def fedbuff(model, step):
    """Line by line: add s(τ) N α Δ to a sum, then take 1/K of it."""
    total = 0.0 * model
    for job in step.jobs:
        fair = step.fleet.count * step.fleet.share[job.client]
        total = total + fair * job.update(step.fleet) / (1 + step.age(job)) ** 0.5
    return model + total / (step.goal or max(len(step.jobs), 1))


def fedasync(discount):
    """(1 - a) w + a w_i; of several in one tick each has its share of what they mix in one after another."""

    def step_of(model, step):
        rates, models, left = [], [], 1.0
        for job in step.jobs:
            rates.append(min(1.0, 0.3 * discount(step.age(job)) * step.fleet.count * step.fleet.share[job.client]))
            models.append(job.start + job.update(step.fleet))
            left *= 1.0 - rates[-1]
        if not rates:
            return model
        after = left * model
        for a, other in zip(rates, models, strict=True):
            after = after + (1.0 - left) * a / sum(rates) * other
        return after

    return step_of


def fedfix(model, step):
    """Each update times the steps of the server that have passed from its start to its use, this one included."""
    return model + sum(
        (step.fleet.share[j.client] * (step.age(j) + 1) * j.update(step.fleet) for j in step.jobs), 0.0 * model
    )


class Ace:
    """One word per client; an arrival replaces it and moves the model, M of K at once."""

    def __init__(self, within=np.inf, divides=False):
        self.words, self.within, self.divides = {}, within, divides

    def __call__(self, model, step):
        for job in step.jobs:
            self.words[job.client] = job.version, job.update(step.fleet) / job.lr
        steps = len(step.jobs) / (step.goal or max(len(step.jobs), 1))
        used = {k: word for k, (version, word) in self.words.items() if step.version - version <= self.within}
        share = sum(step.fleet.share[k] for k in used) if self.divides else 1.0
        return model + steps * step.lr * sum(
            (step.fleet.share[k] / share * word for k, word in used.items()), 0 * model
        )


class Ca2fl:
    """h from before the buffer, for all clients; changes are added as they come."""

    def __init__(self):
        self.h = None

    def __call__(self, model, step):
        if self.h is None:
            self.h = np.zeros((step.fleet.count, len(model)))
        if not step.jobs:
            return model
        mean, total = step.fleet.share @ self.h, 0.0 * model
        for job in step.jobs:
            fresh = job.update(step.fleet) / job.lr
            total = total + step.fleet.count * step.fleet.share[job.client] * (fresh - self.h[job.client])
            self.h[job.client] = fresh
        return model + step.lr * (mean + total / len(step.jobs))


class Area:
    """Each client keeps the model with which it ended and sends how far the next one is from it."""

    def __init__(self):
        self.kept = {}

    def __call__(self, model, step):
        if not self.kept:
            self.kept = {k: model for k in range(step.fleet.count)}
        after = model
        for job in step.jobs:
            ended = job.start + job.update(step.fleet)
            after = after + step.fleet.share[job.client] * (ended - self.kept[job.client])
            self.kept[job.client] = ended
        return after


class FedStaleAsync:
    """Every line of the rule for every client in every step; h, the versions and b by lists."""

    def __init__(self, fresh, stale, rates=None, cutoff=50):
        self.a, self.b, self.rates, self.cutoff = fresh, stale, rates, cutoff
        self.h, self.about, self.since = {}, {}, {}
        self.gap, self.closed = defaultdict(int), defaultdict(list)

    def __call__(self, model, step):
        came = {job.client: job for job in step.jobs}
        after = model
        for k in range(step.fleet.count):
            p = 1 / np.mean(self.closed[k] or [1.0]) if self.rates is None else self.rates[k]
            part, h = 0.0 * model, self.h.get(k, 0.0 * model)
            if k in self.h:
                self.since[k].append(self.b(step.version - self.about[k]))
                part = part + self.since[k][-1] * h
            if k in came:
                fresh = came[k].update(step.fleet) / came[k].lr
                part = part + self.a(step.age(came[k])) / p * fresh
                if k in self.h:
                    part = part - np.mean(self.since[k]) / p * h
                self.h[k], self.about[k], self.since[k] = fresh, came[k].version, []
            self.gap[k] += 1
            if k in came or self.gap[k] >= self.cutoff:
                self.closed[k].append(self.gap[k])
                self.gap[k] = 0
            after = after + step.lr * step.fleet.share[k] * part
        return after if came else model


class DelayAdaptive:
    """An update older than usual counts by usual / age; usual is the mean of all ages so far, or given."""

    def __init__(self, usual=None):
        self.ages, self.usual = [], usual

    def __call__(self, model, step):
        self.ages += [step.age(job) for job in step.jobs]
        after = model
        for job in step.jobs:
            usual = sum(self.ages) / len(self.ages) if self.usual is None else self.usual
            factor = 1.0 if step.age(job) <= usual else usual / step.age(job)
            fair = step.fleet.count * step.fleet.share[job.client]
            after = after + factor * fair * job.update(step.fleet) / (step.goal or len(step.jobs))
        return after


class FairChoice:
    """All updates count alike; those are asked that have come least for their target."""

    def __init__(self):
        self.came = defaultdict(int)

    def choose(self, idle, room, fleet):
        """Whom to ask of the idle, at most `room`."""
        order = sorted(np.flatnonzero(idle), key=lambda k: (self.came[k] + 1) / fleet.share[k])
        return np.isin(np.arange(fleet.count), order[:room])

    def __call__(self, model, step):
        for job in step.jobs:
            self.came[job.client] += 1
        updates = [job.update(step.fleet) / (step.goal or len(step.jobs)) for job in step.jobs]
        return model + sum(updates, 0.0 * model)
