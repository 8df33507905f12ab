"""Federated learning for fleets whose clients come and go."""

from turnout import availability, strategies, tasks
from turnout.facts import Online, Oracle
from turnout.history import History
from turnout.local import Local
from turnout.loop import Trial
from turnout.server import Server
from turnout.simulate import simulate, simulate_trials
from turnout.world import World, compute, links, world

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
    "links",
    "simulate",
    "simulate_trials",
    "strategies",
    "tasks",
    "world",
]
