"""A memory of all clients' updates that is rebuilt from a few of them, as in FedSteer, beside a whole and a packed one.

    python benchmarks/rebuilt_memory.py KIND [--core 10] [--rate 0.1] [--seeds 5]

The server steps by inverse frequency as FedStale with β = 1, w ← w - Σ_S α/p (G - Q) - Σ α Q, where Q stands for the
last update of each client: `none` (0), `whole`, `packed` (8 bits), `given` (rebuilt from the last updates of core
clients by the coordinates of the client's own last one, with FedSteer's λ = 0.5), `plain` (λ = 0) or `scaled` (λ half
of the mean square of the core's updates). Synthetic LEAF data of 100 clients, half of them there in 60 % of the rounds
and half in 10 %; p is known. Printed are loss and accuracy over the last of 300 rounds, on the clients' data.
"""

import argparse

import numpy as np

COUNT, FEATURES, CLASSES, ROUNDS, STEPS, BATCH = 100, 60, 10, 300, 5, 10
LAMBDA = 0.5


def clients(seed):
    draw, spread = np.random.default_rng(seed), np.sqrt(np.arange(1, FEATURES + 1) ** -1.2)
    found = []
    for _ in range(COUNT):
        level, middle = draw.normal(), draw.normal()
        mean = draw.normal(middle, 1, FEATURES)
        weights, bias = draw.normal(level, 1, (FEATURES, CLASSES)), draw.normal(level, 1, CLASSES)
        size = min(int(draw.lognormal(3.5, 0.7)) + 30, 300)
        inputs = mean + draw.normal(size=(size, FEATURES)) * spread
        found.append((np.hstack([inputs, np.ones((size, 1))]), (inputs @ weights + bias).argmax(1)))
    return found


def odds(model, inputs):
    scores = inputs @ model.reshape(-1, CLASSES)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def gradient(model, inputs, labels):
    surplus = odds(model, inputs)
    surplus[np.arange(len(labels)), labels] -= 1
    return (inputs.T @ surplus / len(labels)).ravel()


def quality(model, data):
    each = [(odds(model, inputs), labels) for inputs, labels in data]
    loss = [-np.log(p[np.arange(len(labels)), labels] + 1e-12).mean() for p, labels in each]
    return np.mean(loss), np.mean([(p.argmax(1) == labels).mean() for p, labels in each])


def choose_core(data, rates, size):
    """One after another, whose first gradient says most of what the others' leave open, by their variance."""
    left = np.stack([gradient(np.zeros((FEATURES + 1) * CLASSES), *own) for own in data])
    core = []
    for _ in range(size):
        units = left / (np.linalg.norm(left, axis=1, keepdims=True) + 1e-12)
        gain = ((left @ units.T) ** 2 / rates[:, None]).sum(0)
        gain[core] = -1
        core.append(int(gain.argmax()))
        left = left - np.outer(left @ units[core[-1]], units[core[-1]])
    return core


class Memory:
    """What stands for the last update of every client."""

    def __init__(self, kind, core):
        self.kind, self.core = kind, core
        self.last = np.zeros((COUNT, (FEATURES + 1) * CLASSES))
        self.coordinates = np.zeros((COUNT, len(core)))

    def rows(self, fresh):
        """Q, for which the rebuilt kinds need the fresh updates."""
        if self.kind == "none":
            return 0 * self.last
        if self.kind == "whole":
            return self.last.copy()
        if self.kind == "packed":
            unit = np.abs(self.last).max(1, keepdims=True) / 127 + 1e-30
            return np.round(self.last / unit) * unit
        basis = self.last[self.core].T / len(self.core)
        products = basis.T @ basis
        scale = {"given": LAMBDA, "plain": 0.0, "scaled": LAMBDA * np.trace(products) / len(self.core) + 1e-12}
        solve = np.linalg.pinv(products + scale[self.kind] * np.eye(len(self.core))) @ basis.T
        for client, update in fresh.items():
            self.coordinates[client] = solve @ update
        return self.coordinates @ basis.T


def play(kind, size, rate, seed):
    data, draw = clients(seed), np.random.default_rng(1000 + seed)
    rates = np.where(np.arange(COUNT) % 2 == 0, 0.6, 0.1)
    memory, model, ends = Memory(kind, choose_core(data, rates, size)), np.zeros((FEATURES + 1) * CLASSES), []
    for t in range(ROUNDS):
        fresh = {}
        for client in np.flatnonzero(draw.random(COUNT) < rates):
            inputs, labels = data[client]
            local = model.copy()
            for _ in range(STEPS):
                batch = draw.integers(len(labels), size=BATCH)
                local -= rate * gradient(local, inputs[batch], labels[batch])
            fresh[client] = model - local
        stale = memory.rows(fresh)
        step = stale.mean(0)
        for client, update in fresh.items():
            step = step + (update - stale[client]) / (COUNT * rates[client])
            memory.last[client] = update
        model = model - step
        if t >= ROUNDS - 20 and t % 5 == 0:
            ends.append(quality(model, data))
    return np.mean(ends, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("none", "whole", "packed", "given", "plain", "scaled"))
    parser.add_argument("--core", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    for seed in range(10, 10 + given.seeds):
        loss, accuracy = play(given.kind, given.core, given.rate, seed)
        print(
            f"{given.kind}, core {given.core}, seed {seed}: loss {loss:.4f}, accuracy {100 * accuracy:.2f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
