"""Two groups that are never available together: the world in which plain averaging forgets one of them."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from turnout.arguments import at_least, membership
from turnout.availability.cyclic import Cyclic


def alternating(num_clients: int, t1: int, t2: int, groups: Sequence[int] | None = None) -> Cyclic:
    """Build the process in which the first group is available for t1 rounds, then the second for t2, and so on.

    The first group is the first half of the clients, unless `groups` gives 0 or 1 for each.
    """
    num_clients = at_least("num_clients", num_clients, 2)
    t1, t2 = at_least("t1", t1, 1), at_least("t2", t2, 1)
    group = membership("groups", 2 if groups is None else groups, num_clients)
    if group.max() != 1:
        raise ValueError(f"groups are numbered 0 to {group.max()}: there must be two, 0 and 1")
    starts, lengths = np.array([0, t1]), np.array([t1, t2])
    return Cyclic(*(jnp.asarray(x, jnp.int32) for x in (t1 + t2, starts[group], lengths[group])))
