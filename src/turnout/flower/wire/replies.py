"""Checks of the replies of clients; nothing here raises, whatever was sent."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from turnout.flower.settings import Limits
from turnout.flower.wire.client_metrics import OWN_NORM, OWN_ROUND, Dropped, length
from turnout.flower.wire.layout import Arrays, Layout

LONGEST = 1e15  # of any update: beyond it squares and sums leave the range of 32-bit floats
_SIZE = "'num-examples' is %s; it must be a whole number of 1 or more"
_MOST_WEIGHT = 1e9  # of one client
_MOST = 2**53  # of any count: whole numbers up to here are exact


@dataclass(frozen=True)
class Reply:
    """The contents of a valid reply."""

    update: Arrays  # Δ, the model after local work minus the model before, in 32-bit floats
    norm: float  # ‖Δ‖
    loss: float | None  # mean loss during local work; None if not reported
    reach: float  # ‖a‖₁ of the local work
    size: int  # samples on the client; zero if not reported
    ignored: tuple[str, ...] = ()  # metrics that are of no use, and why
    second: Arrays | None = None  # a second vector of the model's form, where the strategy's clients send one
    age: int = 0  # rounds since it was asked for
    lr: float | None = None  # η of the round in which it was asked for, where that is an earlier one
    numbers: np.ndarray | None = None  # those beside the vector, where the strategy's clients send some


@dataclass(frozen=True)
class Goodbye:
    """What takes the word of a client that leaves out of the server's sum."""

    word: Arrays
    numbers: np.ndarray | None = None


@dataclass(frozen=True)
class ReplyRules:
    """What a reply is checked against, and where its update goes."""

    layout: Layout
    t: int  # the round that was asked for
    limits: Limits = field(default_factory=Limits)
    reach: float = 1.0  # to assume if the client reports none
    row: Arrays | None = None  # the update is written here if given, also when it is dropped


def check_reply(arrays: object, metrics: object, start: Mapping[str, np.ndarray], rules: ReplyRules) -> Reply | Dropped:
    """The update in a reply, or why it is dropped.

    `arrays` is the model after local work, `start` the one before, `metrics` the client's report: `loss`, `reach` and
    `num-examples`, all optional, and ignored where they are of no use.
    """
    if not isinstance(arrays, Mapping) or not isinstance(metrics, Mapping):
        return Dropped(no_records(arrays, metrics))
    layout, rows = rules.layout, rules.row or {}
    reason = _misfit(arrays, layout) or of_another_round(metrics, rules.t)
    if reason is not None:
        return Dropped(reason)
    update = {name: _difference(arrays[name], start[name], rows.get(name)) for name in layout.trained}
    norm = length(update)
    infinite = [] if math.isfinite(norm) else [name for name in layout.trained if not np.isfinite(arrays[name]).all()]
    if infinite:
        return Dropped(f"array {infinite[0]!r} holds a value that is not finite")
    return accept(update, norm, metrics, rules)


def accept(update: Arrays, norm: float, metrics: Mapping[Any, Any], rules: ReplyRules) -> Reply | Dropped:
    """The reply with this update of this length, unless it is too long."""
    limits = rules.limits
    if (reason := too_long(norm, limits.norm, "update")) is not None:
        return Dropped(reason)
    loss, done, size = (metrics.get(name) for name in ("loss", "reach", "num-examples"))
    ignored = tuple(filter(None, (_no_loss(loss, limits), _no_reach(done, limits), _no_size(size))))
    loss = None if loss is None or _no_loss(loss, limits) else float(loss)
    size = 0 if size is None or _no_size(size) else int(size)
    return Reply(update, norm, loss, reach_in(metrics, limits, rules.reach), size, ignored)


def check_length(metrics: object, *, t: int, limits: Limits) -> float | Dropped:
    """The length of an update that a client has kept, or why it is dropped."""
    norm = metrics.get(OWN_NORM) if isinstance(metrics, Mapping) else None
    if not isinstance(metrics, Mapping) or not _is_number(norm) or norm < 0:
        return Dropped(f"it holds neither an update nor its length: {OWN_NORM!r} is {norm!r:.80}")
    if (reason := of_another_round(metrics, t)) is not None:
        return Dropped(reason)
    reason = too_long(float(norm), limits.norm, "update")
    return float(norm) if reason is None else Dropped(reason)


def check_numbers(parts: Mapping[str, np.ndarray], count: int, limits: Limits) -> np.ndarray | Dropped:
    """The numbers beside the vector of an answer, or why they are of no use."""
    numbers = parts.get("numbers")
    if not isinstance(numbers, np.ndarray) or numbers.shape != (count,) or numbers.dtype != np.float32:
        shown = f"a {numbers.dtype}{numbers.shape}" if isinstance(numbers, np.ndarray) else "nothing"
        return Dropped(f"the numbers beside its upload are {shown:.80}, not a row of {count} float32")
    most = limits.reach * _MOST_WEIGHT
    good = np.isfinite(numbers).all() and np.abs(numbers).max() <= most
    return numbers if good else Dropped(f"the numbers beside its upload, {numbers!r:.80}, are not all within ±{most:g}")


def check_loss(metrics: object, *, t: int, limits: Limits) -> float | Dropped:
    """The loss in the reply to a probe, or why it is dropped."""
    if not isinstance(metrics, Mapping):
        return Dropped(f"it holds a {type(metrics).__name__}, not metrics")
    if metrics.get("loss") is None:
        return Dropped("it reports no 'loss'")
    reason = of_another_round(metrics, t) or _no_loss(metrics["loss"], limits)
    return float(metrics["loss"]) if reason is None else Dropped(reason)


def check_size(metrics: object) -> int | Dropped:
    """The number of samples that a client reports, or why it is invalid."""
    size = metrics.get("num-examples") if isinstance(metrics, Mapping) else None
    return int(size) if (reason := _no_size(size)) is None and size is not None else Dropped(reason or _SIZE % "None")


def too_long(norm: float, limit: float | None, what: str) -> str | None:
    """What is wrong if a vector of this length is beyond its limit."""
    most = LONGEST if limit is None else min(limit, LONGEST)
    return None if norm <= most else f"its {what} has length {norm:.4g}, beyond the limit of {most:.4g}"


def no_records(arrays: object, metrics: object) -> str:
    return f"it holds a {type(arrays).__name__} and a {type(metrics).__name__}, not arrays and metrics"


def of_another_round(metrics: Mapping[Any, Any], t: int) -> str | None:
    """What is wrong if our own client says that a reply is for another round."""
    turn = metrics.get(OWN_ROUND)
    same = turn is None or (_is_whole(turn) and turn == t)
    return None if same else f"it is for round {turn!r:.80}, not for round {t}"


def reach_in(metrics: Mapping[Any, Any], limits: Limits, otherwise: float) -> float:
    """The reach that a client reports, if it is of use."""
    reach = metrics.get("reach")
    return otherwise if reach is None or _no_reach(reach, limits) else float(reach)


def _no_loss(loss: Any, limits: Limits) -> str | None:
    if loss is None or (_is_number(loss) and abs(loss) <= limits.loss):
        return None
    return f"'loss' is {loss!r:.80}; it must be a number within ±{limits.loss:g}"


def _no_reach(reach: Any, limits: Limits) -> str | None:
    if reach is None or (_is_number(reach) and 0 < reach <= limits.reach):
        return None
    return f"'reach' is {reach!r:.80}; it must be a number above 0 and at most {limits.reach:g}"


def _no_size(size: Any) -> str | None:
    if size is None or (_is_number(size) and 1 <= size <= _MOST and int(size) == size):
        return None
    return _SIZE % f"{size!r:.80}"


def _misfit(arrays: Mapping[object, object], layout: Layout) -> str | None:
    if missing := [name for name in layout.shapes if name not in arrays]:
        return f"array {missing[0]!r} is missing"
    if len(arrays) > len(layout.shapes):
        strange = next(name for name in arrays if name not in layout.shapes)
        return f"array {strange!r:.80} is not part of the model"
    for name in layout.shapes:
        reason = _misfit_array(arrays[name], layout.shapes[name], layout.dtypes[name])
        if reason is not None:
            return f"array {name!r} {reason}"
    return None


def _misfit_array(array: object, shape: tuple[int, ...], dtype: np.dtype) -> str | None:
    if not isinstance(array, np.ndarray):
        return f"is a {type(array).__name__}, not a numpy array"
    if array.shape != shape:
        return f"has shape {array.shape}, not {shape}"
    # Floats of any precision are trained as 32-bit ones; other arrays are never changed, whatever they hold.
    if (array.dtype.kind == "f") != (dtype.kind == "f") or array.dtype.kind not in "fiub":
        return f"has dtype {array.dtype}, not {dtype}"
    return None


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool)
    return isinstance(value, float | np.floating) and math.isfinite(value)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _difference(end: np.ndarray, start: np.ndarray, room: np.ndarray | None) -> np.ndarray:
    with np.errstate(all="ignore"):
        ends = (end.astype(np.float32, copy=False), start.astype(np.float32, copy=False))
        return np.asarray(np.subtract(*ends, out=room))
