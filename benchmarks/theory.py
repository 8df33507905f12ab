"""Time and error of the closed forms in turnout.theory.

    python benchmarks/theory.py            # about a minute

The reference for minimum separation adds positive terms only, in extended precision (80 bits where the machine has
them), so its own relative error is at most a few N times 5e-20. It shares nothing with what it measures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from turnout.theory import minimum_separation, second_eigenvalue, separation_curve, stationary_law

SAMPLED = 5  # clients of the large fleet that are checked


def main() -> None:
    for name, p in small_fleets():
        all_separations(name, p)
    for name, p in large_fleets():
        large_fleet(name, p)
    chains()


def small_fleets() -> list[tuple[str, np.ndarray]]:
    draw = np.random.default_rng(0)
    return [
        ("Dirichlet(1)", draw.dirichlet(np.ones(500))),
        ("i^-1.5", np.arange(1, 501) ** -1.5),
        ("i^-4", np.arange(1, 501) ** -4.0),
    ]


def large_fleets() -> list[tuple[str, np.ndarray]]:
    draw = np.random.default_rng(0)
    return [("Pareto(1.5)", draw.pareto(1.5, 100_000) + 0.01), ("i^-1.5", np.arange(1, 100_001) ** -1.5)]


def all_separations(name: str, p: np.ndarray) -> None:
    """N = 500, B = 1, every R from 0 to 499."""
    began = time.perf_counter()
    curve = separation_curve(p)
    took = time.perf_counter() - began
    inclusions = curve * np.arange(1, 501)[:, None]
    # A tilt for each size keeps the reference in range; one tilt serves the sizes around it.
    worst, relative = 0.0, 0.0
    for first in range(1, 500, 50):
        sizes = range(first, min(first + 50, 500))
        expected = inclusions_in_extended_precision(p, sizes, range(500))
        error = np.abs(inclusions[first - 1 : first - 1 + len(sizes)] - expected)
        worst, relative = max(worst, float(error.max())), max(relative, float((error / expected).max()))
    print(f"N = 500, every R, {name}: {took:.2f} s; error of (R+1) π_R: {worst:.1e} absolute, {relative:.1e} relative")


def large_fleet(name: str, p: np.ndarray) -> None:
    """N = 100,000, B = 100, R = 50."""
    began = time.perf_counter()
    shares = minimum_separation(p, batch=100, separation=50)
    took = time.perf_counter() - began
    chosen = np.argsort(p)[np.linspace(0, p.size - 1, SAMPLED).astype(int)]
    expected = inclusions_in_extended_precision(p, [5100], chosen)[0]
    error = np.abs(5100 * shares[chosen] - expected)
    # I_{n+1}(i) = slope_i (1 - I_n(i)) for every client: the error of I_n and I_{n+1} that explains what is left.
    slope = 5101 * p / (p * (1 - 5100 * shares)).sum()
    left = 5101 * minimum_separation(p, 1, 5100) - slope * (1 - 5100 * shares)
    identity = np.abs(left / (1 + slope)).max()
    print(
        f"N = 100,000, B = 100, R = 50, {name}: {took:.2f} s; error of n π_R: {error.max():.1e} absolute, "
        f"{(error / expected).max():.1e} relative ({SAMPLED} clients); Σ π - 1 = {shares.sum() - 1:.1e}; "
        f"identity between n and n + 1: {identity:.1e}"
    )


def inclusions_in_extended_precision(
    p: np.ndarray, sizes: Sequence[int], clients: Sequence[int] | np.ndarray
) -> np.ndarray:
    """Inclusion probabilities, a row a size: laws of Bernoulli sums without one client, one unit added at a time."""
    odds = p.astype(np.longdouble) * tilt(p, sizes[len(sizes) // 2])
    q, rest = odds / (1 + odds), 1 / (1 + odds)
    clients = np.asarray(clients)
    without = np.zeros((clients.size, max(sizes) + 1), dtype=np.longdouble)
    without[:, 0] = 1
    for unit in range(p.size):
        kept = without[clients == unit].copy()
        moved = q[unit] * without[:, :-1]
        without *= rest[unit]
        without[:, 1:] += moved
        without[clients == unit] = kept
    inside = [q[clients] * without[:, n - 1] for n in sizes]
    return np.array([i / (i + rest[clients] * without[:, n]) for i, n in zip(inside, sizes, strict=True)])


def tilt(p: np.ndarray, n: int) -> float:
    """A factor of the odds at which the expected number of units is near n; any would do."""
    low, high = -60.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        odds = np.exp(middle) * p / p.max()
        low, high = (middle, high) if (odds / (1 + odds)).sum() < n else (low, middle)
    return float(np.exp(low) / p.max())


def chains() -> None:
    """100,000 states: a cycle whose gap is known, and one with a drift whose law is known."""
    size = 100_000
    here = np.arange(size)
    cycle = sp.csr_array(
        (np.full(2 * size, 0.5), (np.tile(here, 2), np.r_[(here + 1) % size, (here - 1) % size])), shape=(size, size)
    )
    lazy = sp.csr_array(0.5 * cycle + 0.5 * sp.eye_array(size))
    began = time.perf_counter()
    gap = 1 - second_eigenvalue(lazy)
    exact = (1 - np.cos(2 * np.pi / size)) / 2
    print(f"spectral gap of {size} states on a cycle: {time.perf_counter() - began:.2f} s, {gap:.6e} of {exact:.6e}")
    stay = np.random.default_rng(0).random(size) / 2
    ahead = sp.csr_array((np.ones(size), (here, (here + 1) % size)), shape=(size, size))
    drift = sp.csr_array(sp.diags_array(stay) + sp.diags_array(1 - stay) @ (0.6 * cycle + 0.4 * ahead))
    began = time.perf_counter()
    law = stationary_law(drift)
    took, exact_law = time.perf_counter() - began, 1 / (1 - stay) / np.sum(1 / (1 - stay))
    error = np.abs(law / exact_law - 1).max()
    print(f"stationary law of {size} states with a drift: {took:.2f} s, relative error {error:.1e}")


if __name__ == "__main__":
    main()
