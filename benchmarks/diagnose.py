"""Time and memory to read a participation log of many rows, and to examine it.

    python benchmarks/diagnose.py                         # 10 million rows of round,client
    python benchmarks/diagnose.py --rows 1000000 --clients 1000000

The log is written to a temporary folder first: every round a random part of the clients comes, under names of 10 to 15
letters. Reading is timed in a process of its own, imports apart, and its peak memory is what the system reports for
that process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

CHILD = """
import json, resource, sys, time
import polars
from turnout import read_log
from turnout.workbench import examine
begin, cpu = time.perf_counter(), time.process_time()
log = read_log(sys.argv[1])
result = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
result |= {"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
begin = time.perf_counter()
examine(log)
result |= {"examined": time.perf_counter() - begin}
result |= {"peak_examined": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
result |= {"clients": log.num_clients, "rounds": log.num_slots, "participations": int(log.present.length.sum())}
print(json.dumps(result | {"warnings": list(log.warnings)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("csv", "parquet"):
            path = write(Path(folder) / f"log.{kind}", options.rows, options.clients)
            size = path.stat().st_size / 2**20
            for _ in range(options.repeats):
                child = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True)
                found = json.loads(child.stdout)
                print(
                    f"{kind}, {size:.0f} MiB, {found['participations']:,} rows of {found['clients']:,} clients: "
                    f"{found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU), peak {found['peak_gib']:.2f} GiB; "
                    f"then examined in {found['examined']:.1f} s, peak {found['peak_examined']:.2f} GiB"
                )


def write(path: Path, rows: int, clients: int) -> Path:
    """Rows by round; in every round each client comes once at most, so that none is a duplicate."""
    draw = np.random.default_rng(0)
    a_round = max(1, clients // 10)
    rounds = -(-rows // a_round)
    client = np.concatenate([draw.permutation(clients)[:a_round] for _ in range(rounds)])[:rows]
    number = np.repeat(np.arange(rounds), a_round)[:rows]
    frame = pl.DataFrame({"round": number, "client": client}).select(
        "round", pl.format("client-{}-{}", "client", pl.col("client") % 97).alias("client")
    )
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


if __name__ == "__main__":
    main()
