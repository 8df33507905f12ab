"""What an availability process is: who can be reached, round after round."""

import abc
from typing import ClassVar, Generic, TypeVar

from turnout.declarations import Declared
from turnout.types import Mask, PerClient, RandomKey, Round

State = TypeVar("State")


class Process(Declared, Generic[State]):
    """A law of who is available in round t, drawn one round at a time.

    `init` returns the state before round 0 and `step` the state and the available clients of round t. Both are pure and
    work under jit and vmap; one step costs O(N). A process that has a long-run law is an `ErgodicProcess`.
    """

    example: ClassVar[str] = "availability.bernoulli(num_clients=10, pi=0.5)"

    @property
    @abc.abstractmethod
    def num_clients(self) -> int:
        """N, the size of the fleet."""

    @abc.abstractmethod
    def init(self, key: RandomKey) -> State:
        """State before round 0, drawn from the stationary law where there is one."""

    @abc.abstractmethod
    def step(self, state: State, t: Round, key: RandomKey) -> tuple[State, Mask]:
        """State and available clients of round t, called for t = 0, 1, 2, … in turn."""


class ErgodicProcess(Process[State]):
    """A process that knows its stationary law."""

    @abc.abstractmethod
    def stationary(self) -> PerClient:
        """π, the long-run share of rounds in which each client is available."""

    @abc.abstractmethod
    def correlation(self) -> PerClient:
        """λ, the lag-one autocorrelation of each client; for a two-state chain its second eigenvalue."""
