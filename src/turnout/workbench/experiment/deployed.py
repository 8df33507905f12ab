"""A training on real nodes described as an experiment, which can be read but not simulated again."""

from __future__ import annotations

from typing import Any, Never

import jax
import numpy as np

from turnout.server.facts import Online
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies.base import Strategy
from turnout.workbench.experiment import registry, signatures
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.parts import HIDDEN, read_part

HERE = "turnout.workbench.experiment.deployed"


def clients(number: int) -> Never:
    """The data of real clients, which never left them."""
    raise ValueError(f"these were the data of {number} real clients, which are not here: name a task of your own")


def nature() -> Never:
    """Availability, links and local work of real nodes, which cannot be drawn again."""
    raise ValueError("this happened on real nodes and cannot be drawn again; `turnout diagnose` fits a world to it")


def untold() -> Never:
    """An object that a file cannot describe."""
    raise ValueError("this was an object of the program that ran, which a file cannot hold: build it in Python")


def own_strategy(described: str) -> Never:
    """A strategy that is not one of this library's, or has settings that a file cannot hold."""
    raise ValueError(f"this was an object of the program that ran, {described}: build it in Python")


def describe_training(
    strategy: Strategy,
    *,
    num_clients: int,
    rounds: int,
    seed: int,
    evaluate_every: int,
    local: Local,
    server: ServerSettings,
) -> Experiment:
    """The experiment that a training on real nodes was."""
    happened = {"name": f"{HERE}:nature"}
    own = {"name": f"{HERE}:own_strategy", "described": repr(strategy)[:1000], "label": type(strategy).__name__}
    return Experiment.read(
        {
            "title": "On real nodes",
            "rounds": rounds,
            "seeds": [seed],
            "evaluate_every": evaluate_every,
            "task": {"name": f"{HERE}:clients", "number": num_clients},
            "availability": happened,
            "links": happened,
            "compute": happened,
            "local": _arguments(local),
            "server": {key: value for key, value in _arguments(server).items() if key not in HIDDEN["server"]},
            "facts": _table("facts", server.facts or Online()) or {"name": f"{HERE}:untold"},
            "strategies": [_table("strategies", strategy) or own],
        }
    )


def _table(kind: str, thing: Any) -> dict[str, Any] | None:
    """The table of an object; None if a file cannot hold it, or would hold a sweep, which is several objects."""
    try:
        part = read_part(kind, _table_of(kind, thing), kind)
        return None if any(part.axes()) else part.table()
    except ExperimentError:
        return None


def _table_of(kind: str, thing: Any) -> dict[str, Any]:
    """The table of an object whose class an experiment can name."""
    if (name := registry.name_of(kind, type(thing))) is None:
        raise ExperimentError(f"{type(thing).__name__} is none of the {kind}")
    return {"name": name} | _arguments(thing)


def _arguments(thing: Any) -> dict[str, Any]:
    """Arguments that differ from the defaults, as TOML values."""
    arguments = {}
    for name, parameter in signatures.parameters(type(thing)).items():
        value = getattr(thing, name)
        if value is not None and value is not parameter.default:
            arguments[name] = _as_toml(value)
    return arguments


def _as_toml(value: Any) -> Any:
    if isinstance(value, Strategy):
        return _table_of("strategies", value)
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    if isinstance(value, bool | int | float | str | tuple | list) and not hasattr(value, "_fields"):
        return value
    return {"name": f"{HERE}:untold"}
