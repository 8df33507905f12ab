"""Strategies on real nodes, through Flower; needs `pip install flwr`, or the extra `flower`."""

from typing import TYPE_CHECKING

from turnout.lazy import lazy_names

if TYPE_CHECKING:
    from turnout.flower.client import client_app, greet
    from turnout.flower.fleet.imposed import ImposedGrid
    from turnout.flower.leaving import leave
    from turnout.flower.secure.rules import Rules
    from turnout.flower.secure.settings import SecureSums
    from turnout.flower.server.driver import Driver
    from turnout.flower.settings import Files, Guard, Limits, Members, Waiting
    from turnout.flower.steering import steer
    from turnout.flower.strategy import FlowerStrategy
    from turnout.server.settings import ServerSettings

__all__ = [
    "Driver",
    "Files",
    "FlowerStrategy",
    "Guard",
    "ImposedGrid",
    "Limits",
    "Members",
    "Rules",
    "SecureSums",
    "ServerSettings",
    "Waiting",
    "client_app",
    "greet",
    "leave",
    "steer",
]

# On first use: a client need not load the server's half, nor the driver Flower.
__getattr__, __dir__ = lazy_names(__name__, __file__)
