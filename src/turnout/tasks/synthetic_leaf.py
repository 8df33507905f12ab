"""LEAF's synthetic(γ, δ): softmax clients whose models and inputs differ by given amounts (as in CA-Fed)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from turnout.declarations import Count, NotNegative, Numbers, Seed, Share, checked
from turnout.tasks.arrays import from_pool
from turnout.tasks.data import partition
from turnout.tasks.data.checks import check_amount
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.models.model import linear


# Long: the docstring explains many arguments.
@checked
def synthetic_leaf(  # noqa: PLR0913 (the keys of a task's table)
    num_clients: Count = 100,
    gamma: NotNegative = 0.5,
    delta: NotNegative = 0.5,
    samples_per_client: int | Sequence[int] | Literal["lognormal"] = "lognormal",
    num_features: Count = 60,
    num_classes: Annotated[int, Numbers(2, 2**31 - 1)] = 10,
    ridge: NotNegative = 0.01,
    importance: Literal["size", "uniform"] = "size",
    validation: Share = 0.1,
    test: Share = 0.1,
    iid: bool = False,
    seed: Seed = 0,
) -> DataTask:
    """Multinomial logistic regression on the generator that CA-Fed takes from FedProx (Rodio et al. 2023, app. G1).

    Client k draws μ_k ~ N(0, γ²) and a model W_k, b_k with entries N(μ_k, 1); B_k ~ N(0, δ²), a centre v_k with entries
    N(B_k, 1) and inputs x with independent entries N(v_kj, j^-1.2); the label is argmax(W_k x + b_k). Its number of
    samples is 50 + ⌊LogNormal(4, 2²)⌋, a power law in the words of the paper, or as given: one number for all, or one
    for each of as many equal groups of clients, in index order. Shares `validation` and `test` of each client's samples
    are held out. Even γ = δ = 0 gives every client a model and a centre of its own; with `iid` one model, of mean 0,
    serves all and all centres are 0, as FedProx and the public code of CA-Fed have it for data that are alike.

    Deviation: the paper prints j^-1.2 as a standard deviation and γ, δ as if variances; FedProx and its own public code
    take j^-1.2 as a variance and γ, δ as standard deviations, and so does this.
    """
    if iid and (gamma > 0 or delta > 0):
        raise ValueError(f"iid clients do not differ: gamma={gamma} and delta={delta} must be 0")
    if num_clients < 1 or num_features < 1 or num_classes < 2 or gamma < 0 or delta < 0:
        raise ValueError(
            f"num_clients={num_clients}, num_features={num_features}, num_classes={num_classes}, gamma={gamma}, "
            f"delta={delta}: counts must be positive, classes at least 2, gamma and delta not negative"
        )
    generator = np.random.default_rng(seed)
    sizes = draw_sizes(num_clients, samples_per_client, generator)
    check_amount(samples=int(sizes.sum()), features=num_features)
    check_amount(clients=num_clients, features=num_features, classes=num_classes)
    owners = np.repeat(np.arange(num_clients), sizes)
    inputs, labels = draw_samples(owners, num_clients, num_features, num_classes, gamma, delta, generator, iid)
    return from_pool(
        inputs.astype(np.float32),
        labels,
        owners,
        partition.divide(owners, validation, test, seed),
        model=linear(num_features, num_classes),
        ridge=ridge,
        importance=importance,
    )


def draw_sizes(
    num_clients: int, samples_per_client: int | Sequence[int] | Literal["lognormal"], generator: np.random.Generator
) -> np.ndarray:
    if samples_per_client == "lognormal":
        return 50 + generator.lognormal(4.0, 2.0, num_clients).astype(np.int64)
    if isinstance(samples_per_client, str) or np.size(samples_per_client) < 1 or np.min(samples_per_client) < 1:
        raise ValueError(
            f"samples_per_client is {samples_per_client!r}; it must be 'lognormal', a positive number or a list of them"
        )
    groups = np.atleast_1d(samples_per_client)
    if num_clients % groups.size:
        raise ValueError(
            f"samples_per_client has {groups.size} numbers, which is no divisor of the {num_clients} clients: "
            "each number is for a group, and all groups are equally large"
        )
    return np.repeat(groups, num_clients // groups.size)


def draw_samples(
    owners: np.ndarray,
    num_clients: int,
    num_features: int,
    num_classes: int,
    gamma: float,
    delta: float,
    generator: np.random.Generator,
    iid: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of samples that are grouped by owner."""
    model_mean = gamma * generator.standard_normal(num_clients)  # μ
    input_mean = delta * generator.standard_normal(num_clients)  # B
    apart = 0.0 if iid else 1.0  # spread of the centres beside γ and δ
    centre = input_mean[:, None] + apart * generator.standard_normal((num_clients, num_features))  # v
    deviation = np.arange(1, num_features + 1) ** -0.6  # the square root of the variance j^-1.2
    inputs = centre[owners] + deviation * generator.standard_normal((owners.size, num_features))
    labels = np.empty(owners.size, np.int64)
    ends = np.cumsum(np.bincount(owners, minlength=num_clients))
    weight, bias = np.zeros((num_classes, num_features)), np.zeros(num_classes)
    for k, own in enumerate(np.split(inputs, ends[:-1])):
        if k == 0 or not iid:
            weight = model_mean[k] + generator.standard_normal((num_classes, num_features))
            bias = model_mean[k] + generator.standard_normal(num_classes)
        labels[ends[k] - len(own) : ends[k]] = np.argmax(own @ weight.T + bias, axis=1)
    return inputs, labels
