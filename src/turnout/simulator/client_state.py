"""The state that clients keep from round to round: of their optimizer, of their uploads and of the algorithm."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from turnout.types import Cohort, PyTree, SlotMask


class ClientState(eqx.Module):
    """One row per client, or per slot while a cohort works; None where nothing is kept."""

    optimizer: PyTree = None
    uploads: PyTree = None
    algorithm: PyTree = None  # of the strategy's client side

    def commit(self, cohort: Cohort, before: ClientState, after: ClientState, trained: SlotMask) -> ClientState:
        """The state of all clients after a round in which the cohort began with `before` and ended with `after`.

        Two rules, never one mask: the state of an optimizer changes where its client has trained, all other state only
        where its upload arrived, since server and client must agree on it. Rows that are not finite are not kept: they
        would stay so for ever.
        """
        arrived = cohort.arrived & _finite((after.uploads, after.algorithm))
        optimizer = trained & _finite(after.optimizer)
        return ClientState(
            cohort.write(self.optimizer, before.optimizer, after.optimizer, optimizer),
            cohort.write(self.uploads, before.uploads, after.uploads, arrived),
            cohort.write(self.algorithm, before.algorithm, after.algorithm, arrived & trained),
        )


def _finite(rows: PyTree) -> Bool[Array, "*slots"]:
    """Which rows hold finite numbers only."""
    floats = [leaf for leaf in jax.tree.leaves(rows) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    whole = [jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in floats]
    return jnp.all(jnp.stack(whole), axis=0) if whole else jnp.asarray(True)
