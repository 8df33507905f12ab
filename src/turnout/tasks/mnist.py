"""MNIST: 70,000 handwritten digits of 28 × 28 grey pixels (LeCun and Cortes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.idx import load_idx
from turnout.tasks.data.image_sets import Colours, Dealing, Groups, Images, Pixels, TestSet, Way, image_task
from turnout.tasks.models.networks import ModelName

COLOURS = Colours((0.1307,), (0.3081,))
MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
# For each file: md5 as published, of the packed file; md5 of the unpacked one, which every packing shares.
FILES = {
    "train-images-idx3-ubyte.gz": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte.gz": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte.gz": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte.gz": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}


def mnist(
    num_clients: int = 100,
    partition: Way = "dirichlet",
    alpha: float = 0.5,
    min_size: int = 10,
    clusters: int | None = None,
    swapped_pairs: int = 0,
    groups: Groups = "halves",
    model: ModelName = "linear",
    hidden: Sequence[int] = (200, 200),
    ridge: float = 0.01,
    importance: Literal["size", "uniform"] = "size",
    validation: float = 0.2,
    test_set: TestSet = "by_client",
    pixels: Pixels = "standard",
    num_images: int | None = None,
    seed: int = 0,
) -> DataTask:
    """Classify digits: 60,000 images to train and validate on, 10,000 to test.

    CA-Fed's papers have 100 clients by a Dirichlet law, or 24 iid clients in two groups with `swapped_pairs = 2`;
    FedACS has 20 clients of one class each. The arguments are explained in the docs on tasks.
    """
    dealing = Dealing(
        num_clients, partition, alpha, min_size, swapped_pairs, groups, validation, test_set, num_images, seed, clusters
    )
    options = {"model": model, "hidden": hidden, "ridge": ridge, "importance": importance, "pixels": pixels}
    return image_task(*load(), dealing, COLOURS, **options)


def load() -> tuple[Images, Images]:
    """Training and test images, from TURNOUT_DATA/mnist or downloaded."""
    return load_idx("mnist", FILES, MIRRORS)
