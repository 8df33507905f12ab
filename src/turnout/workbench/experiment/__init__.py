"""Experiments: TOML to objects, runs and run folders.

Names are imported when first used, so that a listing needs no jax; `run` is in a module of that name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout.workbench.experiment.config import Experiment, read_experiment
    from turnout.workbench.experiment.errors import ExperimentError
    from turnout.workbench.experiment.run import Outcome, Run
    from turnout.workbench.experiment.store import load, save

__all__ = ["Experiment", "ExperimentError", "Outcome", "Run", "load", "read_experiment", "save"]

_HOMES = {
    "config": ("Experiment", "read_experiment"),
    "errors": ("ExperimentError",),
    "run": ("Outcome", "Run"),
    "store": ("load", "save"),
}


def __getattr__(name: str) -> Any:
    if (home := next((home for home, names in _HOMES.items() if name in names), None)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
