import builtins
import dataclasses
import hashlib

import numpy as np
import pytest


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A data folder of the test's own, and no way to download anything."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("TURNOUT_DATA", str(folder))
    plain = builtins.__import__

    def without_pooch(name, *rest, **words):
        if name == "pooch":
            raise ImportError(name)
        return plain(name, *rest, **words)

    monkeypatch.setattr(builtins, "__import__", without_pooch)
    return folder


@pytest.fixture
def pictures():
    """Random images and labels; every class is there."""

    def make(count, *shape, classes=10, seed=0):
        generator = np.random.default_rng(seed)
        labels = generator.permutation(np.arange(count) % classes)
        return generator.integers(0, 256, (count, *shape), dtype=np.uint8), labels.astype(np.uint8)

    return make


@pytest.fixture
def expect(monkeypatch):
    """Make a data set expect an archive that a test has written."""

    def change(module, path):
        checksum = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        monkeypatch.setattr(module, "ARCHIVE", dataclasses.replace(module.ARCHIVE, checksum=checksum))

    return change
