"""Logistic regression, in numpy: the data of a client, and what it computes on them."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

NUM_FEATURES = 8
TRUTH = np.random.default_rng(0).normal(size=NUM_FEATURES)

Samples = tuple[np.ndarray, np.ndarray]


def own_data(node_config: Mapping[str, Any]) -> Samples:
    """The arrays `inputs` and `labels` of the file that the node's config names, else generated ones."""
    if "data" in node_config:
        with np.load(node_config["data"], allow_pickle=False) as file:
            return file["inputs"].astype(np.float32), file["labels"].astype(np.float32)
    if "client-id" not in node_config and "partition-id" not in node_config:
        raise ValueError("this node has no data: start it with --node-config 'data=\"/path/to/samples.npz\"'")
    return made_up(node_config.get("client-id", node_config.get("partition-id")))


def made_up(client: object) -> Samples:
    """Generated samples, always the same for a client: its own centre of inputs, one common truth for labels."""
    draw = np.random.default_rng(zlib.crc32(str(client).encode()))
    inputs = draw.normal(size=(200, NUM_FEATURES)) + draw.normal(scale=0.5, size=NUM_FEATURES)
    labels = draw.random(200) < _sigmoid(2.0 * inputs @ TRUTH)
    return inputs.astype(np.float32), labels.astype(np.float32)


def loss_of(model: list[np.ndarray], inputs: np.ndarray, labels: np.ndarray) -> float:
    logits = inputs @ model[0] + model[1]
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits))


def gradient(model: list[np.ndarray], inputs: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    gap = (_sigmoid(inputs @ model[0] + model[1]) - labels) / np.float32(len(labels))
    return [inputs.T @ gap, gap.sum(keepdims=True)]


def accuracy(model: list[np.ndarray], inputs: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean((inputs @ model[0] + model[1] > 0) == (labels > 0.5)))


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-logits))
