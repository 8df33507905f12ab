"""Strategies by the labels under which they are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnout.declarations import hold
from turnout.strategies.base import Strategy
from turnout.types import PyTree

Strategies = Sequence[Strategy[PyTree]] | Mapping[str, Strategy[PyTree]]


def labelled_strategies(strategies: Any) -> dict[str, Strategy[PyTree]]:
    """Strategies by their labels: those given, or the names of the classes, numbered where two are the same."""
    strategies = hold("strategies", strategies, Strategies)
    labels = dict(strategies) if isinstance(strategies, Mapping) else _by_class(strategies)
    if not labels:
        raise TypeError("strategies must be one or more, not none")
    return labels


def _by_class(strategies: Sequence[Strategy[PyTree]]) -> dict[str, Strategy[PyTree]]:
    """The strategies of a list by the names of their classes, numbered where two are the same."""
    names = [type(strategy).__name__ for strategy in strategies]
    numbered = (
        f"{name} {names[: k + 1].count(name)}" if names.count(name) > 1 else name for k, name in enumerate(names)
    )
    return dict(zip(numbered, strategies, strict=True))
