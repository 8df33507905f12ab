"""Tasks of labelled images with a training and a test set of their own: dealt to clients, held as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from turnout.declarations import Count, CountOrZero, NotNegative, Positive, Seed, Share
from turnout.tasks.arrays import from_pool
from turnout.tasks.data import partition as ways
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.data.data_task import DataTask, Factor
from turnout.tasks.data.dealing import Partitioner, Way, deal
from turnout.tasks.models.adapters import Adapt, on_base
from turnout.tasks.models.networks import ModelName, model_named

Groups = Literal["random", "halves"]
TestSet = Literal["by_client", "common"]
Pixels = Literal["standard", "unit"]


class Images(NamedTuple):
    """Images as bytes, and their classes."""

    pixels: UInt8[np.ndarray, "images height width *channels"]
    labels: Int[np.ndarray, " images"]


class Colours(NamedTuple):
    """Mean and deviation of the pixels on the scale from 0 to 1: one for all, or one per channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def reading(self, pixels: str) -> tuple[Factor, Factor]:
        """Scale and shift that read bytes as numbers from 0 to 1, or with mean 0 and deviation 1."""
        if pixels == "unit":
            return 1 / 255, 0.0
        if pixels != "standard":
            raise ValueError(f"pixels is {pixels!r}; it must be 'standard' (mean 0, deviation 1) or 'unit' (0 to 1)")
        return tuple(1 / (255 * d) for d in self.deviation), tuple(-m / d for m, d in zip(*self, strict=True))


@dataclass(frozen=True)
class ImageOptions:
    """The arguments that image tasks share: how images are dealt to clients, and the model."""

    num_clients: Count = 100
    partition: Way | Partitioner = "dirichlet"
    alpha: Positive = 0.5  # of the Dirichlet law; small means few classes per client
    min_size: Count = 10  # training and validation images of a client, under the Dirichlet law and the power law
    clusters: int | None = None  # of consecutive clients that share one law of labels; each has its own if None
    swapped_pairs: CountOrZero = 0  # labels exchanged in the second group of clients
    groups: Groups = "halves"  # of clients: the first and the second half, or by a coin per client ("random")
    model: ModelName = "linear"
    hidden: Sequence[Count] = (200, 200)  # widths of the hidden layers of "mlp"
    ridge: NotNegative = 0.01  # factor of the penalty ½ ‖w‖²
    importance: Literal["size", "uniform"] = "size"  # a client counts by its training images, or all alike
    validation: Share = 0.2  # share of each client's training images
    test_set: TestSet = "by_client"  # by the clients' own laws, or one set as it is ("common")
    pixels: Pixels = "standard"  # mean 0 and deviation 1, or from 0 to 1 ("unit")
    shrink: Count = 1  # each square of so many by so many pixels becomes one, their mean
    num_images: int | None = None  # of the training images; the other sets shrink alike
    seed: Seed = 0
    per_client: Count = 2  # classes ("pathological") or shards ("shards") of a client
    exponent: NotNegative = 1.0  # of the power law of the clients' sizes
    similarity: Share = 0.0  # of "one_class_a_client": share of the images that are dealt to all clients evenly
    augment: Augment | None = None  # random crops and flips of the images that clients train on
    adapt: Adapt | None = None  # train adapters of a base that is in a folder, instead of the whole model

    def deal(self, images: Images) -> tuple[Images, ways.Owners]:
        """The training images that the partition gives to clients, and the owner of each."""
        clusters = self.num_clients if self.clusters is None else self.clusters
        if not 1 <= clusters <= self.num_clients or self.num_clients % clusters:
            raise ValueError(f"clusters is {clusters}; it must be a divisor of the {self.num_clients} clients")
        members = self.num_clients // clusters
        owners = deal(
            self.partition,
            images.labels,
            clusters,
            self.seed,
            alpha=self.alpha,
            min_size=self.min_size * members,
            per_client=self.per_client,
            exponent=self.exponent,
            similarity=self.similarity,
        )
        if (owners < 0).any():
            images, owners = Images(*(array[owners >= 0] for array in images)), owners[owners >= 0]
        return images, owners if members == 1 else ways.share_out(owners, members, self.seed)

    def sample(self, images: Images, share: float) -> Images:
        """A random share of the images, one at least, in their order."""
        if share == 1:
            return images
        count = max(1, round(share * images.labels.size))
        rows = np.sort(np.random.default_rng(self.seed).choice(images.labels.size, count, replace=False))
        return Images(*(array[rows] for array in images))

    def swap(self, labels: ways.Labels, owners: ways.Owners, num_classes: int) -> ways.Labels:
        """Labels as the clients see them."""
        second = ways.draw_groups(self.num_clients, self.groups, np.random.default_rng(self.seed))
        return ways.swap_labels(labels, owners, second, ways.random_pairs(num_classes, self.swapped_pairs, self.seed))


def smaller(pixels: np.ndarray, side: int) -> np.ndarray:
    """Images in which each square of so many by so many pixels has become one, their mean."""
    count, height, width, *channels = pixels.shape
    if side == 1:
        return pixels
    if height % side or width % side:
        raise ValueError(f"shrink is {side}; it must divide {height} and {width}, the height and width of the images")
    squares = pixels.reshape(count, height // side, side, width // side, side, *channels)
    sums = squares.sum(axis=(2, 4), dtype=np.int64)  # whole numbers: the same bytes on every machine
    return ((sums + side * side // 2) // (side * side)).astype(np.uint8)


# Long: one step after another, from images to a task.
def image_task(
    train: Images, test: Images, options: ImageOptions, colours: Colours, validation: Images | None = None
) -> DataTask:
    """Deal the training images as the options say, and the other images accordingly.

    Test images follow the clients' own laws (`partition.alike`), or are one common set. That belongs to client 0 and
    the others have none, so that a mean over the clients is the accuracy on the whole set. Validation images that
    come as a set of their own are dealt like test images, and no training images are held out.
    """
    num_classes, seed = int(train.labels.max()) + 1, options.seed
    train, test = (each._replace(pixels=smaller(each.pixels, options.shrink)) for each in (train, test))
    validation = validation and validation._replace(pixels=smaller(validation.pixels, options.shrink))
    share = 1.0 if options.num_images is None else check_share(options.num_images, train.labels.size)
    train, owners = options.deal(options.sample(train, share))
    test = options.sample(test, share)
    held_out = 0.0 if validation is not None else options.validation
    parts = [(train, owners, ways.divide(owners, held_out, 0.0, seed))]
    for mark, images in ((ways.VALIDATION, validation and options.sample(validation, share)), (ways.TEST, test)):
        if images is not None:
            followers = ways.alike(images.labels, train.labels, owners, options.num_clients, seed)
            parts.append((images, followers, np.full(followers.size, mark, np.int8)))
    labels = [options.swap(images.labels, owned, num_classes) for images, owned, _ in parts]
    everyone = [owned for _, owned, _ in parts]
    if options.test_set == "common":
        labels[-1], everyone[-1] = test.labels, np.zeros_like(everyone[-1])
    elif options.test_set != "by_client":
        raise ValueError(f"test_set is {options.test_set!r}; it must be 'by_client' or 'common'")
    scale, shift = colours.reading(options.pixels)
    return from_pool(
        np.concatenate([images.pixels for images, _, _ in parts]),
        np.concatenate(labels),
        np.concatenate(everyone),
        np.concatenate([marks for _, _, marks in parts]),
        model=on_base(
            model_named(options.model, train.pixels.shape[1:], num_classes, tuple(options.hidden)), options.adapt
        ),
        ridge=options.ridge,
        importance=options.importance,
        num_clients=options.num_clients,
        scale=scale,
        shift=shift,
        augment=options.augment,
    )


def check_share(num_images: int, in_all: int) -> float:
    if not 1 <= num_images <= in_all:
        raise ValueError(f"num_images is {num_images}; there are {in_all} training images to choose from")
    return num_images / in_all
