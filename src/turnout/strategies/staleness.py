"""How a step counts updates that were asked for by earlier versions of the model, shared by several strategies."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Float

from turnout.types import Array, Cohort, PerSlot, Scalar, View

Number = Float[Array, ""]
Discount = Literal["constant", "polynomial", "hinge"]


def check_positive(**named: Scalar | None) -> None:
    """Raise a ValueError for a number that is given and not above zero."""
    for name, value in named.items():
        if value is not None and not 0 < float(value) < float("inf"):
            raise ValueError(f"{name} must be a positive number, not {value}")


def check_not_negative(**named: Scalar | None) -> None:
    """Raise a ValueError for a number that is given and below zero."""
    for name, value in named.items():
        if value is not None and not 0 <= float(value) < float("inf"):
            raise ValueError(f"{name} must be a number of 0 or more, not {value}")


def polynomial(age: Array, exponent: Scalar) -> Array:
    """(1 + age)^-exponent."""
    return (1.0 + age) ** -jnp.asarray(exponent, jnp.float32)


def hinge(age: Array, slope: Scalar, within: Scalar) -> Array:
    """1 up to the age `within`, then 1 / (slope (age - within) + 1)."""
    beyond = jnp.maximum(age - jnp.asarray(within, jnp.float32), 0.0)
    return 1.0 / (jnp.asarray(slope, jnp.float32) * beyond + 1.0)


def discounted(discount: Discount, age: Array, exponent: Scalar, slope: Scalar, within: Scalar) -> Array:
    """The factor of an update of this age, by the discount of that name."""
    if discount == "polynomial":
        return polynomial(age, exponent)
    if discount == "hinge":
        return hinge(age, slope, within)
    return jnp.ones_like(age)


def num_arrived(cohort: Cohort) -> Number:
    """M, the updates that this step uses."""
    return jnp.sum(cohort.arrived, dtype=jnp.float32)


def num_awaited(view: View, cohort: Cohort) -> Number:
    """K, the updates that one step waits for; what has arrived, and one at least, where the pace has no such number."""
    if view.goal is not None:
        return jnp.asarray(view.goal, jnp.float32)
    return jnp.maximum(num_arrived(cohort), 1.0)


def shares(view: View, cohort: Cohort, count: Scalar) -> PerSlot:
    """N α_k / `count` times the copies: the weight of each update where `count` of them make one step."""
    return cohort.take(view.target) * cohort.copies * (view.num_members / count)
