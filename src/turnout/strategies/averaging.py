"""The three ways to normalise an average of updates, shared by several strategies."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp

from turnout.strategies.sampling import ask_by_odds, ask_uniformly
from turnout.types import Ask, Cohort, PerSlot, RandomKey, Scalar, View, divide

Normaliser = Literal["received", "all", "draws"]


def check_normaliser(normaliser: Normaliser, cohort: Scalar | None) -> None:
    """Refuse `draws` without a cohort."""
    if cohort is None and isinstance(normaliser, str) and normaliser == "draws":  # its own check comes later
        raise ValueError("normaliser = 'draws' needs cohort, the number of draws per round")


def ask_to_average(view: View, key: RandomKey, cohort: Scalar | None, normaliser: Normaliser) -> Ask:
    """Draws by target with replacement for `draws`, else a uniform cohort or everyone available."""
    if normaliser == "draws" and cohort is not None:
        return ask_by_odds(view, key, cohort, view.target)
    return ask_uniformly(view, key, cohort)


def averaged(cohort: Cohort, normaliser: Normaliser) -> PerSlot:
    """Weight of each slot's update: as asked, or for `received` divided by the sum over the arrived updates."""
    weight = cohort.factors
    if normaliser != "received":
        return weight
    received = jnp.sum(jnp.where(cohort.arrived, weight, 0.0))
    return divide(weight, jnp.broadcast_to(received, weight.shape))
