"""Strategies on real nodes, through Flower; needs `pip install flwr`, or the extra `flower`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout.flower.client import client_app, greet
    from turnout.flower.fleet.imposed import ImposedGrid
    from turnout.flower.server.driver import Driver
    from turnout.flower.server.guard import Guard
    from turnout.flower.strategy import FlowerStrategy
    from turnout.flower.wire.replies import Limits
    from turnout.server.settings import ServerSettings

__all__ = ["Driver", "FlowerStrategy", "Guard", "ImposedGrid", "Limits", "ServerSettings", "client_app", "greet"]

_HOMES = {
    "Driver": "turnout.flower.server.driver",
    "FlowerStrategy": "turnout.flower.strategy",
    "Guard": "turnout.flower.server.guard",
    "ImposedGrid": "turnout.flower.fleet.imposed",
    "Limits": "turnout.flower.wire.replies",
    "ServerSettings": "turnout.server.settings",
    "client_app": "turnout.flower.client",
    "greet": "turnout.flower.client",
}
_FORMER = {"ServerOptions": "ServerSettings"}  # names that older programs may still use


def __getattr__(name: str) -> Any:
    """Import public names on first use: a client need not load the server's half, nor the driver Flower."""
    name = _FORMER.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'turnout.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
