"""Strategies on real nodes, through Flower; needs the extra: `pip install turnout[flower]`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnout.flower.client import client_app
    from turnout.flower.driver import Driver, ServerOptions
    from turnout.flower.imposed import ImposedGrid
    from turnout.flower.replies import Limits
    from turnout.flower.strategy import FlowerStrategy

__all__ = ["Driver", "FlowerStrategy", "ImposedGrid", "Limits", "ServerOptions", "client_app"]

_HOMES = {
    "Driver": "driver",
    "FlowerStrategy": "strategy",
    "ImposedGrid": "imposed",
    "Limits": "replies",
    "ServerOptions": "driver",
    "client_app": "client",
}


def __getattr__(name: str) -> Any:
    """Public names on first use: a client need not load the server's half, nor the driver Flower."""
    if name not in _HOMES:
        raise AttributeError(f"module 'turnout.flower' has no attribute {name!r}")
    return getattr(importlib.import_module(f"turnout.flower.{_HOMES[name]}"), name)
