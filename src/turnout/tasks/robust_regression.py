"""Robust regression on Gaussian data, smooth and not convex (Sun et al. 2024, section 6)."""

import numpy as np

from turnout.declarations import Count, Seed, checked
from turnout.tasks.arrays import from_pool
from turnout.tasks.data.checks import check_amount
from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.partition import TRAIN
from turnout.tasks.models.model import linear


@checked
def robust_regression(
    num_clients: Count = 100, dimension: Count = 20, samples_per_client: Count = 100, seed: Seed = 0
) -> DataTask:
    """Minimise the mean of f_i(x) = (1/n) Σ_j log(½ (⟨A_i[j], x⟩ + b_i[j])² + 1) over the clients i = 1 … N.

    Entries of A_i are N(0, (0.5 i)^-2): later clients have smaller features. A level a ~ N(0, 100) is drawn once,
    μ_i ~ N(a, 1), θ_i ~ N(μ_i 1, I) and b_i = A_i θ_i + N(0, ¼ I). With the plus sign, which is the paper's, client i
    is best served near −θ_i. All data train, as in the paper, and all clients count the same.
    """
    check_amount(clients=num_clients, samples=samples_per_client, features=dimension)
    generator = np.random.default_rng(seed)
    deviation = 2 / np.arange(1, num_clients + 1)
    features = deviation[:, None, None] * generator.standard_normal((num_clients, samples_per_client, dimension))  # A
    level = 10 * generator.standard_normal()  # a
    mean = level + generator.standard_normal(num_clients)  # μ
    reference = mean[:, None] + generator.standard_normal((num_clients, dimension))  # θ
    noise = 0.5 * generator.standard_normal((num_clients, samples_per_client))
    answers = np.einsum("ijd,id->ij", features, reference) + noise  # b
    owners = np.repeat(np.arange(num_clients), samples_per_client)
    return from_pool(
        features.reshape(-1, dimension).astype(np.float32),
        answers.reshape(-1).astype(np.float32),
        owners,
        np.full(owners.size, TRAIN),
        model=linear(dimension, 1, bias=False),
        loss="log_quadratic",
        importance="uniform",
    )
