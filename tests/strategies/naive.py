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

    def __init__(self, alpha, pi, lam, bias, memory=0.0, tolerance=0.0, unseen="first"):
        self.alpha, self.pi, self.lam = alpha, pi, lam
        self.bias, self.memory, self.tolerance, self.unseen = bias, memory, tolerance, unseen
        self.loss, self.best = {}, {}

    def weights(self, available, losses):
        here = [k for k, is_here in enumerate(available) if is_here]
        if here and not self.loss and self.unseen == "first":
            mean = sum(losses[k] for k in here) / len(here)
            self.loss = {k: losses[k] if k in here else mean for k in range(len(self.alpha))}
            self.best = dict(self.loss)
        for k in here:
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


class NaiveF3AST:
    """The server of F3AST: rates of selection, and the weights it gives in a round."""

    def __init__(self, p, rate, beta, power):
        self.p, self.rate, self.beta, self.power = p, list(rate), beta, power

    def weights(self, available, budget, luck):
        utility = [p**self.power / r**2 * (1 + 1e-5 * u) ** 2 for p, r, u in zip(self.p, self.rate, luck, strict=True)]
        here = sorted((k for k, is_here in enumerate(available) if is_here), key=lambda k: -utility[k])
        chosen = set(here[:budget])
        self.rate = [(1 - self.beta) * r + self.beta * (k in chosen) for k, r in enumerate(self.rate)]
        return [self.p[k] / self.rate[k] if k in chosen else 0.0 for k in range(len(self.p))]


def ocs(lengths, budget):
    """Probabilities of optimal client sampling, by trying every l."""
    n = len(lengths)
    m = min(budget, n)
    order = sorted(range(n), key=lambda k: lengths[k])
    best = None
    for number in range(1, n + 1):
        total = sum(lengths[k] for k in order[:number])
        if m + number - n > 0 and (m + number - n) * lengths[order[number - 1]] <= total * (1 + 1e-12):
            best = number, total
    if best is None:
        return []
    number, total = best
    odds = [1.0] * n
    for k in order[:number]:
        odds[k] = (m + number - n) * lengths[k] / total if total > 0 else float(m == n)
    return odds


def aocs(lengths, budget, iterations=4):
    """Probabilities of its approximation, with the stopping rule of the paper."""
    n, whole = len(lengths), sum(lengths)
    m = min(budget, n)
    odds = [min(1.0, m * u / whole) for u in lengths]
    for _ in range(iterations):
        below = [p for p in odds if p < 1]
        scale = (m - n + len(below)) / sum(below) if sum(below) > 0 else 1.0
        odds = [min(1.0, scale * p) if p < 1 else p for p in odds]
        if scale <= 1:
            break
    return odds


def fedacs_odds(omega, success, reach, available):
    """Equation 15 over the available."""
    raw = [w / (s * a) if here else 0.0 for w, s, a, here in zip(omega, success, reach, available, strict=True)]
    return [value / sum(raw) if sum(raw) > 0 else 0.0 for value in raw]
