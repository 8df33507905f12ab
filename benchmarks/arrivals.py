"""Seconds per simulated arrival, beside the asynchronous simulators of FLGo and APPFL, in turns in one run.

    python benchmarks/arrivals.py [--flgo PYTHON] [--appfl PYTHON] [--turns 5] [--store]

PYTHON is that of an environment with that library: see `async_peers.py`, which also says what the work is. Every turn
lets each contender simulate some hundred arrivals, ours some thousand: whole calls, without compilation and without the
first turn. Printed are medians, of the wall's clock and of the processor's time over all threads, which a busy machine
changes less. `--store` keeps the numbers for docs/performance.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np

import turnout
from turnout import availability, durations, strategies, tasks

TICKS = 600  # of one turn of ours
STORED = Path(__file__).parents[1] / "docs" / "results" / "arrivals.json"
Turn = Callable[[], tuple[float, float]]  # microseconds per arrival: of the wall's clock and of the processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flgo", metavar="PYTHON")
    parser.add_argument("--appfl", metavar="PYTHON")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    with ExitStack() as open_peers:
        turns: dict[str, Turn] = {f"turnout, jax {version('jax')}": ours()}
        for library in ("flgo", "appfl"):
            if (python := getattr(given, library)) is not None:
                name, turn = open_peers.enter_context(peer(python, library))
                turns[name] = turn
        taken = {name: [] for name in turns}
        for _ in range(given.turns):
            for name, turn in turns.items():
                taken[name].append(turn())
    own = np.median(next(iter(taken.values())), axis=0)
    rows = {}
    for name, each in taken.items():
        wall, processor = np.median(each, axis=0)
        rows[name] = {"wall": wall, "processor": processor, "times": processor / own[1], "times of wall": wall / own[0]}
        shown = f"{wall:12.1f} µs per arrival{processor:12.1f} of the processor"
        print(f"{name:44}{shown}{wall / own[0]:10.1f} and {processor / own[1]:.1f} times ours")
    if given.store:
        about = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "turns": given.turns}
        about |= {"load": round(os.getloadavg()[0])}
        STORED.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def ours() -> Turn:
    """FedBuff on the same work."""
    count = 100
    task = tasks.synthetic_leaf(num_clients=count, samples_per_client=112, validation=0.1, test=0.1)
    world = turnout.World(availability.bernoulli(count, 1.0), durations=durations.drawn(count, 5.0, 0.9, 1, 20, seed=3))
    local = turnout.Local(learning_rate=0.05, batch_size=32)

    def turn() -> tuple[float, float]:
        began = time.perf_counter(), time.process_time()
        run = turnout.simulate(
            task,
            world,
            strategies.FedBuff(),
            rounds=TICKS,
            local=local,
            pace=turnout.Buffered(10),
            evaluate_every=TICKS,
        )
        arrivals = float(run.records["used"].sum())
        return 1e6 * (time.perf_counter() - began[0]) / arrivals, 1e6 * (time.process_time() - began[1]) / arrivals

    turn()
    return turn


@contextmanager
def peer(python: str, library: str) -> Iterator[tuple[str, Turn]]:
    """The process of a library, which answers every line with seconds and arrivals."""
    command = [python, str(Path(__file__).with_name("async_peers.py")), library]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        if not name:
            sys.exit(f"{library}: {' '.join(command)} did not start: see what it said above")

        def turn() -> tuple[float, float]:
            print(file=process.stdin, flush=True)
            wall, processor, arrivals = map(float, process.stdout.readline().split())
            return 1e6 * wall / arrivals, 1e6 * processor / arrivals

        yield name, turn
        process.stdin.close()


if __name__ == "__main__":
    main()
