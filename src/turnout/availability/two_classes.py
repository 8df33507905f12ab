"""The world of the CA-Fed papers: a more and a less available class, each partly correlated."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from turnout.availability.markov import Markov, lowest_correlation, switching_rates
from turnout.declarations import Count, NotNegative, Seed, Share, checked


@checked
def two_classes(
    num_clients: Count,
    mean: Share = 0.5,
    gap: NotNegative = 0.4,
    lam: float = 0.9,
    lam_noise: NotNegative = 0.01,
    split: Literal["both", "unavailable_only"] = "both",
    seed: Seed = 0,
    shuffle: bool = False,
) -> Markov:
    """Build Markov clients: half with π = mean + gap, half with π = mean - gap, and half of each class with a large λ.

    The other half of a class has λ ~ N(0, lam_noise²), truncated to the range that its π allows. With
    `split = "unavailable_only"` only the less available class has correlated clients. Index order: the more available
    class, then the less available one; within a class the correlated clients first. An odd client goes to the earlier
    part. `seed` draws the small λ and the shuffle.
    """
    _check(mean, gap, lam, lam_noise, split)
    rng = np.random.default_rng(seed)
    more = (num_clients + 1) // 2
    client = np.arange(num_clients)
    pi = np.where(client < more, mean + gap, mean - gap)
    rank = np.where(client < more, client, client - more)
    size = np.where(client < more, more, num_clients - more)
    correlated = rank < (size + 1) // 2
    if split == "unavailable_only":
        correlated &= client >= more
    lams = np.where(correlated, lam, _small_correlations(rng, pi, lam_noise))
    if shuffle:
        order = rng.permutation(num_clients)
        pi, lams = pi[order], lams[order]
    return Markov(*map(jnp.asarray, switching_rates(pi, lams)))


def _small_correlations(rng: np.random.Generator, pi: np.ndarray, noise: float) -> np.ndarray:
    """Normal draws truncated to the feasible range, by the inverse of the distribution function."""
    share = rng.random(pi.shape)
    if noise == 0:
        return np.zeros_like(pi)
    lowest = lowest_correlation(pi)
    below, upto = ndtr(lowest / noise), ndtr(1 / noise)
    return np.clip(noise * ndtri(below + share * (upto - below)), lowest, np.nextafter(1, 0))


def _check(mean: float, gap: float, lam: float, lam_noise: float, split: str) -> None:
    if not (gap >= 0 and mean - gap > 0 and mean + gap < 1):
        raise ValueError(f"mean = {mean:g}, gap = {gap:g}: gap must be >= 0 and mean ± gap must lie inside (0, 1)")
    if not lam_noise >= 0:
        raise ValueError(f"lam_noise = {lam_noise:g}: a standard deviation is at least 0")
    if split not in ("both", "unavailable_only"):
        raise ValueError(f'split = "{split}": must be "both" or "unavailable_only"')
    lowest = float(np.max(lowest_correlation(np.array([mean - gap, mean + gap]))))
    if not lowest <= lam < 1:
        raise ValueError(f"lam = {lam:g}: with mean = {mean:g} and gap = {gap:g} it must lie in [{lowest:.4g}, 1)")
