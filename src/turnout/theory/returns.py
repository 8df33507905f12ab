"""How long a chain stays away from a set of states."""

from __future__ import annotations

import numpy as np

from turnout.arguments import at_least
from turnout.theory.chains import Transition, check_transition, num_states, stationary_law


def return_law(transition: Transition, inside: np.ndarray, longest: int) -> np.ndarray:
    """P(the chain comes back to a set of states s rounds after a visit), s = 1 … longest, in the long run.

    With ν the stationary law given that the state is inside, Q the transitions that end outside and r(x) the
    probability to step inside from x: P(return after s) = ν Q^{s-1} r. 1 minus their sum is the probability of a longer
    absence. By Kac's formula the mean is one over the stationary probability of the set.
    """
    matrix = check_transition(transition)
    longest = at_least("longest", longest, 1)
    if inside.shape != (num_states(matrix),):
        raise ValueError(
            f"inside has shape {inside.shape}: must be one truth value for each of {num_states(matrix)} states"
        )
    in_set = inside.astype(bool)
    if not in_set.any():
        raise ValueError("inside names no state: at least one must be in the set")
    now = np.where(in_set, stationary_law(matrix), 0.0)
    now /= now.sum()
    law = np.empty(longest)
    for s in range(longest):
        after = now @ matrix
        law[s] = after[in_set].sum()
        now = np.where(in_set, 0.0, after)
    return law
