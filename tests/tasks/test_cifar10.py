"""CIFAR-10 on tiny files in both formats."""

import hashlib
import importlib
import io
import tarfile

import jax.numpy as jnp
import numpy as np
import pytest

from turnout.testing import check_task

cifar10 = importlib.import_module("turnout.tasks.cifar10")


def sha256(array):
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(array)).hexdigest()}"


@pytest.fixture
def parts(monkeypatch, pictures):
    """Training and test images, whose checksums are expected."""
    made = {"train": pictures(100, 32, 32, 3), "test": pictures(30, 32, 32, 3, seed=1)}
    monkeypatch.setattr(cifar10, "CHECKSUMS", {name: tuple(map(sha256, arrays)) for name, arrays in made.items()})
    return made


def differences(pixels):
    """Planes green, red - green, blue - green; then each pixel less its upper one, then less its left one."""
    red, green, blue = np.moveaxis(pixels.astype(np.int64), -1, 0)
    planes = np.stack([green, red - green, blue - green])
    planes = np.diff(planes, axis=-2, prepend=0)
    return (np.diff(planes, axis=-1, prepend=0) % 256).astype(np.uint8)


def write_differenced(folder, parts):
    (pixels, labels), (test, test_labels) = parts["train"], parts["test"]
    for number, rows in ((1, slice(0, 60)), (2, slice(60, None))):
        np.savez(folder / f"cifar10_train_{number}.npz", delta=differences(pixels[rows]), labels=labels[rows])
    np.savez(folder / "cifar10_test.npz", delta=differences(test), labels=test_labels)


def write_archive(folder, parts, leave_out=(), cut=0):
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        pieces = [(f"data_batch_{i + 1}.bin", "train", slice(20 * i, 20 * i + 20)) for i in range(5)]
        for name, part, rows in [*pieces, ("test_batch.bin", "test", slice(None)), ("readme.html", "test", slice(0))]:
            if name in leave_out:
                continue
            pixels, labels = (array[rows] for array in parts[part])
            records = [bytes([label]) + image.transpose(2, 0, 1).tobytes() for image, label in zip(pixels, labels)]  # noqa: B905
            content = b"".join(records)[: -cut or None]
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("write", [write_differenced, write_archive])
def test_both_formats_give_the_images(data_folder, parts, write):
    write(data_folder, parts)
    for found, (pixels, labels) in zip(cifar10.load(), parts.values(), strict=True):
        np.testing.assert_array_equal(found.pixels, pixels)
        np.testing.assert_array_equal(found.labels, labels)


def test_the_task_keeps_its_contract(data_folder, parts):
    write_archive(data_folder, parts)
    task = cifar10.cifar10(num_clients=4, min_size=5, model="linear")
    check_task(task, clients=2)
    assert task.train.inputs.shape == (130, 32, 32, 3)
    assert task.train.inputs.dtype == np.uint8


def test_colours_are_read_channel_by_channel(data_folder, parts):
    write_archive(data_folder, parts)
    task = cifar10.cifar10(num_clients=4, min_size=5)
    pixels = np.asarray(task.train.inputs)[np.asarray(task.train.rows[:3])] / 255
    expected = (pixels - cifar10.COLOURS.mean) / np.array(cifar10.COLOURS.deviation)
    np.testing.assert_allclose(task.train.cut(jnp.arange(3))[0], expected, atol=1e-5)


def test_missing_members_and_wrong_sizes_are_told(data_folder, parts):
    write_archive(data_folder, parts, leave_out=["data_batch_3.bin"])
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is damaged .*data_batch_3.bin"):
        cifar10.load()
    write_archive(data_folder, parts, cut=5)
    with pytest.raises(ValueError, match=r"has 61455 bytes, which is no multiple of 3073"):
        cifar10.load()


def test_truncated_and_altered_files_are_told(data_folder, parts):
    write_archive(data_folder, parts)
    archive = data_folder / "cifar-10-binary.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is damaged"):
        cifar10.load()
    archive.unlink()
    write_differenced(data_folder, parts)
    path = data_folder / "cifar10_train_2.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cifar10_train_2.npz is damaged .*no npz archive"):
        cifar10.load()
    path.write_bytes(whole)
    parts["test"][0][0, 0, 0, 0] ^= 1
    write_differenced(data_folder, parts)
    with pytest.raises(ValueError, match=r"cifar10_test.npz is damaged .*the sha256 of what it holds"):
        cifar10.load()


def test_a_pickle_inside_is_not_opened(data_folder, parts):
    write_differenced(data_folder, parts)
    np.savez(data_folder / "cifar10_test.npz", delta=np.array([{"a": 1}], object), labels=np.zeros(1))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        cifar10.load()


def test_one_differenced_file_alone_is_not_enough(data_folder, parts):
    write_differenced(data_folder, parts)
    (data_folder / "cifar10_train_1.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar-10-binary.tar.gz is missing .* set TURNOUT_DATA"):
        cifar10.load()
