"""Labels as readers know them: strategies as papers write them, rather than as experiment files do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from turnout.strategies.base import Strategy
from turnout.workbench.experiment import registry


def paper_labels(labels: Sequence[str], strategies: Sequence[str]) -> list[str]:
    """Labels that begin with the name or the class of their strategy get its title: `ca_fed` and `CAFed` are CA-Fed.

    Labels that somebody chose stay. All stay where two would become the same.
    """
    titled = [_use_title(label, strategy) for label, strategy in zip(labels, strategies, strict=True)]
    return titled if len(set(titled)) == len(set(labels)) else list(labels)


def relabel(results: Sequence[Any], strategies: Sequence[str]) -> tuple[Any, ...]:
    """Results that have a label each, with those of `paper_labels`."""
    labels = paper_labels([result.label for result in results], strategies)
    return tuple(replace(result, label=label) for result, label in zip(results, labels, strict=True))


def strategy_name(strategy: Strategy) -> str:
    """What an experiment file calls a strategy; the name of its class where it is not one of ours."""
    return registry.name_of("strategies", type(strategy)) or type(strategy).__name__


def paper_label(strategy: str) -> str:
    """What papers call a strategy that an experiment file names."""
    return _use_title(strategy, strategy)


def join_labels(labels: Sequence[str], most: int | None = None) -> str:
    """Labels in a sentence; where more than one is beyond `most`, only the first ones."""
    named = [*labels[:most], f"{len(labels) - most} more"] if most is not None and len(labels) > most + 1 else labels
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _use_title(label: str, strategy: str) -> str:
    entry = registry.entries("strategies").get(strategy)
    if entry is None:
        return label
    title = entry.title
    name, _, settings = label.partition(" ")
    if f"{label} ".startswith(f"{title} ") or name not in (strategy, entry.attribute):
        return label
    return f"{title} {settings}".strip()
