"""Federated learning for fleets whose clients come and go."""

import importlib
from typing import TYPE_CHECKING, Any

from turnout.presented import Presented

if TYPE_CHECKING:
    from turnout import availability, strategies, tasks, theory, uploads
    from turnout.auditor import Audit, audit, effective_weights
    from turnout.server.facts import Online, Oracle
    from turnout.server.server import Server
    from turnout.server.settings import ServerSettings
    from turnout.simulator import simulate, simulate_trials
    from turnout.simulator.history import History
    from turnout.simulator.local import Local
    from turnout.simulator.programs import use_compilation_cache
    from turnout.simulator.trial import Trial
    from turnout.workbench.diagnosis.diagnose import diagnose
    from turnout.workbench.diagnosis.reading.log_file import read_log
    from turnout.workbench.report.run.comparison import compare
    from turnout.workbench.report.run.plots import plots
    from turnout.world import World, compute, links

__version__ = "0.2.0"

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
    "compare",
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
    "turnout.auditor": ("Audit", "audit", "effective_weights"),
    "turnout.workbench.diagnosis.diagnose": ("diagnose",),
    "turnout.workbench.diagnosis.reading.log_file": ("read_log",),
    "turnout.workbench.report.run.comparison": ("compare",),
    "turnout.workbench.report.run.plots": ("plots",),
    "turnout.server.facts": ("Online", "Oracle"),
    "turnout.server.server": ("Server",),
    "turnout.server.settings": ("ServerSettings",),
    "turnout.simulator": ("simulate", "simulate_trials"),
    "turnout.simulator.history": ("History",),
    "turnout.simulator.local": ("Local",),
    "turnout.simulator.programs": ("use_compilation_cache",),
    "turnout.simulator.trial": ("Trial",),
    "turnout.world": ("World", "compute", "links"),
}


Presented.writer_name = "turnout.workbench.report.presentation"


def __getattr__(name: str) -> Any:
    """Public names on first use, so that `turnout --help` need not wait for jax."""
    if name not in __all__:
        raise AttributeError(f"module 'turnout' has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    part = importlib.import_module(f"turnout.{name}") if home is None else getattr(importlib.import_module(home), name)
    globals()[name] = part
    return part


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
