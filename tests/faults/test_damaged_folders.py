"""Run folders, claims and checkpoints with flipped bits or fuzzed files: an edited file is named, none is trusted.

Two ways to damage a folder: the manifest stays as it was, so that every change must be noticed; or there is none, or a
forged one, so that whatever is in the files must be read or refused in one clear line.
"""

import contextlib
import json
import os
import random
import shutil
import sys

import jax
import numpy as np
import pytest
from counts import Counts
from mutator import mutated_bytes

from tiny_experiment import TINY
from turnout.errors import UserError
from turnout.files.archive import read_archive, write_archive
from turnout.files.manifest import Manifest
from turnout.flower.run import checkpoint
from turnout.flower.run.chronicle import Chronicle
from turnout.flower.server.driver import Driver
from turnout.flower.wire.replies import Reply
from turnout.strategies import MIFA
from turnout.workbench import Experiment, load, save
from turnout.workbench.experiment.kept import KeptPoints, identity_of
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.unfinished import START, UNFINISHED, Unfinished, begin_run, read_unfinished
from turnout.workbench.report.run.run_page import write_report
from turnout.workbench.reproduction.claim import read_claim
from turnout.workbench.reproduction.curve_table import read_curves
from turnout.workbench.reproduction.reproduce import reproduce
from turnout.workbench.reproduction.stored import read_result, refresh

DOCUMENT = TINY | {"strategies": [{"name": "fedavg", "cohort": [2, 3]}]}
CHECK = {"name": "ahead", "label": "A", "measure": {"name": "final", "metric": "train_loss"}}
CLAIM = {
    "title": "Tiny",
    "claim": "C",
    "figure": {"name": "curves", "metric": "train_loss"},
    "checks": [CHECK],
    "experiment": DOCUMENT | {"strategies": [{"name": "fedavg", "cohort": 2, "label": label} for label in ("A", "B")]},
}
START_MODEL = {"w": np.zeros(3, np.float32)}


@contextlib.contextmanager
def quiet():
    """Without what the panics of polars print of themselves, thousands of lines of it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@pytest.fixture(scope="module")
def finished():
    return run(Experiment.read(DOCUMENT))


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory):
    return save(finished, tmp_path_factory.mktemp("damaged") / "run")


@pytest.fixture(scope="module")
def claim_folder(tmp_path_factory):
    from turnout.workbench.experiment import toml

    place = tmp_path_factory.mktemp("claims")
    (place / "claim.toml").write_text(toml.write(CLAIM))
    reproduce(read_claim(place / "claim.toml"), place / "result")
    return place / "result"


@pytest.fixture(scope="module")
def unfinished_folder(finished, tmp_path_factory):
    """A run folder as a process leaves it that was killed before its end."""
    out = tmp_path_factory.mktemp("unfinished") / "run"
    with contextlib.suppress(KeyboardInterrupt), begin_run(Unfinished(out, "run", finished.experiment)) as unfinished:
        unfinished.run()
        raise KeyboardInterrupt
    return out


def trained_driver():
    driver = Driver(MIFA(), START_MODEL, seed=4)
    driver.join({"a": 1.0, "b": 3.0})
    for value in (1.0, 2.0):
        driver.open_round(["a"])
        driver.close_round({"a": Reply({"w": np.full(3, value, np.float32)}, value, 0.5, 2.0, 3)})
    return driver


@pytest.fixture(scope="module")
def checkpoint_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "state.npz"
    chronicle = Chronicle()
    chronicle.run_id = "0" * 32  # or every run of the tests would damage another file
    checkpoint.save(path, trained_driver(), chronicle)
    return path


def flipped(content, draw):
    changed = bytearray(content)
    bit = draw.randrange(8 * len(changed))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def numbers_of(run):
    parts = [
        (one.label, one.settings, one.history.metrics, one.history.records, one.history.clients, one.history.params)
        for one in run.points
    ]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(parts) if not isinstance(leaf, str)]


def is_same(run, other):
    ours, theirs = numbers_of(run), numbers_of(other)
    return len(ours) == len(theirs) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(ours, theirs, strict=True)
    )


def resumed_leaves(path):
    driver = Driver(MIFA(), START_MODEL, seed=4)
    checkpoint.resume(path, driver, Chronicle())
    return [driver.t, driver.importance, *(leaf.tobytes() for leaf in driver.named_leaves().values())]


def flip_bits(folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number, seed):
    """Single bits of every file; a reader must notice each that would change a number."""
    draw, counts = random.Random(seed), Counts()
    right = load(folder), read_result(claim_folder), resumed_leaves(checkpoint_file)
    start = json.loads((unfinished_folder / UNFINISHED / START).read_bytes())
    kept = KeptPoints(unfinished_folder / UNFINISHED, identity_of(Experiment.read(start["experiment"])))
    points = {label: kept.find(label) for label in ("fedavg cohort=2", "fedavg cohort=3")}

    def unchanged(reading):
        if not reading():
            counts.changed += 1

    def same_points():
        for label, point in points.items():
            again = kept.find(label)
            if again is not None and not np.array_equal(
                again.history.metrics["distance"], point.history.metrics["distance"]
            ):
                return False
        return True

    targets = [
        *[(file, lambda: is_same(load(folder), right[0])) for file in sorted(folder.iterdir())],
        *[
            (file, lambda: read_result(claim_folder) == right[1] and bool(read_curves(claim_folder / "curves.csv.gz")))
            for file in sorted(claim_folder.iterdir())
            if file.name in ("result.json", "curves.csv.gz", "manifest.json")
        ],
        *[(file, same_points) for file in sorted((unfinished_folder / UNFINISHED).glob("point-*.npz"))],
        *[(checkpoint_file, lambda: resumed_leaves(checkpoint_file) == right[2])] * 4,
    ]
    for case in range(number):
        file, reading = targets[case % len(targets)]
        content = file.read_bytes()
        file.write_bytes(flipped(content, draw))
        with quiet():
            counts.case(lambda reading=reading: unchanged(reading), f"a bit of {file.name}, case {case}")
        file.write_bytes(content)
    return counts


def fuzz(folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number, seed):
    """Files that somebody made, with a manifest that fits them or none: read, or refused in one line."""
    draw, counts, place = random.Random(seed), Counts(), tmp_path / "fuzzed"
    page = tmp_path / "page.html"
    sources = {
        folder: lambda: write_report([place], page) if draw.random() < 0.1 else load(place),
        claim_folder: lambda: refresh(place),
        unfinished_folder: lambda: read_unfinished(place),
    }
    for case in range(number):
        source, reading = list(sources.items())[case % len(sources)]
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place)
        inside = place / UNFINISHED / START if source is unfinished_folder else None
        files = [inside] if inside else [file for file in place.iterdir() if file.name != "manifest.json"]
        file = draw.choice(sorted(files))
        file.write_bytes(mutated_bytes(file.read_bytes(), draw))
        if draw.random() < 0.5:
            (place / "manifest.json").unlink(missing_ok=True)
        elif not inside:
            (place / "manifest.json").write_text(Manifest.of(place).text())
        with quiet():
            counts.case(reading, f"{file.name}, seed {seed}, case {case}")
        if case % 3 == 0:
            counts.case(
                lambda: fuzz_checkpoint(checkpoint_file, tmp_path / "state.npz", draw), f"checkpoint, case {case}"
            )
    return counts


def fuzz_checkpoint(source, path, draw):
    """A checkpoint with any header and any arrays, and a digest that fits."""
    header, arrays = read_archive(source)
    text = mutated_bytes(json.dumps(header).encode(), draw)
    with contextlib.suppress(ValueError, RecursionError):
        header = json.loads(text)
    name = draw.choice(sorted(arrays))
    arrays[name] = draw.choice((arrays[name] * 0, arrays[name][:0], arrays[name].astype("U5"), np.full((3, 3), np.nan)))
    write_archive(path, header if isinstance(header, dict) else {"header": header}, arrays)
    checkpoint.resume(path, Driver(MIFA(), START_MODEL, seed=4), Chronicle())


@pytest.mark.parametrize("number", [100, pytest.param(2000, marks=pytest.mark.faults)])
def test_a_flipped_bit_changes_nothing_unnoticed(
    folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number
):
    counts = flip_bits(folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number, seed=number)
    print(f"\nflipped bits: {counts}", file=sys.stderr)
    counts.check()
    assert counts.refused > number / 3


@pytest.mark.parametrize("number", [80, pytest.param(3000, marks=pytest.mark.faults)])
def test_fuzzed_folders_are_read_or_refused(folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number):
    counts = fuzz(folder, claim_folder, unfinished_folder, checkpoint_file, tmp_path, number, seed=number)
    print(f"\nfuzzed folders and checkpoints: {counts}", file=sys.stderr)
    counts.check()
    assert counts.refused > number / 4


def test_a_torn_result_is_named_and_other_claims_stay(claim_folder, tmp_path):
    from turnout.workbench.reproduction.stored import folder_of_same_runs, is_done

    for name in ("torn", "whole"):
        shutil.copytree(claim_folder, tmp_path / name)
    (tmp_path / "torn" / "manifest.json").unlink()
    (tmp_path / "torn" / "result.json").write_text('{"skipped": {')
    claim = read_claim(tmp_path / "whole" / "claim.toml")
    assert not is_done(claim, tmp_path / "torn")
    assert folder_of_same_runs(claim, tmp_path) == tmp_path / "whole"
    with pytest.raises(UserError, match=r"torn/result\.json: damaged or torn"):
        read_result(tmp_path / "torn")
