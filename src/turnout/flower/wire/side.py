"""The client's part of a strategy: how an order describes it, and how a node builds it from the order.

Both ends stand here, and nothing else in this room knows what clients do besides training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from turnout.flower.wire.messages import FADING, PER_WORK, wants_memory
from turnout.strategies.base import Strategy
from turnout.types import ClientMemory
from turnout.uploads import Difference, Upload
from turnout.uploads.base import all_parts


def to_config(strategy: Strategy) -> dict[str, float | bool]:
    """What an order says of the memory that clients have of what they have sent; empty if they have none."""
    memory = strategy.client_memory
    return {} if memory is None else {FADING: float(memory.fading), PER_WORK: memory.per_work}


def from_config(upload: Upload, config: Mapping[str, Any]) -> Upload:
    """The client's own transform, inside the memory that an order wants it to have."""
    if not wants_memory(config):
        return upload
    memory = ClientMemory(jnp.asarray(config[FADING], jnp.float32), per_work=bool(config[PER_WORK]))
    return Difference(upload, memory)


def refuse_difference(upload: Upload) -> None:
    """Raise a ValueError if a client's own transform holds what only an order can want."""
    if any(isinstance(part, Difference) for part in all_parts(upload)):
        raise ValueError(
            "Difference is placed by strategies with their memory on the clients, such as "
            "LastWord(memory='clients'): give the transform inside alone"
        )
