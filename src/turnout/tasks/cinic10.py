"""CINIC-10: 270,000 colour images of the classes of CIFAR-10, most of them from ImageNet (Darlow et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from turnout.files.data_folder import given
from turnout.files.downloads import Remote, local_copy
from turnout.files.integrity import keep_npz, read_members, read_npz, reading, verify_file
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.image_sets import Colours, ImageOptions, Images, image_task
from turnout.tasks.data.png import read_pngs
from turnout.tasks.data.shared_arguments import with_arguments_of
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


@dataclass(frozen=True)
class CINIC10Options(ImageOptions):
    """Defaults for colour images: a network, without a penalty."""

    model: ModelName = "cnn_fedacs_cinic10"
    ridge: float = 0.0
    validation: float = field(init=False, default=0.0)  # these images have a validation set of their own


@with_arguments_of(CINIC10Options)
def cinic10(options: CINIC10Options) -> DataTask:
    """Classify images: 90,000 to train on, 90,000 to validate, 90,000 to test, a third each as the authors cut them.

    FedACS has 20 clients with α = 0.1. The arguments are explained in the docs on tasks.
    """
    train, validation, test = load()
    return image_task(train, test, options, COLOURS, validation)


def load() -> tuple[Images, Images, Images]:
    """Training, validation and test images: TURNOUT_DATA's arrays or archive, or the archive downloaded."""
    converted = given(CONVERTED)
    if converted is None:
        archive = local_copy(ARCHIVE, __name__)
        converted = archive.with_name(CONVERTED)
        if not converted.exists():
            return convert(archive, converted)
    with reading(converted):
        names = tuple(f"{part}_{what}" for part in PARTS for what in ("images", "labels"))
        arrays = read_npz(converted, names)
    train, validation, test = (Images(*arrays[i : i + 2]) for i in (0, 2, 4))
    return train, validation, test


def convert(archive: Path, converted: Path) -> tuple[Images, Images, Images]:
    """The three sets from the archive, sorted by class and name; they are also stored as arrays beside it."""
    files: dict[str, list[tuple[int, str, bytes]]] = {part: [] for part in PARTS}
    with reading(archive):
        verify_file(archive, ARCHIVE.checksum)
        for name, content in read_members(archive, lambda name: name.endswith(".png")):
            *_, part, kind, file = PurePosixPath(name).parts
            files[part].append((CLASSES.index(kind), file, content))
        sets = {part: _images(sorted(members)) for part, members in files.items()}
    arrays = {f"{part}_images": images.pixels for part, images in sets.items()}
    keep_npz(converted, **arrays, **{f"{part}_labels": images.labels for part, images in sets.items()})
    return sets["train"], sets["valid"], sets["test"]


def _images(members: list[tuple[int, str, bytes]]) -> Images:
    if not members:
        raise ValueError("one of the folders train, valid and test has no images")
    labels = np.array([label for label, _, _ in members], np.int64)
    return Images(read_pngs([content for _, _, content in members], SIDE, SIDE), labels)
