"""How old remembered words are: MIFA, FedVARP, CA²FL, ACE and LastWord weigh all clients right, but use old words."""

from __future__ import annotations

import numpy as np

from turnout.declarations import checked
from turnout.theory.time.arrivals import BufferedArrivals


@checked
def word_ages(arrivals: BufferedArrivals) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square of the age, in ticks, of the last used word of each client, at a random tick.

    A word is E W_k + b old when it is used, and waits for the next one: with Y the ticks between uses

        E age = E W + b + ½ (E Y²/E Y − 1),      E age² = E (W + b)² + 2 E (W + b) E R + E R²,

    R the ticks since the use. Its square takes the third moment of Y from a gamma law. In versions: divided by the
    ticks per step. Only buffers of at most a sixth of the clients know the variance of Y; others are refused.
    """
    if np.isnan(arrivals.cycle_variance).any():
        raise ValueError(
            "these arrivals have no variance of the time between uses: take a buffer of at most a sixth of the clients"
        )
    cycle = 1 / arrivals.rates
    relative = arrivals.cycle_variance / cycle**2
    since = (cycle * (1 + relative) - 1) / 2
    since_square = (2 * cycle**2 * (1 + relative) * (1 + 2 * relative) - 3 * cycle * (1 + relative) + 1) / 6
    used = arrivals.work + arrivals.buffer_wait
    used_square = arrivals.work_second + 2 * arrivals.work * arrivals.buffer_wait + arrivals.buffer_wait**2
    return used + since, used_square + 2 * used * since + since_square
