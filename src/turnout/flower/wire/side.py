"""The client side of a strategy: how an order describes it, and how a node builds it from the order.

Both ends stand here. No code travels: an order has the name of a side and its numbers, and a node builds those that it
knows.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from turnout.flower.wire.side_names import KNOWN_SIDES, SIDE, check_side_known
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import LastUpdate

_KINDS: dict[str, type[ClientSide]] = dict(zip(KNOWN_SIDES, (LastUpdate,), strict=True))

Described = dict[str, str | float | bool]


def to_config(strategy: Strategy) -> Described:
    """What an order says of the client side of a strategy; empty if it has none."""
    side = strategy.client_side
    if side is None:
        return {}
    kind = next(name for name, kind in _KINDS.items() if kind is type(side))
    return {SIDE: kind} | {_key(name): _plain(getattr(side, name)) for name in _fields(type(side))}


def from_config(config: Mapping[str, Any]) -> ClientSide | None:
    """The client side that an order wants; a ValueError if this node cannot build it."""
    if SIDE not in config:
        return None
    check_side_known(config)
    kind = _KINDS[config[SIDE]]
    if missing := [_key(name) for name in _fields(kind) if _key(name) not in config]:
        raise ValueError(f"the server sends no {missing[0]!r}, which the client side {config[SIDE]!r} needs")
    return kind(**{name: config[_key(name)] for name in _fields(kind)})


def check_side(strategy: Strategy) -> None:
    """Raise a ValueError that says why, if the client side of a strategy cannot run on real nodes."""
    side, name = strategy.client_side, type(strategy).__name__
    needs = {} if side is None else _needs(side)
    for need, is_there in needs.items():
        if is_there:
            raise ValueError(f"{name} {need}, which is not possible on real nodes yet")
    if side is not None and type(side) not in _KINDS.values():
        raise ValueError(f"{name} has the client side {type(side).__name__}, which real nodes do not know yet")


def _needs(side: ClientSide) -> dict[str, bool]:
    """What a client side may need that an app on a node cannot do yet, and whether this one does."""
    return {
        "steers the local steps of clients": side.pull is not None or type(side).push is not ClientSide.push,
        "needs the raw gradients of clients": bool(side.gradients),
        "has clients send a second vector": side.sends_second,
    }


def _fields(kind: type[ClientSide]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _key(name: str) -> str:
    return f"turnout.{name}"


def _plain(value: Any) -> str | float | bool:
    return value if isinstance(value, str | bool) else float(np.asarray(value))
