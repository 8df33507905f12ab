"""Losses per sample, and whether an answer is correct."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Outputs = Float[Array, "batch outputs"]
Classes = Int[Array, " batch"]
Targets = Float[Array, " batch"]
PerSample = Float[Array, " batch"]


def cross_entropy(outputs: Outputs, labels: Classes) -> PerSample:
    """Negative log-probability of the label when the outputs are logits."""
    # Class-major, as models.linear forms them: the two transposes cancel. Comparing is cheaper than gathering.
    logits = outputs.T
    chosen = jnp.arange(logits.shape[0], dtype=labels.dtype)[:, None] == labels[None, :]
    # A plain log-sum-exp: jax.nn.logsumexp guards against infinities at a tenth of the time of a whole local step.
    largest = jax.lax.stop_gradient(jnp.max(logits, axis=0, keepdims=True))
    total = jnp.sum(jnp.exp(logits - largest), axis=0)
    return jnp.log(total) + largest[0] - jnp.sum(jnp.where(chosen, logits, 0.0), axis=0)


def logistic(outputs: Outputs, labels: Classes) -> PerSample:
    """Negative log-probability of a label in {0, 1} when the only output is its log-odds."""
    log_odds = outputs[:, 0]
    return jax.nn.softplus(jnp.where(labels == 1, -log_odds, log_odds))


def squared(outputs: Outputs, labels: Targets) -> PerSample:
    """Half the squared error of the only output."""
    return 0.5 * (outputs[:, 0] - labels) ** 2


def log_quadratic(outputs: Outputs, labels: Targets) -> PerSample:
    """The robust loss log(½ (⟨a, x⟩ + b)² + 1) of Sun et al. 2024, where the label is added to the output."""
    return jnp.log1p(0.5 * (outputs[:, 0] + labels) ** 2)


def likeliest(outputs: Outputs, labels: Classes) -> PerSample:
    """One where the largest output is the label's."""
    return (jnp.argmax(outputs, axis=1).astype(labels.dtype) == labels).astype(outputs.dtype)


def right_side(outputs: Outputs, labels: Classes) -> PerSample:
    """One where the sign of the log-odds is the label's."""
    return ((outputs[:, 0] > 0) == (labels == 1)).astype(outputs.dtype)


@dataclass(frozen=True)
class Loss:
    """How a model's outputs are judged against the labels."""

    per_sample: Callable[[Array, Array], Array]
    correct: Callable[[Array, Array], Array] | None  # None for regression
    labels: Literal["class", "binary", "real"]


LOSSES: dict[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, likeliest, "class"),
    "logistic": Loss(logistic, right_side, "binary"),
    "squared": Loss(squared, None, "real"),
    "log_quadratic": Loss(log_quadratic, None, "real"),
}


def loss_named(loss: str | Loss) -> Loss:
    """A loss by its name; a loss stays what it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; it must be one of {', '.join(LOSSES)}, or a Loss")
    return LOSSES[loss]
