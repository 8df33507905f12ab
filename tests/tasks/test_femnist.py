"""FEMNIST in its three formats, on a few made-up writers."""

import importlib
import io
import json
import sys
import tarfile
import types

import numpy as np
import pytest

from turnout.testing import check_task

femnist = importlib.import_module("turnout.tasks.femnist")
SIZES = {"f0003_07": (30, 4), "f0001_11": (25, 3), "f0002_41": (4, 1)}  # training and test images of a writer


@pytest.fixture
def pages():
    """Images and labels by split and writer."""
    generator = np.random.default_rng(0)
    made = {}
    for writer, sizes in SIZES.items():
        for split, size in enumerate(sizes):
            images = generator.integers(0, 256, (size, 28, 28), dtype=np.uint8)
            made[split, writer] = images, np.arange(size) * (7 if split == 0 else 3) % 62
    return made


def write_arrays(folder, pages):
    names = sorted(SIZES)
    np.savez(
        folder / "femnist.npz",
        images=np.concatenate([images for images, _ in pages.values()]),
        labels=np.concatenate([labels for _, labels in pages.values()]).astype(np.uint8),
        writer=np.concatenate([np.full(y.size, names.index(w), np.int16) for (_, w), (_, y) in pages.items()]),
        split=np.concatenate([np.full(y.size, split, np.uint8) for (split, _), (_, y) in pages.items()]),
    )


def write_leaf(folder, pages):
    for split, part in enumerate(("train", "test")):
        (folder / "femnist" / part).mkdir(parents=True)
        for number, writer in enumerate(SIZES):
            images, labels = pages[split, writer]
            page = {"x": (images.reshape(-1, 784) / 255).tolist(), "y": labels.tolist()}
            content = {"users": [writer], "num_samples": [labels.size], "user_data": {writer: page}}
            (folder / "femnist" / part / f"all_data_{number}.json").write_text(json.dumps(content))


class FakeFile(dict):
    """Stands for an HDF5 file: the archive of the test holds the arrays as npz."""

    def __init__(self, path, mode):
        assert mode == "r"
        self["examples"] = {}
        with np.load(path) as arrays:
            for name in arrays:
                writer, what = name.split("/")
                self["examples"].setdefault(writer, {})[what] = arrays[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def write_federated(folder, pages):
    with tarfile.open(folder / "fed_emnist.tar.bz2", "w:bz2") as archive:
        for split, part in enumerate(("train", "test")):
            arrays = {}
            for writer in SIZES:
                images, labels = pages[split, writer]
                arrays |= {f"{writer}/pixels": (images / 255).astype(np.float32), f"{writer}/label": labels}
            content = io.BytesIO()
            np.savez(content, **arrays)
            member = tarfile.TarInfo(f"fed_emnist_{part}.h5")
            member.size = content.tell()
            content.seek(0)
            archive.addfile(member, content)


@pytest.mark.parametrize("write", [write_arrays, write_leaf, write_federated])
def test_every_format_gives_the_writers_their_images(data_folder, monkeypatch, pages, write, expect):
    monkeypatch.setitem(sys.modules, "h5py", types.SimpleNamespace(File=FakeFile))
    write(data_folder, pages)
    if write is write_federated:
        expect(femnist, data_folder / "fed_emnist.tar.bz2")
    for _ in range(2):  # the second time, the archive's arrays are there
        written = femnist.load()
        for (split, writer), (images, labels) in pages.items():
            mine = (written.writer == sorted(SIZES).index(writer)) & (written.split == split)
            np.testing.assert_array_equal(written.images[mine], images)
            np.testing.assert_array_equal(written.labels[mine], labels)
    assert (data_folder / "femnist.npz").exists() == (write is not write_leaf)


def test_each_client_is_a_writer(data_folder, pages):
    write_arrays(data_folder, pages)
    task = femnist.femnist()
    assert task.num_clients == 2  # one writer has too few images
    sizes = np.asarray(task.sizes) + np.asarray(task.validation.sizes)
    assert sizes.tolist() == [25, 30]
    assert task.validation.sizes.tolist() == [5, 6]
    assert task.test.sizes.tolist() == [3, 4]
    held = np.asarray(task.test.inputs)[np.asarray(task.test.rows)]
    np.testing.assert_array_equal(held, np.concatenate([pages[1, "f0001_11"][0], pages[1, "f0003_07"][0]]))
    check_task(task)


def test_fewer_writers_or_digits_alone(data_folder, pages):
    write_arrays(data_folder, pages)
    assert femnist.femnist(num_clients=1, min_size=1).num_clients == 1
    task = femnist.femnist(classes="digits", min_size=1, validation=0.0)
    assert task.model.init is not femnist.femnist(min_size=1).model.init
    assert int(max(split.labels.max() for split in (task.train, task.test))) < 10
    small = femnist.femnist(min_size=1, shrink=2)
    assert small.test.inputs.shape[1:] == (14, 14)
    with pytest.raises(ValueError, match="4 clients were asked of 3 ids that have 1 samples or more"):
        femnist.femnist(num_clients=4, min_size=1)


def test_the_sample_is_known_by_its_checksums(data_folder, pages):
    write_arrays(data_folder, pages)
    (data_folder / "femnist.npz").rename(data_folder / "femnist_leaf_sample.npz")
    with pytest.raises(ValueError, match=r"femnist_leaf_sample.npz is damaged .*the sha256 of what it holds"):
        femnist.load()


def test_damaged_and_missing_files_are_told(data_folder, pages, monkeypatch, expect):
    with pytest.raises(FileNotFoundError, match=r"fed_emnist.tar.bz2 is missing .*set TURNOUT_DATA"):
        femnist.load()
    write_federated(data_folder, pages)
    with pytest.raises(ValueError, match=r"fed_emnist.tar.bz2 is damaged .*the sha256 of what it holds"):
        femnist.load()
    expect(femnist, data_folder / "fed_emnist.tar.bz2")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(FileNotFoundError, match="pip install h5py"):
        femnist.load()
    write_leaf(data_folder, pages)
    file = data_folder / "femnist" / "test" / "all_data_0.json"
    file.write_text(file.read_text()[:-40])
    with pytest.raises(ValueError, match=r"all_data_0.json is damaged"):
        femnist.load()
    for left in (data_folder / "femnist" / "test").iterdir():
        left.unlink()
    with pytest.raises(FileNotFoundError, match="has no JSON file"):
        femnist.load()
    np.savez(data_folder / "femnist.npz", images=np.zeros((2, 28, 28)), labels=np.zeros(2), writer=[0], split=[0])
    with pytest.raises(ValueError, match=r"femnist.npz is damaged .*float64"):
        femnist.load()


@pytest.mark.parametrize("pixel", [-0.1, 1.1, np.nan])
def test_pixels_that_would_wrap_are_refused(pixel):
    with pytest.raises(ValueError, match="do not lie between 0 and 1"):
        femnist.as_bytes(np.full((1, 784), pixel))
