"""Two groups that label alike inputs differently: the binary data of CA-Fed (Rodio et al. 2023, INFOCOM, app. F)."""

from typing import Literal

import numpy as np

from turnout.declarations import Count, CountOrZero, NotNegative, Seed, Share, checked
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.checks import check_amount
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TEST, TRAIN, VALIDATION, draw_groups
from turnout.tasks.models.model import linear


# Long: the docstring explains many arguments.
@checked
def synthetic_binary(  # noqa: PLR0913 (the keys of a task's table)
    num_clients: Count = 24,
    num_features: Count = 10,
    samples_per_client: Count = 150,
    validation_per_client: CountOrZero = 50,
    test_per_client: CountOrZero = 150,
    flip: Share = 0.2,
    groups: Literal["random", "halves"] = "random",
    ridge: NotNegative = 0.01,
    importance: Literal["size", "uniform"] = "size",
    seed: Seed = 0,
) -> DataTask:
    """Logistic regression where half of the clients see each label flipped with probability `flip`.

    One model w* ~ N(0, I) serves all; inputs are N(0, I). Clients of the first group draw labels with probability
    σ(⟨w*, x⟩), those of the second with (1 − flip) σ + flip (1 − σ). A client's group is drawn with a coin, as in the
    paper, or the groups are the two halves of the clients, as in its public code.

    The paper gives neither the dimension nor the number of test samples; its public code has 10 and, in the script of
    its table, 150. The `samples_per_client` samples are all for training, the others are drawn in addition.
    """
    counts = {TRAIN: samples_per_client, VALIDATION: validation_per_client, TEST: test_per_client}
    check_amount(clients=num_clients, samples=sum(counts.values()), features=num_features)
    generator = np.random.default_rng(seed)
    second = draw_groups(num_clients, groups, generator)
    model = generator.standard_normal(num_features)  # w*
    owners = np.repeat(np.arange(num_clients), sum(counts.values()))
    parts = np.tile(np.repeat(list(counts), list(counts.values())), num_clients)
    inputs = generator.standard_normal((owners.size, num_features))
    likely = 1 / (1 + np.exp(-inputs @ model))
    likely = np.where(second[owners], (1 - flip) * likely + flip * (1 - likely), likely)
    return from_pool(
        inputs.astype(np.float32),
        (generator.random(owners.size) < likely).astype(np.int64),
        owners,
        parts,
        model=linear(num_features, 1),
        loss="logistic",
        ridge=ridge,
        importance=importance,
    )
