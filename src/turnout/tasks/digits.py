"""Scikit-learn's handwritten digits, 1,797 images of 8 × 8: real data without a download."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from turnout.declarations import Count, CountOrZero, NotNegative, Positive, Seed, Share, checked
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.dealing import Partitioner, Way, deal
from turnout.tasks.data.partition import TRAIN, divide, draw_groups, random_pairs, swap_labels
from turnout.tasks.models.model import linear, mlp

NUM_PIXELS, NUM_CLASSES, BRIGHTEST = 64, 10, 16
MIN_SIZE = 5  # so that with the default shares every client has training, validation and test images


# Long: the docstring explains many arguments.
@checked
def digits(  # noqa: PLR0913 (the keys of a task's table)
    num_clients: Count = 20,
    partition: Way | Literal["shared"] | Partitioner = "dirichlet",
    alpha: Positive = 0.5,
    samples_per_client: Count = 10,
    swapped_pairs: CountOrZero = 0,
    model: Literal["linear", "mlp"] = "linear",
    hidden: Sequence[Count] = (200, 200),
    ridge: NotNegative = 0.01,
    importance: Literal["size", "uniform"] = "size",
    validation: Share = 0.2,
    test: Share = 0.2,
    seed: Seed = 0,
    per_client: Count = 2,
    exponent: NotNegative = 1.0,
) -> DataTask:
    """Classify digits that are spread over the clients.

    Shares `validation` and `test` of each client's images are held out. `alpha` is for "dirichlet" and `exponent` for
    "power_law", whose clients get five images at least; `per_client` is the number of classes ("pathological") or
    shards ("shards") of a client. "shared" is for huge fleets: images are held out first, then each client draws
    `samples_per_client` of the others, so that clients overlap; the held-out images are dealt to the clients in turn,
    one each where clients are many, and the last ones have none. The second half of the clients see `swapped_pairs`
    random pairs of labels exchanged, as in CA-Fed's conference paper.
    """
    images, labels = load()
    if partition == "shared":
        rows, owners, parts = share(labels.size, num_clients, samples_per_client, validation, test, seed)
    else:
        options = {"alpha": alpha, "min_size": MIN_SIZE, "per_client": per_client, "exponent": exponent}
        owners = deal(partition, labels, num_clients, seed, **options)
        (rows,) = np.nonzero(owners >= 0)
        owners = owners[rows]
        parts = divide(owners, validation, test, seed)
    second_half = draw_groups(num_clients, "halves", np.random.default_rng(seed))
    pairs = random_pairs(NUM_CLASSES, swapped_pairs, seed)
    return from_pool(
        images,
        swap_labels(labels[rows], owners, second_half, pairs),
        owners,
        parts,
        rows,
        model=mlp(NUM_PIXELS, tuple(hidden), NUM_CLASSES) if model == "mlp" else linear(NUM_PIXELS, NUM_CLASSES),
        ridge=ridge,
        importance=importance,
        num_clients=num_clients,
        scale=1 / BRIGHTEST,
    )


def load() -> tuple[np.ndarray, np.ndarray]:
    """The images as bytes from 0 to 16, and their digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the digits come with scikit-learn: pip install scikit-learn") from error
    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype(np.uint8), labels.astype(np.int64)


def share(
    num_images: int, num_clients: int, samples_per_client: int, validation: float, test: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, owners and parts when every client draws from one common pool of training images."""
    if num_clients < 1 or samples_per_client < 1:
        raise ValueError(f"{num_clients} clients of {samples_per_client} samples: both must be at least 1")
    of_pool = divide(np.zeros(num_images, np.int64), validation, test, seed)
    (held_out,) = np.nonzero(of_pool != TRAIN)
    drawn = np.random.default_rng(seed).choice(np.flatnonzero(of_pool == TRAIN), num_clients * samples_per_client)
    owners = [np.repeat(np.arange(num_clients), samples_per_client), np.arange(held_out.size) % num_clients]
    parts = [np.full(drawn.size, TRAIN, of_pool.dtype), of_pool[held_out]]
    return np.concatenate([drawn, held_out]), np.concatenate(owners), np.concatenate(parts)
