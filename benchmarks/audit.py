"""How long an audit takes: ten strategies, 1,000 clients, 10,000 rounds, from a cold start and once compiled.

    python benchmarks/audit.py [--clients 1000] [--rounds 10000]

Each start is a process of its own, timed from its first line to its last, with a compilation cache of its own: empty at
the first start, filled at the second. The third figure is a second audit within a process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

AUDIT = """
import sys, time, json
start = time.perf_counter()
import numpy as np
import turnout
from turnout import availability, strategies as s

turnout.use_compilation_cache()
clients, rounds = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
pi, lam = rng.uniform(0.1, 0.9, clients), np.where(rng.random(clients) < 0.5, 0.9, 0.0)
world = turnout.World(availability.markov(clients, pi=pi.tolist(), lam=lam.tolist()))
few = max(1, clients // 10)
ten = [s.FedAvg(), s.Unbiased(), s.AdaFed(), s.CAFed(), s.FedAU(), s.Debiased(), s.MIFA(), s.FedVARP(),
       s.FedLaAvg(cohort=few), s.F3AST(cohort=few)]
importance = rng.uniform(0.5, 1.5, clients).tolist()
found = turnout.audit(world, ten, importance=importance, rounds=rounds)
first = time.perf_counter() - start
begin = time.perf_counter()
found = turnout.audit(world, ten, importance=importance, rounds=rounds)
print(json.dumps({
    "whole": first,
    "again": time.perf_counter() - begin,
    "entries": [[e.label, e.consistent, e.total_variation, e.noise] for e in found.entries],
}))
"""


def start(clients: int, rounds: int, cache: str) -> dict:
    """One process; its own seconds, and the wall clock's with the interpreter's start."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", AUDIT, str(clients), str(rounds)]
    surroundings = os.environ | {"TURNOUT_CACHE": cache}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found | {"wall": time.perf_counter() - begin - found["again"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = start(given.clients, given.rounds, cache), start(given.clients, given.rounds, cache)
    count = len(cold["entries"])
    print(f"{count} strategies, {given.clients:,} clients, {given.rounds:,} rounds, {os.cpu_count()} cores")
    print(f"cold start, nothing compiled       {cold['wall']:6.1f} s")
    print(f"new process, compiled before       {warm['wall']:6.1f} s   {cold['wall'] / warm['wall']:.1f} times faster")
    print(f"again in the same process          {warm['again']:6.1f} s")
    for label, consistent, distance, noise in warm["entries"]:
        print(f"  {label:12} {'consistent' if consistent else 'biased':11} {100 * distance:6.2f} % off", end="")
        print(f" (chance {100 * noise:.2f} %)" if noise else " (exact)")


if __name__ == "__main__":
    main()
