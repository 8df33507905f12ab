"""Files with mistakes in them are read or refused in one line, whatever the mistake."""

import gzip
import random
import tomllib

import polars as pl
import pytest
from counts import Counts
from mutator import mutated_bytes, mutated_document
from read_files import KINDS, parquet_of

from turnout.workbench.experiment import toml

SHORT, LONG = 4_000, 100_000  # cases of all kinds together


def mutated(name: str, content: bytes, rng: random.Random) -> bytes:
    """A file with mistakes: half of them in what it holds, since most others make it no file of its kind."""
    if rng.random() < 0.5:
        return mutated_bytes(content, rng)
    if name.endswith(".toml"):
        return toml.write(mutated_document(tomllib.loads(content.decode()), rng)).encode()
    if name.endswith(".gz"):
        return gzip.compress(mutated_bytes(gzip.decompress(content), rng), 1, mtime=0)
    if name.endswith(".parquet"):
        return parquet_of(mutated_bytes(pl.read_parquet(content).write_csv().encode(), rng)) or content
    return mutated_bytes(content, rng)


@pytest.mark.parametrize("cases", [SHORT, pytest.param(LONG, marks=pytest.mark.faults)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_mistakes_is_read_or_refused(kind, cases, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts, of_kind = Counts(), KINDS[kind]
    for number in range(round(cases * of_kind.share)):
        rng = random.Random(f"{kind} {number}")
        name = rng.choice(sorted(of_kind.files))
        path = tmp_path / name
        path.write_bytes(mutated(name, of_kind.files[name], rng))
        counts.case(lambda path=path: of_kind.read(path), f"{kind} {number}: {name}")
    print(f"{kind}: {counts}")
    counts.check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_good_files_are_read(kind, tmp_path):
    for name, content in KINDS[kind].files.items():
        (tmp_path / name).write_bytes(content)
        KINDS[kind].read(tmp_path / name)
