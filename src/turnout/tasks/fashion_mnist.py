"""Fashion-MNIST: 70,000 pieces of clothing of 28 × 28 grey pixels, a drop-in for MNIST (Xiao et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.idx import load_idx
from turnout.tasks.data.image_sets import Colours, Dealing, Groups, Images, Pixels, TestSet, Way, image_task
from turnout.tasks.models.networks import ModelName

COLOURS = Colours((0.2860,), (0.3530,))
MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
)
# For each file: md5 as published, of the packed file; md5 of the unpacked one, which every packing shares.
FILES = {
    "train-images-idx3-ubyte.gz": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    "train-labels-idx1-ubyte.gz": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
    "t10k-images-idx3-ubyte.gz": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
    "t10k-labels-idx1-ubyte.gz": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
}


def fashion_mnist(
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
    """Classify clothing: 60,000 images to train and validate on, 10,000 to test; the arguments are those of `mnist`."""
    dealing = Dealing(
        num_clients, partition, alpha, min_size, swapped_pairs, groups, validation, test_set, num_images, seed, clusters
    )
    options = {"model": model, "hidden": hidden, "ridge": ridge, "importance": importance, "pixels": pixels}
    return image_task(*load(), dealing, COLOURS, **options)


def load() -> tuple[Images, Images]:
    """Training and test images, from TURNOUT_DATA/fashion_mnist or downloaded."""
    return load_idx("fashion_mnist", FILES, MIRRORS)
