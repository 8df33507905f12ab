"""Good files of every kind that the library reads, and how each is read."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from turnout.availability.recorded.phones import flash, stunner
from turnout.availability.trace import trace
from turnout.files.integrity import read_npz, reading
from turnout.tasks.cifar10 import RECORD, parse_records, split_records
from turnout.tasks.cinic10 import SIGNATURE, read_pngs
from turnout.tasks.data.idx import parse_idx
from turnout.tasks.data.sample_table import read_table
from turnout.tasks.femnist import Writing, read_arrays, read_leaf
from turnout.workbench.diagnosis.reading.log_file import read_log
from turnout.workbench.experiment import registry, toml
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.sweep import points
from turnout.workbench.reproduction.claim import claim_names, read_claim

ROUNDS = "round,client,time,size,loss,arrived,steps\n" + "".join(
    f"{t},c{k},{60 * t + k},{10 + k},{1 / (t + 1):.3f},{(t + k) % 2},{k + 1}\n" for t in range(12) for k in range(4)
)
EVENTS = "timestamp,round,client,event\n" + "".join(
    f"2024-05-01T00:{t:02}:{k:02}Z,{t},c{k},{('asked', 'arrived', 'failed')[(t + k) % 3]}\n"
    for t in range(12)
    for k in range(4)
)
INTERVALS = "client,start,end,state\n" + "".join(
    f"c{k},{3600 * t},{3600 * t + 1800 + k},{(t + k) % 2}\n" for k in range(4) for t in range(8)
)
TRACE = INTERVALS.replace("client,start,end", "client_id,start_s,end_s")
JSONL = "".join(
    json.dumps({"round": t, "client": f"c{k}", "loss": 0.5 * k}) + "\n" for t in range(12) for k in range(3)
)
SAMPLES = "client,label,age,height\n" + "".join(
    f"c{k % 3},{('cat', 'dog')[k % 2]},{k},{k * k / 7:.4g}\n" for k in range(30)
)
SMALL = """
rounds = 3
seeds = 2
task = { name = "quadratics", num_clients = 5, dimension = 2 }
availability = { name = "two_classes" }
links = { name = "bernoulli", success = 0.9 }
local = { steps = 2, learning_rate = [0.1, 0.2] }
server = { learning_rate = 1.0, optimizer = { name = "sgd", momentum = 0.5 } }
facts = { name = "online" }
strategies = [{ name = "fedavg", cohort = [2, 3] }, { name = "fedau", cutoff = 5 }, { name = "ca_fed" }]
"""

TASKS = {
    "quadratics": "num_clients = 6, dimension = 2, condition = 2.0, noise = 0.1",
    "digits": 'num_clients = 6, partition = "iid", hidden = [4], model = "mlp"',
    "synthetic_binary": "num_clients = 6, num_features = 2, samples_per_client = 9",
    "synthetic_leaf": "num_clients = 6, num_features = 3, samples_per_client = 9",
    "robust_regression": "num_clients = 6, dimension = 3, samples_per_client = 9",
}
WORLDS = {
    "alternating": "t1 = 2, t2 = 3",
    "bernoulli": "pi = [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]",
    "bounded_absence": "chance = 0.5, within = 3",
    "clustered": "clusters = 2, pi = 0.5, lam = 0.3",
    "cyclic": "groups = 3, turn = 2",
    "diurnal": "rounds_per_day = 24, mean = 0.5, amplitude = 0.3, lam = 0.5",
    "finite_chain": "transition = [[0.5, 0.5], [0.1, 0.9]], masks = [[1, 0, 1, 0, 1, 1], [0, 1, 1, 1, 0, 0]]",
    "markov": "pi = 0.5, lam = 0.9",
    "periodic": "rate = 0.5, period = 6, course = 'staircase'",
    "minimum_separation": "batch = 1, separation = 2",
    "two_classes": "gap = 0.3",
}
STRATEGIES = (
    *("adafed", "c_a_fedavg, cohort = 2", "ca_fed, kappa = 0.5", "debiased", "f3ast, cohort = 2", "fedacs, cohort = 3"),
    *("fedau, cutoff = 5", "fedavg, cohort = [2, 3]", "fedawe, echo_rate = 0.5", "fedlaavg, cohort = 2, warmup = 1"),
    *("fednova, effective_steps = 2", "fedvarp", "importance_sampling, cohort = 2", "mifa, wait = true", "unbiased"),
    *("more_available, threshold = 0.1", "norm_sampling, cohort = 2", "optimal_sampling, cohort = 2, iterations = 3"),
    "last_word, fading = 1.0",
    *("fedavg, server = { rest = 2 }", "stale_fill, cohort = 2", "uniform_sampling, cohort = 2"),
)
UPLOADS = ("clip, norm = 1.0", "eight_bit", "noise, scale = 0.1", "top_k, share = 0.5", "plain")
COMPUTE = (
    "per_client, steps = [1, 2, 3, 4, 5, 6]",
    "redrawn, low = 1, high = 3",
    "drawn, low = 1, high = 3",
    "fixed, steps = 2",
)


def _named(table: str) -> str:
    """The table that begins with a name: `fedau, cutoff = 5` is `{ name = "fedau", cutoff = 5 }`."""
    name, *rest = table.split(", ", 1)
    return f'{{ name = "{name}"{"".join(", " + each for each in rest)} }}'


def small_experiments() -> dict[str, bytes]:
    """Every task, process, strategy, upload and law of local work in some experiment."""
    files = {"small.toml": SMALL.encode()}
    for number, world in enumerate(WORLDS):
        task = list(TASKS)[number % len(TASKS)]
        tables = {
            "task": f"{task}, {TASKS[task]}",
            "availability": f"{world}, {WORLDS[world]}",
            "links": ("bursty, fail = 0.1", "redrawn, low = 0.5, high = 0.9")[number % 2],
            "compute": COMPUTE[number % len(COMPUTE)],
            "uploads": UPLOADS[number % len(UPLOADS)],
            "facts": "online, past = 2",
        }
        lines = [f"{key} = {_named(table)}" for key, table in tables.items()]
        chosen = [_named(STRATEGIES[place % len(STRATEGIES)]) for place in range(3 * number, 3 * number + 3)]
        lines += [
            "rounds = 3",
            f"strategies = [{', '.join(chosen)}]",
            "local = { learning_rate = 0.1, batch_size = 4 }",
        ]
        files[f"{world}.toml"] = "\n".join(lines).encode()
    return files


@dataclass(frozen=True)
class Kind:
    """One kind of file: good ones by their name, and what reads one."""

    files: dict[str, bytes]
    read: Callable[[Path], Any]
    share: float  # of all cases


def parquet_of(table: bytes) -> bytes:
    """A CSV table as Parquet, as far as it can be read; empty if it cannot."""
    packed = io.BytesIO()
    try:
        pl.read_csv(table, ignore_errors=True, truncate_ragged_lines=True).write_parquet(packed)
    except pl.exceptions.PolarsError:
        return b""
    return packed.getvalue()


def forms(stem: str, text: str) -> dict[str, bytes]:
    """A table as CSV, gzipped and as Parquet."""
    whole = {f"{stem}.csv": text.encode(), f"{stem}.csv.gz": gzip.compress(text.encode(), mtime=0)}
    return whole | {f"{stem}.parquet": parquet_of(text.encode())}


def png(kind: int = 2, side: int = 4) -> bytes:
    channels = {2: 3, 3: 1, 6: 4}[kind]
    lines = b"".join(bytes([y % 5]) + bytes(range(side * channels)) for y in range(side))
    pieces = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, kind, 0, 0, 0))]
    pieces += [(b"PLTE", bytes(range(48)))] if kind == 3 else []
    pieces += [(b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in pieces
    )


def npz() -> bytes:
    packed = io.BytesIO()
    shapes = {"images": (3, 28, 28), "labels": (3,), "writer": (3,), "split": (3,)}
    np.savez_compressed(packed, **{name: np.ones(shape, np.uint8) for name, shape in shapes.items()})
    return packed.getvalue()


def read_experiment_file(path: Path) -> None:
    points(Experiment.read(toml.read(path)))


def build_experiment_file(path: Path) -> None:
    """Read and build; fleets and models too large for a test are refused by nobody, and left out here."""
    experiment = Experiment.read(toml.read(path))
    grid = points(experiment)
    if len(grid) < 50 and not any(number > 10_000 for number in _whole_numbers(experiment.document())):
        build(grid, experiment.seeds[:2])


def _whole_numbers(value: Any) -> list[int]:
    if isinstance(value, dict | list):
        return [
            number for item in (value.values() if isinstance(value, dict) else value) for number in _whole_numbers(item)
        ]
    return [abs(value)] if isinstance(value, int) else []


def read_image_file(path: Path) -> None:
    content = path.read_bytes()
    with reading(path):
        if path.suffix == ".png":
            read_pngs([content, png()], 4, 4)
        elif path.suffix == ".npz":
            read_npz(path, Writing._fields)
            read_arrays(path)
        elif path.suffix == ".idx":
            parse_idx(content)
        else:
            split_records(parse_records(path.name, content))


def read_trace(path: Path) -> None:
    trace(str(path), slot=1e-9 if path.stat().st_size % 10 == 0 else 600.0)


def read_recording(path: Path) -> None:
    with reading(path):
        text = path.read_text(encoding="utf-8")
        list(flash(text) if path.suffix == ".json" else stunner(text))


def read_leaf_file(path: Path) -> None:
    for part in ("train", "test"):
        (path.parent / part).mkdir(exist_ok=True)
        (path.parent / part / "all.json").write_bytes(path.read_bytes())
    list(read_leaf(path.parent))


def _shipped_claims() -> dict[str, bytes]:
    return {f"{name}.toml": registry.shipped_path("claims", name).read_bytes() for name in claim_names()}


FLASH = json.dumps(
    {
        str(k): {"isSuccess": k != 1, "trace_start": 0, "trace_end": 900.0, "ready_time": [[10, 300.5], [400, 800]]}
        for k in range(4)
    }
)
STUNNER = "".join(f"user{k} {k % 2} {1396656000000 + k} 1 5000 7000 9000\n" for k in range(4))
LEAF = json.dumps({"user_data": {"f0": {"x": [[0.5] * 784], "y": [3]}, "f1": {"x": [], "y": []}}})

KINDS = {
    "experiments": Kind(
        {"demo.toml": registry.shipped_path("experiments", "demo").read_bytes(), "small.toml": SMALL.encode()},
        read_experiment_file,
        0.19,
    ),
    "built experiments": Kind(small_experiments(), build_experiment_file, 0.02),
    "claims": Kind(_shipped_claims(), read_claim, 0.04),
    "logs": Kind(
        forms("rounds", ROUNDS)
        | forms("events", EVENTS)
        | forms("intervals", INTERVALS)
        | {"log.jsonl": JSONL.encode()},
        read_log,
        0.25,
    ),
    "traces": Kind(forms("trace", TRACE), read_trace, 0.15),
    "samples": Kind(forms("samples", SAMPLES), lambda path: read_table(str(path)), 0.15),
    "images": Kind(
        {f"{kind}.png": png(kind) for kind in (2, 3, 6)}
        | {"images.npz": npz(), "images.idx": b"\x00\x00\x08\x03" + struct.pack(">III", 2, 3, 4) + bytes(24)}
        | {"images.bin": bytes(2 * RECORD)},
        read_image_file,
        0.15,
    ),
    "recordings": Kind({"flash.json": FLASH.encode(), "stunner.txt": STUNNER.encode()}, read_recording, 0.04),
    "writers": Kind({"leaf.json": LEAF.encode()}, read_leaf_file, 0.01),
}
