"""Federated learning for fleets whose clients come and go."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout import availability, strategies, tasks, theory, uploads
    from turnout.auditor import Audit, audit, effective_weights
    from turnout.diagnosis.diagnose import diagnose
    from turnout.diagnosis.reading.log_file import read_log
    from turnout.report.run.plots import plots
    from turnout.server.facts import Online, Oracle
    from turnout.server.server import Server
    from turnout.server.settings import ServerSettings
    from turnout.simulator import simulate, simulate_trials
    from turnout.simulator.history import History
    from turnout.simulator.local import Local
    from turnout.simulator.programs import use_compilation_cache
    from turnout.simulator.trial import Trial
    from turnout.world import World, compute, links

__version__ = "0.1.0.dev0"

__all__ = [
    "Audit",
    "History",
    "Local",
    "Online",
    "Oracle",
    "Server",
    "ServerSettings",
    "Trial",
    "World",
    "audit",
    "availability",
    "compute",
    "diagnose",
    "effective_weights",
    "links",
    "plots",
    "read_log",
    "simulate",
    "simulate_trials",
    "strategies",
    "tasks",
    "theory",
    "uploads",
    "use_compilation_cache",
]

_HOMES = {
    "Audit": "turnout.auditor",
    "History": "turnout.simulator.history",
    "Local": "turnout.simulator.local",
    "Online": "turnout.server.facts",
    "Oracle": "turnout.server.facts",
    "Server": "turnout.server.server",
    "ServerSettings": "turnout.server.settings",
    "Trial": "turnout.simulator.trial",
    "World": "turnout.world",
    "audit": "turnout.auditor",
    "diagnose": "turnout.diagnosis.diagnose",
    "effective_weights": "turnout.auditor",
    "plots": "turnout.report.run.plots",
    "read_log": "turnout.diagnosis.reading.log_file",
    "simulate": "turnout.simulator",
    "simulate_trials": "turnout.simulator",
    "use_compilation_cache": "turnout.simulator.programs",
}
_MODULES = {"compute": "turnout.world.compute", "links": "turnout.world.links"}


def __getattr__(name: str) -> Any:
    """Public names on first use, so that `turnout --help` need not wait for jax."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in __all__:
        value = importlib.import_module(_MODULES.get(name, f"turnout.{name}"))
    else:
        raise AttributeError(f"module 'turnout' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
