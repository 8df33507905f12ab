"""A million clients with 1,000 participants per round: milliseconds per round and peak memory, one process each.

    python benchmarks/million.py                            # every strategy, an audit and a diagnosis
    python benchmarks/million.py --only FedAvg              # one of them
    python benchmarks/million.py --store docs/results/million.json

The linear task of `simulator.py`: 10 samples per client in one pool, 5 steps of batch 8. A strategy that draws a cohort
draws 1,000 of the half of the fleet that is there. One that takes everybody who is there meets 1,000 on average. A
round's time is the difference of two lengths of run, after compilation, the quickest of three each: `ms` by the clock,
`cpu_ms` of all threads together, which says more where other programs keep the machine busy. Memory is what the system
reports for the whole process, compilation included. Strategies with a model per client are named with the memory that
they would need, and not run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from simulator import RATE, STEPS, fleet_of
from turnout import diagnose
from turnout import strategies as s
from turnout.auditor import audit
from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.simulator.programs import use_compilation_cache
from turnout.types import Fleet
from turnout.workbench.diagnosis.reading.log import Log, Runs
from turnout.world import World

CLIENTS, COHORT = 10**6, 1000
SERVER = {"FedAvg with rests": {"rest": 10}}  # settings, where they are not the usual ones
DRAWING = {
    "FedAvg": s.FedAvg(cohort=COHORT),
    "FedAU": s.FedAU(cohort=COHORT),
    "FedNova": s.FedNova(cohort=COHORT),
    "F3AST": s.F3AST(cohort=COHORT),
    "FedACS": s.FedACS(cohort=COHORT),
    "CAFedAvg": s.CAFedAvg(cohort=COHORT),
    "UniformSampling": s.UniformSampling(cohort=COHORT),
    "FedAvg with rests": s.FedAvg(cohort=COHORT),
    "FedLaAvg": s.FedLaAvg(cohort=COHORT),
    "StaleFill": s.StaleFill(cohort=COHORT),
    "FedVARP": s.FedVARP(cohort=COHORT),
    "LastWord": s.LastWord(cohort=COHORT),
}
TAKING_ALL = {
    "Unbiased": s.Unbiased(),
    "MoreAvailable": s.MoreAvailable(),
    "AdaFed": s.AdaFed(),
    "Debiased": s.Debiased(),
    "CAFed": s.CAFed(),
    "ImportanceSampling": s.ImportanceSampling(cohort=COHORT // 2),
    "NormSampling": s.NormSampling(cohort=COHORT // 2),
    "OptimalSampling": s.OptimalSampling(cohort=COHORT // 2),
    "MIFA": s.MIFA(),
    "FedAWE": s.FedAWE(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=[*DRAWING, *TAKING_ALL, "audit", "diagnosis"])
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the numbers there, beside those of others")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measured(options.alone) | {"peak_gib": peak()}))
        return
    print(f"N = {CLIENTS:,}, {COHORT:,} participants, {os.cpu_count()} cores, jax {jax.__version__}")
    for name in options.only or [*DRAWING, *TAKING_ALL, "audit", "diagnosis"]:
        command = [sys.executable, __file__, "--alone", name]
        row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        print(f"  {name:20} {'  '.join(f'{key} {value:g}' for key, value in row.items())}", flush=True)
        if options.store:
            store(options.store, name, row)


def store(file: Path, name: str, row: dict[str, float]) -> None:
    """Write a row beside those of others, with how busy the machine was."""
    rows = json.loads(file.read_text())["rows"] if file.exists() else {}
    about = {"machine": f"{os.cpu_count()} cores", "command": "python benchmarks/million.py"}
    rows[name] = row | {"load": round(os.getloadavg()[1], 1)}
    file.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def measured(name: str) -> dict[str, float]:
    use_compilation_cache()
    if name == "audit":
        return audited()
    if name == "diagnosis":
        return diagnosed()
    pi = 0.5 if name in DRAWING else COHORT / CLIENTS
    return trained({**DRAWING, **TAKING_ALL}[name], pi, SERVER.get(name, {}))


def trained(strategy: s.Strategy, pi: float, server: dict[str, float]) -> dict[str, float]:
    params = eqx.filter_eval_shape(fleet_of(10).init, jr.key(0))
    if rows := rows_remembered(strategy, Fleet(jnp.ones(CLIENTS)), params):
        return {"needs_gib": round(rows / 2**30, 2)}
    task = fleet_of(CLIENTS)
    world, local = World(bernoulli(CLIENTS, pi), compute=STEPS), Local(learning_rate=RATE, batch_size=8)

    def run(rounds: int) -> None:
        options = {"rounds": rounds, "evaluate_every": rounds, "metrics": ["test_accuracy"]}
        simulate(task, world, strategy, local=local, **options, **server)

    return per_round(run, 5, 30)


def rows_remembered(strategy: s.Strategy, fleet: Fleet, params: object) -> int:
    """Bytes of a state with one model per client, 0 for one with a few numbers per client."""
    shapes = jax.tree.leaves(eqx.filter_eval_shape(strategy.init, fleet, params))
    arrays = [leaf for leaf in shapes if isinstance(leaf, jax.ShapeDtypeStruct)]
    has_models = any(leaf.ndim > 1 and leaf.shape[0] == fleet.num_clients for leaf in arrays)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in arrays) if has_models else 0


def per_round(run: Callable[[int], object], short: int, long: int, repeats: int = 3) -> dict[str, float]:
    """Milliseconds of the clock and of all threads together, from the quickest run of each of two lengths."""
    quickest = {}
    for rounds in (short, long):
        run(rounds)  # each length may have a program of its own, by its largest crowd
        clock, threads = zip(*(_seconds(run, rounds) for _ in range(repeats)), strict=True)
        quickest[rounds] = min(clock), min(threads)
    each = [1e3 * (most - least) / (long - short) for least, most in zip(*quickest.values(), strict=True)]
    return {"ms": round(each[0], 1), "cpu_ms": round(each[1], 1)}


def _seconds(run: Callable[[int], object], rounds: int) -> tuple[float, float]:
    clock, threads = time.perf_counter(), time.process_time()
    run(rounds)
    return time.perf_counter() - clock, time.process_time() - threads


def audited() -> dict[str, float]:
    """The audit of FedAvg with a cohort."""
    world, strategy = World(bernoulli(CLIENTS, 0.5), compute=STEPS), s.FedAvg(cohort=COHORT)
    return per_round(lambda rounds: audit(world, strategy, rounds=rounds), 25, 125)


def diagnosed(rounds: int = 1000) -> dict[str, float]:
    """A log of 1,000 participants per round, all findings, a fitted world and its likeness; without a ranking."""
    draw = np.random.default_rng(0)
    clients = np.concatenate([draw.choice(CLIENTS, COHORT, replace=False) for _ in range(rounds)])
    slots = np.repeat(np.arange(rounds), COHORT)
    names = np.array([f"client {number}" for number in range(CLIENTS)])
    log = Log(names, rounds, Runs.merge(clients, slots, slots + 1))
    begin = time.perf_counter()
    diagnose(log, rounds=0)
    return {"seconds": round(time.perf_counter() - begin, 1), "rounds": rounds}


if __name__ == "__main__":
    main()
