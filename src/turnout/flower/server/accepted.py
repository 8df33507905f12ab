"""Checks of a server's strategy and settings on real nodes, before any client is asked."""

from __future__ import annotations

from turnout.server.facts import Online, Oracle
from turnout.server.settings import ServerSettings
from turnout.strategies.base import Strategy


def real_settings(settings: ServerSettings | None, strategy: Strategy) -> ServerSettings:
    """The settings of a server on real nodes, where facts are only estimated; a ValueError if it cannot run there."""
    settings = (settings or ServerSettings()).with_facts(Online())
    settings.check(strategy)
    if isinstance(settings.facts, Oracle):
        raise ValueError("an Oracle needs the true availability, which is unknown for a real fleet: use Online")
    return settings
