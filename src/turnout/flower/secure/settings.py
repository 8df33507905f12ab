"""How a server sums up, and with what that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from turnout.declarations import Numbers, check_fields
from turnout.strategies import MIFA, FedAU, FedAvg, LastWord
from turnout.strategies.base import Strategy

_SHOWN = "secure sums show the server no single update"


@dataclass(frozen=True)
class SecureSums:
    """Let the server see sums of updates only. Experimental: nobody outside has reviewed the cryptography.

    Clients take part with `greet(app, secure=Rules())`. An update is sent in fixed points of `quantum`, with room for
    `room` clients in a sum; `metrics` are those of the clients' own that are summed up, too, weighted as updates are.
    """

    neighbours: Annotated[int, Numbers(2, 65_536)] | None = None  # of each; by cohort and dropouts if not given
    dropouts: Annotated[float, Numbers(0, 0.25, below=True)] = 0.1  # share expected to drop out in each exchange
    least: Annotated[int, Numbers(2, 65_536)] = 3  # uploads in a sum; clients may insist on more
    quantum: Annotated[float, Numbers(0, 2**20, above=True)] = 2.0**-16  # a power of two
    room: Annotated[int, Numbers(2, 65_536)] = 128  # clients in one sum at most
    metrics: Sequence[str] = ("loss",)

    def __post_init__(self) -> None:
        check_fields(self)
        if np.frexp(self.quantum)[0] != 0.5:
            raise ValueError(f"quantum must be a power of two, not {self.quantum!r}")

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
            raise ValueError("pace cannot be used with secure: a sum is of one round, and a late answer is in none")
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
