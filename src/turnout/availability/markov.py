"""Two-state chains, one per client: an available client tends to stay, an absent one tends to stay away."""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer

from turnout.availability.base import ErgodicProcess
from turnout.declarations import Count, Shares, checked
from turnout.declarations.arrays import refuse, spread
from turnout.declarations.kinds import as_array
from turnout.types import Mask, PerClient, RandomKey, Round

ROUNDING = 1e-9  # how far below its range a λ may lie and still count as the end of the range


class Markov(ErgodicProcess[Mask]):
    """Independent on/off chains: a client's next state depends on its present one."""

    wake: Shares  # P(off -> on) = (1 - λ) π
    sleep: Shares  # P(on -> off) = (1 - λ)(1 - π)

    def __check_init__(self) -> None:
        check_switches(self.wake, self.sleep)

    @property
    def num_clients(self) -> int:
        return self.wake.shape[-1]

    def init(self, key: RandomKey) -> Mask:
        return jr.bernoulli(key, self.stationary())

    def step(self, state: Mask, t: Round, key: RandomKey) -> tuple[Mask, Mask]:
        on = jr.bernoulli(key, jnp.where(state, 1 - self.sleep, self.wake))
        return on, on  # the state of the chain is what the server observes

    def stationary(self) -> PerClient:
        return self.wake / (self.wake + self.sleep)

    def correlation(self) -> PerClient:
        return 1 - self.wake - self.sleep


@checked
def markov(
    num_clients: Count,
    pi: float | Sequence[float] | None = None,
    lam: float | Sequence[float] | None = None,
    wake: float | Sequence[float] | None = None,
    sleep: float | Sequence[float] | None = None,
) -> Markov:
    """Build from stationary rate and correlation (`pi`, `lam`) or from the rates of change (`wake`, `sleep`).

    `lam` is 0 unless given. A client with π = 1 never leaves; its λ has no meaning and must be 0.
    """
    if pi is not None and wake is None and sleep is None:
        rates = switching_rates(spread("pi", pi, num_clients), spread("lam", 0.0 if lam is None else lam, num_clients))
    elif wake is not None and sleep is not None and pi is None and lam is None:
        rates = _check_rates(spread("wake", wake, num_clients), spread("sleep", sleep, num_clients))
    else:
        given = {"pi": pi, "lam": lam, "wake": wake, "sleep": sleep}
        names = [name for name, value in given.items() if value is not None]
        raise ValueError(f"{', '.join(names) or 'nothing'} given: give pi and lam, or wake and sleep")
    return Markov(*map(jnp.asarray, rates))


def check_switches(wake: object, sleep: object, of: str = "client") -> None:
    """Refuse chains that never change: they have no long-run rate. What are no rates is refused elsewhere."""
    if isinstance(wake, Tracer) or isinstance(sleep, Tracer):
        return
    first, second = as_array(wake), as_array(sleep)
    if first is not None and second is not None and first.shape == second.shape and first.ndim == 1:
        still = (first == 0) & (second == 0)
        refuse(still, lambda k: f"{of} {k} has wake = sleep = 0", "one of them must be above 0")


def lowest_correlation(pi: np.ndarray) -> np.ndarray:
    """The least λ a two-state chain can have at stationary rate π: max(1 - 1/π, 1 - 1/(1 - π))."""
    return -np.minimum(pi, 1 - pi) / np.maximum(pi, 1 - pi)


def switching_rates(pi: np.ndarray, lam: np.ndarray, of: str = "client") -> tuple[np.ndarray, np.ndarray]:
    """P(off -> on) and P(on -> off) of chains with these π and λ; a ValueError for pairs that no chain has."""
    refuse(
        ~((pi > 0) & (pi <= 1)),
        lambda k: f"{of} {k} has pi = {pi[k]:g}",
        "must lie in (0, 1), or be 1 for always available",
    )
    refuse(
        (pi == 1) & (lam != 0),
        lambda k: f"{of} {k} has pi = 1 and lam = {lam[k]:g}",
        "a client that is always available has lam = 0",
    )
    lowest = lowest_correlation(pi)
    refuse(
        ~((lam >= lowest - ROUNDING) & (lam < 1)),
        lambda k: f"{of} {k} has lam = {lam[k]:g} with pi = {pi[k]:g}, where lam must lie in [{lowest[k]:.4g}, 1)",
        "choose lam within that range, or another pi",
    )
    return np.minimum((1 - lam) * pi, 1), np.minimum((1 - lam) * (1 - pi), 1)


def _check_rates(wake: np.ndarray, sleep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    refuse(~((wake > 0) & (wake <= 1)), lambda k: f"client {k} has wake = {wake[k]:g}", "must lie in (0, 1]")
    refuse(~((sleep >= 0) & (sleep <= 1)), lambda k: f"client {k} has sleep = {sleep[k]:g}", "must lie in [0, 1]")
    refuse(
        (sleep == 0) & (wake != 1),
        lambda k: f"client {k} has sleep = 0 and wake = {wake[k]:g}",
        "a client that is always available has wake = 1",
    )
    return wake, sleep
