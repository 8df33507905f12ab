"""The state that clients keep from round to round: of their optimizer and of their uploads."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout import tree
from turnout.types import Cohort, Params, SlotMask
from turnout.uploads.base import Upload


class ClientState(eqx.Module):
    """One row per client, or per slot while a cohort works; None where nothing is kept."""

    optimizer: Any
    uploads: Any

    @classmethod
    def empty(cls, params: Params, optimizer: Any, upload: Upload | None, num_clients: int) -> ClientState | None:
        """State of clients that have not worked yet, or None if there is nothing to remember."""
        fresh = cls(optimizer, None if upload is None else upload.init(params))
        if not jax.tree.leaves(fresh):
            return None
        return tree.repeat(jax.tree.map(jnp.asarray, fresh), num_clients)

    def after(self, cohort: Cohort, before: ClientState, rows: ClientState, trained: SlotMask) -> ClientState:
        """The state of all clients after a round in which the cohort began with `before` and ended with `rows`.

        Two rules, never one mask: the state of an optimizer changes where its client has trained, that of an upload
        only where it arrived, since server and client must agree on it. Rows that are not finite are not kept: they
        would stay so for ever.
        """
        optimizer = cohort.write(self.optimizer, before.optimizer, rows.optimizer, trained & _finite(rows.optimizer))
        arrived = cohort.arrived & _finite(rows.uploads)
        return ClientState(optimizer, cohort.write(self.uploads, before.uploads, rows.uploads, arrived))


def _finite(rows: Any) -> Any:
    """Which rows hold finite numbers only."""
    floats = [leaf for leaf in jax.tree.leaves(rows) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    whole = [jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in floats]
    return jnp.all(jnp.stack(whole), axis=0) if whole else jnp.asarray(True)
