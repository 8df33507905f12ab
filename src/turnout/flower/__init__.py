"""Strategies on real nodes, through Flower; needs `pip install flwr`, or the extra `flower`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout.flower.client import client_app, greet
    from turnout.flower.fleet.imposed import ImposedGrid
    from turnout.flower.server.driver import Driver
    from turnout.flower.settings import Files, Guard, Limits, Members, Waiting
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
    "ServerSettings",
    "Waiting",
    "client_app",
    "greet",
]

_HOMES = {
    "Driver": "turnout.flower.server.driver",
    "FlowerStrategy": "turnout.flower.strategy",
    "ImposedGrid": "turnout.flower.fleet.imposed",
    "ServerSettings": "turnout.server.settings",
    "client_app": "turnout.flower.client",
    "greet": "turnout.flower.client",
} | dict.fromkeys(("Files", "Guard", "Limits", "Members", "Waiting"), "turnout.flower.settings")


def __getattr__(name: str) -> Any:
    """Import public names on first use: a client need not load the server's half, nor the driver Flower."""
    if name not in _HOMES:
        raise AttributeError(f"module 'turnout.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
