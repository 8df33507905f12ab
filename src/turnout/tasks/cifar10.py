"""CIFAR-10: 60,000 small colour photographs of ten kinds of things (Krizhevsky 2009)."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from turnout.declarations import NotNegative
from turnout.files.downloads import Remote, given, local_copy
from turnout.files.integrity import read_members, read_npz, reading, verify
from turnout.files.opened import note
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.image_task import Colours, ImageOptions, Images, image_task
from turnout.tasks.data.shared_arguments import with_arguments_of
from turnout.tasks.models.networks import ModelName

COLOURS = Colours((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
ARCHIVE = Remote(  # the binary version: the other ones are pickles, which run code when they are read
    "cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
    (
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",
    ),
)
MEMBERS = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
DIFFERENCED = {"train": ("cifar10_train_1.npz", "cifar10_train_2.npz"), "test": ("cifar10_test.npz",)}
# Of the images and of the labels as arrays of bytes, whatever their file.
CHECKSUMS = {
    "train": (
        "sha256:47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "sha256:2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    ),
    "test": (
        "sha256:f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "sha256:cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
}
RECORD = 1 + 3 * 32 * 32  # bytes: a label, then the red, the green and the blue plane


@dataclass(frozen=True)
class CIFAR10Options(ImageOptions):
    """Defaults for colour images: a network, without a penalty."""

    model: ModelName = "cnn_ca_fed"
    ridge: NotNegative = 0.0


@with_arguments_of(CIFAR10Options)
def cifar10(options: CIFAR10Options) -> DataTask:
    """Classify photographs: 50,000 images to train and validate on, 10,000 to test.

    CA-Fed has 100 clients with α = 0.5, FedACS 20 with α = 0.1. The arguments are explained in the docs on tasks.
    """
    return image_task(*load(), options, COLOURS)


def load() -> tuple[Images, Images]:
    """Training and test images: the differenced files or the archive of TURNOUT_DATA, or the archive downloaded."""
    paths = [given(name) for part in DIFFERENCED.values() for name in part]
    if not all(paths) or given(ARCHIVE.path):
        paths = [local_copy(ARCHIVE, __name__)]
    files = [path for path in paths if path is not None]
    for path in files:
        note(path)  # which is perhaps in memory already
    return _read_once(tuple((path, path.stat().st_mtime_ns) for path in files))


@functools.lru_cache(maxsize=1)
def _read_once(files: tuple[tuple[Path, int], ...]) -> tuple[Images, Images]:
    """The images in these files, which all deals of an experiment share; times tell whether a file has changed."""
    if len(files) == 1:
        return read_archive(files[0][0])
    train, test = (read_differenced(part) for part in DIFFERENCED)
    return train, test


def read_differenced(part: str) -> Images:
    """The images of a part from npz files of differences, which are smaller than the archive."""
    pixels, labels, path = [], [], Path()
    for name in DIFFERENCED[part]:
        path = given(name) or Path(name)
        with reading(path):
            differences, classes = read_npz(path, ("delta", "labels"))
            if differences.dtype != np.uint8 or differences.shape != (3, classes.size, 32, 32):
                raise ValueError(f"its differences are {differences.dtype} of shape {differences.shape}")
            pixels.append(sum_differences(differences))
            labels.append(classes)
    return verify_images(path, part, np.concatenate(pixels), np.concatenate(labels))


def sum_differences(differences: np.ndarray) -> np.ndarray:
    """Colours of differences: planes green, red − green, blue − green, each differenced along x, then y, modulo 256."""
    planes = np.cumsum(np.cumsum(differences, axis=-1, dtype=np.uint8), axis=-2, dtype=np.uint8)
    green = planes[0]
    return np.stack([planes[1] + green, green, planes[2] + green], axis=-1)


def read_archive(path: Path) -> tuple[Images, Images]:
    """Both parts from the archive of the binary version."""
    wanted = [name for part in MEMBERS.values() for name in part]
    with reading(path):
        files = {Path(name).name: content for name, content in read_members(path, lambda n: Path(n).name in wanted)}
        records = {name: parse_records(name, files[name]) for name in wanted}
    train, test = (np.concatenate([records[name] for name in MEMBERS[part]]) for part in MEMBERS)
    return verify_images(path, "train", *split_records(train)), verify_images(path, "test", *split_records(test))


def parse_records(name: str, content: bytes) -> np.ndarray:
    if not content or len(content) % RECORD:
        raise ValueError(f"{name} has {len(content)} bytes, which is no multiple of {RECORD}")
    return np.frombuffer(content, np.uint8).reshape(-1, RECORD)


def split_records(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def verify_images(path: Path, part: str, pixels: np.ndarray, labels: np.ndarray) -> Images:
    """The images once their checksums are right."""
    pixels = np.ascontiguousarray(pixels)
    with reading(path):
        for array, checksum in zip((pixels, labels), CHECKSUMS[part], strict=True):
            verify(array, checksum)
    return Images(pixels, labels.astype(np.int64))
