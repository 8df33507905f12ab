"""Federated learning for fleets whose clients come and go."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout import availability, strategies, tasks
    from turnout.diagnosis.diagnose import diagnose
    from turnout.diagnosis.reading import read_log
    from turnout.facts import Online, Oracle
    from turnout.history import History
    from turnout.local import Local
    from turnout.loop import Trial
    from turnout.server import Server
    from turnout.simulator import simulate, simulate_trials
    from turnout.world import World, compute, links

__version__ = "0.1.0.dev0"

__all__ = [
    "History",
    "Local",
    "Online",
    "Oracle",
    "Server",
    "Trial",
    "World",
    "availability",
    "compute",
    "diagnose",
    "links",
    "read_log",
    "simulate",
    "simulate_trials",
    "strategies",
    "tasks",
]

_HOMES = {
    "History": "turnout.history",
    "Local": "turnout.local",
    "Online": "turnout.facts",
    "Oracle": "turnout.facts",
    "Server": "turnout.server",
    "Trial": "turnout.loop",
    "World": "turnout.world",
    "diagnose": "turnout.diagnosis.diagnose",
    "read_log": "turnout.diagnosis.reading",
    "simulate": "turnout.simulator",
    "simulate_trials": "turnout.simulator",
}
_MODULES = {"compute": "turnout.world.compute", "links": "turnout.world.links"}


def __getattr__(name: str) -> Any:
    """Public names on first use, so that `turnout --help` need not wait for jax."""
    if name in _HOMES:
        found = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in __all__:
        found = importlib.import_module(_MODULES.get(name, f"turnout.{name}"))
    else:
        raise AttributeError(f"module 'turnout' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
