"""Two groups that are never available together: the world in which plain averaging forgets one of them."""

from collections.abc import Sequence
from typing import Annotated

import jax.numpy as jnp
import numpy as np

from turnout.availability.cyclic import Cyclic
from turnout.declarations import Count, Numbers, checked
from turnout.declarations.arrays import membership


@checked
def alternating(
    num_clients: Annotated[int, Numbers(2, 2**31 - 1)], t1: Count, t2: Count, groups: Sequence[int] | None = None
) -> Cyclic:
    """Build the process in which the first group is available for t1 rounds, then the second for t2, and so on.

    The first group is the first half of the clients, unless `groups` gives 0 or 1 for each.
    """
    t1, t2 = t1, t2
    group = membership("groups", 2 if groups is None else groups, num_clients)
    if group.max() != 1:
        raise ValueError(f"groups are numbered 0 to {group.max()}: there must be two, 0 and 1")
    starts, lengths = np.array([0, t1]), np.array([t1, t2])
    return Cyclic(*(jnp.asarray(x, jnp.int32) for x in (t1 + t2, starts[group], lengths[group])))
