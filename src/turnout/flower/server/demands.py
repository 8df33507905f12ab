"""What a strategy demands of clients on real nodes, and whether it can run there."""

from __future__ import annotations

from dataclasses import dataclass

from turnout.flower.wire.side import check_side, keeps_something
from turnout.server.facts import Online, Oracle
from turnout.server.settings import ServerSettings
from turnout.strategies.base import Strategy

_MANY = 2**20  # clients: a strategy with fewer slots for them asks only some


@dataclass(frozen=True)
class Demands:
    """What a strategy demands of clients, and of the server that it runs on."""

    name: str  # of its class
    losses: bool  # the loss of the model on every listed client, before it selects
    lengths: bool  # lengths of updates first, and then only the updates that it admits
    side: bool  # clients that do more than to train and to send what came of it
    steered: bool  # clients whose local steps are corrected, or whose gradients are wanted
    memory: bool  # clients that remember what they have sent
    second: bool  # a second vector in every answer
    numbers: int  # so many numbers beside the vector of every answer, by which clients also weigh themselves
    shared_start: bool  # every client starts from the server's model
    models: bool  # the server keeps a model or an update per client
    everyone: bool  # all clients that are there train and upload

    @classmethod
    def of(cls, strategy: Strategy) -> Demands:
        """The demands of a strategy."""
        side = strategy.client_side
        return cls(
            name=type(strategy).__name__,
            losses=strategy.needs_losses,
            lengths=not strategy.admits_all,
            side=side is not None,
            steered=side is not None and side.steers,
            memory=side is not None and keeps_something(side),
            second=side is not None and side.sends_second,
            numbers=0 if side is None else len(side.numbers),
            shared_start=strategy.starts_shared,
            models=strategy.remembers_models,
            everyone=strategy.admits_all and strategy.capacity(_MANY) >= _MANY,
        )

    @property
    def takes_late(self) -> bool:
        """Whether an update of an earlier round is as good as one of this: memories are of earlier rounds anyway."""
        return self.models and self.shared_start and not self.lengths and not self.memory


def for_real_nodes(settings: ServerSettings | None, strategy: Strategy) -> ServerSettings:
    """The settings of a server on real nodes, where facts are only estimated; a ValueError if it cannot run there."""
    settings = (settings or ServerSettings()).with_facts(Online())
    settings.check(strategy)
    check_side(strategy)
    if strategy.needs_lost:
        raise ValueError(f"{type(strategy).__name__} needs the updates that are lost, which only a simulation has")
    if isinstance(settings.facts, Oracle):
        raise ValueError("an Oracle needs the true availability, which is unknown for a real fleet: use Online")
    return settings
