"""CINIC-10: 270,000 colour images of the classes of CIFAR-10, most of them from ImageNet (Darlow et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from turnout.files.data_folder import given
from turnout.files.downloads import Remote, located
from turnout.files.integrity import keep_npz, read_members, read_npz, reading, verify_file
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.image_sets import Colours, Dealing, Groups, Images, Pixels, TestSet, Way, image_task
from turnout.tasks.data.png import read_pngs
from turnout.tasks.models.networks import ModelName

COLOURS = Colours((0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587))
ARCHIVE = Remote(
    "CINIC-10.tar.gz",
    "md5:6ee4d0c996905fe93221de577967a372",
    (
        "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        "https://datashare.is.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        "https://datashare.ed.ac.uk/server/api/core/bitstreams/e8e186cc-2688-48f1-aa5a-3fda1a43f8b6/content",
    ),
)
CONVERTED = "cinic10.npz"  # the archive as arrays, made once: undoing 270,000 PNG files takes a minute
PARTS = ("train", "valid", "test")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32


def cinic10(
    num_clients: int = 100,
    partition: Way = "dirichlet",
    alpha: float = 0.5,
    min_size: int = 10,
    clusters: int | None = None,
    swapped_pairs: int = 0,
    groups: Groups = "halves",
    model: ModelName = "cnn_fedacs_cinic10",
    hidden: Sequence[int] = (200, 200),
    ridge: float = 0.0,
    importance: Literal["size", "uniform"] = "size",
    test_set: TestSet = "by_client",
    pixels: Pixels = "standard",
    num_images: int | None = None,
    seed: int = 0,
) -> DataTask:
    """Classify images: 90,000 to train on, 90,000 to validate, 90,000 to test, a third each as the authors cut them.

    FedACS has 20 clients with α = 0.1. The arguments are explained in the docs on tasks.
    """
    dealing = Dealing(
        num_clients, partition, alpha, min_size, swapped_pairs, groups, 0.0, test_set, num_images, seed, clusters
    )
    options = {"model": model, "hidden": hidden, "ridge": ridge, "importance": importance, "pixels": pixels}
    train, validation, test = load()
    return image_task(train, test, dealing, COLOURS, validation=validation, **options)


def load() -> tuple[Images, Images, Images]:
    """Training, validation and test images: TURNOUT_DATA's arrays or archive, or the archive downloaded."""
    converted = given(CONVERTED)
    if converted is None:
        archive = located(ARCHIVE, __name__)
        converted = archive.with_name(CONVERTED)
        if not converted.exists():
            return convert(archive, converted)
    with reading(converted):
        names = tuple(f"{part}_{what}" for part in PARTS for what in ("images", "labels"))
        arrays = read_npz(converted, names)
    train, validation, test = (Images(*arrays[i : i + 2]) for i in (0, 2, 4))
    return train, validation, test


def convert(archive: Path, converted: Path) -> tuple[Images, Images, Images]:
    """The three sets from the archive, class by class and by name, and kept as arrays beside it."""
    found: dict[str, list[tuple[int, str, bytes]]] = {part: [] for part in PARTS}
    with reading(archive):
        verify_file(archive, ARCHIVE.checksum)
        for name, content in read_members(archive, lambda name: name.endswith(".png")):
            *_, part, kind, file = PurePosixPath(name).parts
            found[part].append((CLASSES.index(kind), file, content))
        sets = {part: _images(sorted(members)) for part, members in found.items()}
    arrays = {f"{part}_images": images.pixels for part, images in sets.items()}
    keep_npz(converted, **arrays, **{f"{part}_labels": images.labels for part, images in sets.items()})
    return sets["train"], sets["valid"], sets["test"]


def _images(members: list[tuple[int, str, bytes]]) -> Images:
    if not members:
        raise ValueError("one of the folders train, valid and test has no images")
    labels = np.array([label for label, _, _ in members], np.int64)
    return Images(read_pngs([content for _, _, content in members], SIDE, SIDE), labels)
