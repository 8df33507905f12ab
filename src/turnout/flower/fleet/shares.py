"""How many of the listed clients take part in a phase, by the arguments of Flower's own strategies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shares:
    """The share of the listed clients in training and evaluation, and the least numbers."""

    fraction_train: float = 1.0
    fraction_evaluate: float = 1.0
    min_train_nodes: int = 0
    min_evaluate_nodes: int = 0
    min_available_nodes: int = 0

    def __post_init__(self) -> None:
        for name in ("fraction_train", "fraction_evaluate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a share from 0 to 1, not {getattr(self, name)}")
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")

    def to_train(self, names: Sequence[str], seed: int, t: int) -> list[str]:
        """Clients that may be asked to train in round t."""
        return _draw(names, self.fraction_train, self.min_train_nodes, f"train {seed} {t}")

    def to_evaluate(self, names: Sequence[str], seed: int, t: int) -> list[str]:
        """Clients that evaluate the model after round t."""
        return _draw(names, self.fraction_evaluate, self.min_evaluate_nodes, f"evaluate {seed} {t}")


def _draw(names: Sequence[str], fraction: float, least: int, seed: str) -> list[str]:
    count = min(len(names), max(int(len(names) * fraction), least if fraction else 0))
    if count == len(names):
        return list(names)
    chosen = set(random.Random(seed).sample(sorted(names), count))
    return [name for name in names if name in chosen]
