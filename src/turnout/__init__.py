"""Federated learning for fleets whose clients come and go."""

from typing import TYPE_CHECKING

from turnout.lazy import lazy_names
from turnout.presented import Presented

if TYPE_CHECKING:
    from turnout import availability, optimizers, strategies, tasks, theory, uploads
    from turnout.auditor import Audit, audit, effective_weights
    from turnout.paces import Buffered, Clocked, Rounds
    from turnout.server.facts import Online, Oracle
    from turnout.server.server import Server
    from turnout.server.settings import ServerSettings
    from turnout.simulator import simulate, simulate_trials
    from turnout.simulator.history import History
    from turnout.simulator.local_training import Local
    from turnout.simulator.programs import use_compilation_cache
    from turnout.simulator.trial import Trial
    from turnout.workbench.diagnosis.diagnose import diagnose
    from turnout.workbench.diagnosis.reading.log_file import read_log
    from turnout.workbench.report.run.comparison import compare
    from turnout.workbench.report.run.plots import plots
    from turnout.world import World, compute, durations, links

__version__ = "0.2.0"

__all__ = [
    "Audit",
    "Buffered",
    "Clocked",
    "History",
    "Local",
    "Online",
    "Oracle",
    "Rounds",
    "Server",
    "ServerSettings",
    "Trial",
    "World",
    "audit",
    "availability",
    "compare",
    "compute",
    "diagnose",
    "durations",
    "effective_weights",
    "links",
    "optimizers",
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

Presented.writer_name = "turnout.workbench.report.presentation"

__getattr__, __dir__ = lazy_names(__name__, __file__)
