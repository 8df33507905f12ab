"""How a server sums up, and with what that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnout.strategies import MIFA, FedAU, FedAvg, LastWord
from turnout.strategies.base import Strategy

_SHOWN = "secure sums show the server no single update"


@dataclass(frozen=True)
class SecureSums:
    """Let the server see sums of updates only. Experimental: nobody outside has reviewed the cryptography.

    Clients take part with `greet(app, secure=Rules())`. An update is sent in fixed points of `quantum`, with room for
    `room` clients in a sum; `metrics` are those of the clients' own that are summed up, too, weighted as updates are.
    """

    neighbours: int | None = None  # of each client; by the cohort and its dropouts if not given
    dropouts: float = 0.1  # share of the clients that is expected to drop out in each exchange
    least: int = 3  # uploads in a sum; clients may insist on more
    quantum: float = 2.0**-16  # a power of two
    room: int = 128  # clients in one sum at most
    metrics: Sequence[str] = ("loss",)

    def __post_init__(self) -> None:
        if self.neighbours is not None and not (isinstance(self.neighbours, int) and self.neighbours >= 2):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"neighbours of SecureSums must be 2 or more, not {self.neighbours!r}")
        if not 0 <= self.dropouts < 0.25:
            raise ValueError(f"dropouts of SecureSums must be a share below 0.25, not {self.dropouts!r}")
        for name in ("least", "room"):
            if not (isinstance(value := getattr(self, name), int) and 2 <= value <= 65536):
                raise ValueError(f"{name} of SecureSums must be a whole number from 2 to 65,536, not {value!r}")
        if not 0 < self.quantum <= 2**20 or np.frexp(self.quantum)[0] != 0.5:
            raise ValueError(f"quantum of SecureSums must be a power of two, not {self.quantum!r}")
        if isinstance(self.metrics, str) or not all(isinstance(name, str) for name in self.metrics):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"metrics of SecureSums must be names, not {self.metrics!r}")

    def check(
        self,
        strategy: Strategy,
        *,
        guarded: bool,
        limited: bool,
        paced: bool,
        evaluate_every: int,
        target: Any,
        combines: bool,
    ) -> None:
        """Raise a ValueError that says why, if something else needs what the server does not see here."""
        check_strategy(strategy)
        if guarded:
            raise ValueError(f"guard cannot be used with secure: {_SHOWN}, so that none can be judged; give guard=None")
        if limited:
            raise ValueError(f"limits cannot be used with secure: {_SHOWN}, so that none can be measured")
        if paced:
            raise ValueError(
                "pace cannot be used with secure: a sum is of one round, and a late answer is in none"
            )
        if evaluate_every:
            raise ValueError(
                "evaluation on the clients tells the metrics of each, which secure sums hide: set evaluate_every=0, "
                "and evaluate on the server or after the training"
            )
        if target == "size":
            raise ValueError("target='size' has clients tell their sizes, which secure sums hide: take 'examples'")
        if target == "examples" and isinstance(strategy, FedAU):
            raise ValueError("FedAU weighs clients by what the server knows of them: target='examples' cannot be used")
        if combines:
            raise ValueError(f"train_metrics_aggr_fn cannot be used with secure: {_SHOWN}; their means are reported")


def check_strategy(strategy: Strategy) -> None:
    """Raise a ValueError, if a strategy needs more of a round than one sum."""
    name = type(strategy).__name__
    if isinstance(strategy, LastWord | MIFA):
        if strategy.memory != "clients":
            raise ValueError(f"{name} keeps every client's own word on the server: give {name}(memory='clients')")
    elif isinstance(strategy, FedAvg):
        if strategy.normaliser == "draws":
            raise ValueError("FedAvg with normaliser='draws' counts a client several times: take 'received' or 'all'")
    elif not isinstance(strategy, FedAU):
        raise ValueError(
            f"{name} needs more of a round than one sum of updates, or was not tried with secure sums: take LastWord "
            "or MIFA with memory='clients', FedAvg or FedAU"
        )
