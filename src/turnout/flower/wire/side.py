"""The client side of a strategy: how an order describes it, and how a node builds it from the order.

Both ends stand here. No code travels: an order has the name of a side and its numbers, and a node builds those that it
knows. What the strategy shares besides the model travels as arrays, and the side says in which form they are read.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from turnout.flower.wire.layout import Arrays, named_leaves, with_leaves
from turnout.flower.wire.side_names import KNOWN_SIDES, SIDE, SIDES, check_side_known
from turnout.strategies.amplified_scaffold import WindowedControl
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.feddyn import Tilted
from turnout.strategies.fedprox import Proximal
from turnout.strategies.focus import LastGradient
from turnout.strategies.last_updates import LastUpdate
from turnout.strategies.scaffold import ControlVariate
from turnout.types import Params, PyTree

_SHIPPED = (LastUpdate, ControlVariate, LastGradient, Proximal, Tilted, WindowedControl)
_KINDS: dict[str, type[ClientSide]] = dict(zip(KNOWN_SIDES, _SHIPPED, strict=True))
_NAMES = {kind: name for name, kind in _KINDS.items()}

Described = dict[str, str | float | bool]


def to_config(strategy: Strategy) -> Described:
    """What an order says of the client side of a strategy; empty if it has none."""
    side = strategy.client_side
    if side is None:
        return {}
    name = _NAMES.get(type(side), type(side).__name__)
    return {SIDE: name} | {_key(name): _plain(getattr(side, name)) for name in _fields(type(side))}


def from_config(config: Mapping[str, Any], own: Sequence[type[ClientSide]] = ()) -> ClientSide | None:
    """The client side that an order wants; a ValueError if this node cannot build it. `own` are the app's."""
    if SIDE not in config:
        return None
    kinds = {kind.__name__: kind for kind in own}
    check_side_known(config, kinds)
    kind = (_KINDS | kinds)[config[SIDE]]
    if missing := [_key(name) for name in _fields(kind) if _key(name) not in config]:
        raise ValueError(f"the server sends no {missing[0]!r}, which the client side {config[SIDE]!r} needs")
    return kind(**{name: config[_key(name)] for name in _fields(kind)})


def shared_arrays(shared: PyTree) -> Arrays | None:
    """What a strategy shares, as arrays by path; None where nothing but a number, which stands in the config."""
    return None if shared is None or _is_number(shared) else named_leaves(shared)


def shared_number(shared: PyTree) -> float | None:
    """What a strategy shares, if it is a number."""
    return float(shared) if shared is not None and _is_number(shared) else None


def shared_from(side: ClientSide, zeros: Params, number: float | None, arrays: Arrays | None) -> PyTree:
    """What an order shares with a client, in the form in which its side reads it; a ValueError if it does not fit."""
    form = side.receives(zeros)
    if form is None:
        return None
    found = arrays if number is None else {"": np.array(number, np.float32)}
    try:
        return with_leaves(jax.tree.map(np.asarray, form), found or {})
    except ValueError as error:
        raise ValueError(f"what the server shares beside the model does not fit its client side: {error}") from error


def keeps_something(side: ClientSide) -> bool:
    """Whether clients keep anything from one participation to the next."""
    made_up = {"weights": jax.ShapeDtypeStruct((2,), np.float32)}
    return bool(jax.tree.leaves(eqx.filter_eval_shape(side.init, made_up)))


def check_side(strategy: Strategy) -> None:
    """Raise a ValueError that says why, if the client side of a strategy cannot run on real nodes."""
    side, name = strategy.client_side, type(strategy).__name__
    if side is None:
        return
    kind = type(side).__name__
    for field in _fields(type(side)):
        value = getattr(side, field)
        if _key(field) in (SIDE, SIDES) or not (
            isinstance(value, str) or (np.ndim(value) == 0 and not callable(value))
        ):
            raise ValueError(
                f"{field} of {kind}, the client side of {name}, cannot be sent: it must be a number or text"
            )


def check_shared(strategy: Strategy, shared: PyTree, params: Params) -> None:
    """Raise a ValueError, if clients cannot read what a strategy shares with them beside the model."""
    if shared is None:
        return
    side, name = strategy.client_side, type(strategy).__name__
    if side is None:
        if _is_number(shared):
            return
        raise ValueError(f"{name} shares more than the model with its clients, but has no client side to read it")
    expected, found = (_form(tree) for tree in (eqx.filter_eval_shape(side.receives, params), shared))
    if expected != found:
        kind = type(side).__name__
        raise ValueError(f"{kind}.receives must have the form of what {name} shares, {found}, not {expected}")


def _form(tree: PyTree) -> dict[str, tuple[int, ...]]:
    """Shapes by path."""
    return {jax.tree_util.keystr(path): np.shape(leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}


def _is_number(shared: PyTree) -> bool:
    return (
        not isinstance(shared, Mapping) and jax.tree.structure(shared) == jax.tree.structure(0) and not np.ndim(shared)
    )


def _fields(kind: type[ClientSide]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _key(name: str) -> str:
    return f"turnout.{name}"


def _plain(value: Any) -> str | float | bool:
    return value if isinstance(value, str | bool) else float(np.asarray(value))
