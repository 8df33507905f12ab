"""Ways to draw a cohort, shared by several strategies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from turnout.types import Ask, Fleet, Mask, PerClient, RandomKey, Scalar, View, divide


def check_cohort(cohort: Scalar | None, fleet: Fleet) -> None:
    """Refuse a cohort that the fleet cannot fill."""
    if cohort is not None and not 1 <= float(cohort) <= fleet.num_clients:
        raise ValueError(
            f"cohort must be between 1 and the {fleet.num_clients} clients of the fleet, not {float(cohort):g}"
        )


def largest(scores: PerClient, among: Mask, budget: Scalar, slots: int) -> Mask:
    """The `budget` clients of highest score among the given ones, all of them if there are fewer.

    `top_k` over a fixed number of slots, masked by the traced budget: a full sort of a million clients costs a hundred
    times more. Ties go to the lower index.
    """
    most = min(slots, among.shape[0])
    ranked, ids = jax.lax.top_k(jnp.where(among, scores, -jnp.inf), most)
    chosen = (jnp.arange(most) < budget) & (ranked > -jnp.inf)
    return jnp.zeros_like(among).at[ids].set(chosen)


def without_replacement(key: RandomKey, among: Mask, budget: Scalar, slots: int) -> Mask:
    """`budget` clients drawn uniformly among the given ones."""
    return largest(jr.uniform(key, among.shape), among, budget, slots)


def with_replacement(
    key: RandomKey, odds: PerClient, budget: Scalar, slots: int, members: Mask | None = None
) -> PerClient:
    """How often each client comes up in `budget` independent draws with probability proportional to its odds.

    Inverts the distribution function in two levels, block then client, so that single precision is enough for a million
    clients. At most `slots` draws; none where all odds are zero. Vacant places behind the last of the `members` do not
    change what is drawn.
    """
    blocks, width = _in_blocks(odds, members)
    totals = jnp.sum(blocks, axis=1)
    block_key, client_key = jr.split(key)
    block = _invert(jnp.cumsum(totals), jr.uniform(block_key, (slots,)))
    inside = jax.vmap(lambda row, u: _invert(jnp.cumsum(row), u))
    ids = block * width + inside(blocks[block], jr.uniform(client_key, (slots,)))
    drawn = (jnp.arange(slots) < budget) & (jnp.sum(totals) > 0)
    return jnp.zeros_like(odds).at[ids].add(drawn.astype(odds.dtype), mode="drop")


def ask_uniformly(view: View, key: RandomKey, cohort: Scalar | None) -> Ask:
    """`cohort` available clients drawn uniformly, or all of them, each with its target as weight."""
    if cohort is None:
        return Ask.of(view.available, view.target)
    return Ask.of(without_replacement(key, view.available, cohort, view.slots), view.target)


def ask_by_odds(view: View, key: RandomKey, cohort: Scalar, odds: PerClient) -> Ask:
    """`cohort` draws with replacement among the available, by the given odds, each of weight 1 / `cohort`."""
    copies = with_replacement(key, jnp.where(view.available, odds, 0.0), cohort, view.slots, view.members)
    share = divide(jnp.ones(()), jnp.asarray(cohort, copies.dtype))
    return Ask(copies, jnp.full_like(copies, share), jnp.ones_like(copies))


def _in_blocks(odds: PerClient, members: Mask | None) -> tuple[Float[Array, "blocks width"], int | Int[Array, ""]]:
    """The odds in about √N blocks of about √N clients, zero behind the last client, and the width of a block."""
    num_places = odds.shape[0]
    most = max(1, round(num_places**0.5))
    if members is None:
        return jnp.pad(odds, (0, -num_places % most)).reshape(-1, most), most
    num_clients = jnp.max(jnp.where(members, jnp.arange(1, num_places + 1), 1))
    width = jnp.round(jnp.sqrt(num_clients.astype(jnp.float32))).astype(jnp.int32)
    block, inside = jnp.indices((most + 1, most))
    return jnp.where(inside < width, odds.at[block * width + inside].get(mode="fill", fill_value=0), 0.0), width


def _invert(cumulative: Float[Array, " steps"], uniform: Float[Array, "*draws"]) -> Int[Array, "*draws"]:
    """Index of the first step that exceeds the uniform share of the total; a step of height zero is never it."""
    total = cumulative[-1]
    height = jnp.minimum(uniform * total, jnp.nextafter(total, jnp.zeros_like(total)))
    return jnp.minimum(jnp.searchsorted(cumulative, height, side="right"), cumulative.shape[0] - 1)
