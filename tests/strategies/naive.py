"""Algorithms as their papers print them, client by client in plain Python: slow, and plain to check."""

import math


def bias_error(alpha, pi, q, gap, bias):
    """ε of CA-Fed, equation 20, with `bias` for 4κ̄²."""
    mass = sum(p * w for p, w in zip(pi, q, strict=True))
    p = [rate * w / mass for rate, w in zip(pi, q, strict=True)]
    distance = 0.5 * sum(abs(a - b) for a, b in zip(alpha, p, strict=True))
    return sum(g * b for g, b in zip(gap, p, strict=True)) + bias * distance**2 * max(gap)


def ca_fed_prune(alpha, pi, q, gap, bias, tolerance, units):
    """One pass of algorithm 1 over units of clients, usually one client each."""
    current = bias_error(alpha, pi, q, gap, bias)
    for unit in units:
        without = [0.0 if k in unit else w for k, w in enumerate(q)]
        if all(w == 0 for w in without):
            break
        if without == q:
            continue
        error = bias_error(alpha, pi, without, gap, bias)
        if current - error >= tolerance:
            q, current = without, error
    return q


def ca_fed_kept(alpha, pi, lam, gap, bias, tolerance, clusters=None):
    """Lines 5 to 7 of algorithm 1: which clients have a weight in the end."""
    clients = range(len(alpha))
    q = [alpha[k] / pi[k] if pi[k] > 0 else 0.0 for k in clients]
    names = list(clients) if clusters is None else sorted(set(clusters))
    members = {c: {k for k in clients if (k if clusters is None else clusters[k]) == c} for c in names}
    by_runs = sorted(names, key=lambda c: -max(abs(lam[k]) for k in members[c]))
    q = ca_fed_prune(alpha, pi, q, gap, bias, tolerance, [members[c] for c in by_runs])
    by_rate = sorted(names, key=lambda c: min(pi[k] for k in members[c]))
    q = ca_fed_prune(alpha, pi, q, gap, bias, tolerance, [members[c] for c in by_rate])
    return [w > 0 for w in q]


class NaiveCAFed:
    """The server of CA-Fed: what it remembers, and the weights it gives in a round."""

    def __init__(self, alpha, pi, lam, bias, memory=0.0, tolerance=0.0):
        self.alpha, self.pi, self.lam = alpha, pi, lam
        self.bias, self.memory, self.tolerance = bias, memory, tolerance
        self.loss, self.best = {}, {}

    def weights(self, available, losses):
        for k in (k for k, here in enumerate(available) if here):
            before = self.loss.get(k, losses[k])
            self.loss[k] = self.memory * before + (1 - self.memory) * losses[k]
            self.best[k] = min(self.best.get(k, math.inf), self.loss[k])
        count = max(1, len(self.loss))
        mean_loss, mean_best = sum(self.loss.values()) / count, sum(self.best.values()) / count
        clients = range(len(self.alpha))
        gap = [self.loss.get(k, mean_loss) - self.best.get(k, mean_best) for k in clients]
        kept = [True] * len(gap)
        if max(gap) > 0:
            kept = ca_fed_kept(self.alpha, self.pi, self.lam, gap, self.bias, self.tolerance)
        return [self.alpha[k] / self.pi[k] if kept[k] and available[k] else 0.0 for k in clients]
