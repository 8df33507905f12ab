"""Checks of the replies of clients; nothing here raises, whatever was sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from turnout.flower.wire.layout import Arrays, Layout

LONGEST = 1e15  # of any update: beyond it squares and sums leave the range of 32-bit floats
_MOST = 2**53  # of any count: whole numbers up to here are exact


@dataclass(frozen=True)
class Reply:
    """The contents of a valid reply."""

    update: Arrays  # Δ, the model after local work minus the model before, in 32-bit floats
    norm: float  # ‖Δ‖
    loss: float | None  # mean loss during local work; None if not reported
    reach: float  # ‖a‖₁ of the local work
    size: int  # samples on the client; zero if not reported


@dataclass(frozen=True)
class Dropped:
    """The reason why a reply is dropped."""

    reason: str


@dataclass(frozen=True)
class Limits:
    """Bounds that a reply must satisfy, besides its form."""

    norm: float | None = None  # longest update, ‖Δ‖
    loss: float = 1e12  # largest absolute value of a loss
    reach: float = 1e9  # most local work

    def __post_init__(self) -> None:
        for name, value in (("norm", self.norm), ("loss", self.loss), ("reach", self.reach)):
            if value is not None and not value > 0:
                raise ValueError(f"the limit of {name} must be above 0, not {value}")


def check_reply(
    arrays: object,
    metrics: object,
    *,
    start: Mapping[str, np.ndarray],
    layout: Layout,
    t: int,
    limits: Limits,
    reach: float = 1.0,
    room: Arrays | None = None,
) -> Reply | Dropped:
    """The update in a reply, or why it is dropped.

    `arrays` is the model after local work, `metrics` the client's report on it: `loss`, `reach`, `num-examples` and
    `round`, all optional. `start` is the model before local work, `reach` the one to assume if the client reports none,
    and t the round that was asked for. The update is written to `room` if given, also when it is dropped.
    """
    if not isinstance(arrays, Mapping) or not isinstance(metrics, Mapping):
        return Dropped(no_records(arrays, metrics))
    reason = _misfit(arrays, layout) or wrong_metrics(metrics, t, limits)
    if reason is not None:
        return Dropped(reason)
    rows = {} if room is None else room
    update = {name: _difference(arrays[name], start[name], rows.get(name)) for name in layout.trained}
    norm = length(update)
    if not math.isfinite(norm) and (infinite := _not_finite(arrays, layout)) is not None:
        return Dropped(f"array {infinite!r} holds a value that is not finite")
    return counted(update, norm, metrics, limits, reach)


def counted(update: Arrays, norm: float, metrics: Mapping[Any, Any], limits: Limits, reach: float) -> Reply | Dropped:
    """The reply with this update of this length and valid metrics, unless the update is too long."""
    if not norm <= _most(limits):
        return Dropped(_too_long(norm, limits))
    reported = {name: value for name, value in metrics.items() if value is not None}
    loss, done, size = reported.get("loss"), reported.get("reach", reach), reported.get("num-examples", 0)
    return Reply(update, norm, None if loss is None else float(loss), float(done), int(size))


def length(update: Mapping[str, np.ndarray]) -> float:
    """Euclidean length of an update; not finite if the update is not, or is far beyond any limit."""
    return math.sqrt(sum(_square(part) for part in update.values()))


def check_length(metrics: object, *, t: int, limits: Limits) -> float | Dropped:
    """The length of an update that a client has kept, or why it is dropped."""
    norm = metrics.get("norm") if isinstance(metrics, Mapping) else None
    if not isinstance(metrics, Mapping) or not _is_number(norm) or norm < 0:
        return Dropped(f"it holds neither an update nor its length: 'norm' is {norm!r:.80}")
    if (reason := wrong_metrics(metrics, t, limits)) is not None:
        return Dropped(reason)
    return Dropped(_too_long(float(norm), limits)) if norm > _most(limits) else float(norm)


def check_loss(metrics: object, *, t: int, limits: Limits) -> float | Dropped:
    """The loss in the reply to a probe, or why it is dropped."""
    if not isinstance(metrics, Mapping):
        return Dropped(f"it holds a {type(metrics).__name__}, not metrics")
    if metrics.get("loss") is None:
        return Dropped("it reports no 'loss'")
    reason = wrong_metrics(metrics, t, limits)
    return float(metrics["loss"]) if reason is None else Dropped(reason)


def check_size(metrics: object) -> int | Dropped:
    """The number of samples that a client reports, or why it is invalid."""
    size = metrics.get("num-examples") if isinstance(metrics, Mapping) else None
    if not _is_whole(size) or not 1 <= size <= _MOST:
        return Dropped(f"'num-examples' is {size!r:.80}; it must be a whole number of 1 or more")
    return int(size)


def no_records(arrays: object, metrics: object) -> str:
    return f"it holds a {type(arrays).__name__} and a {type(metrics).__name__}, not arrays and metrics"


def wrong_metrics(metrics: Mapping[object, object], t: int, limits: Limits) -> str | None:
    """What is wrong with the metrics of a reply, if anything."""
    loss, reach, size, turn = (metrics.get(name) for name in ("loss", "reach", "num-examples", "round"))
    if loss is not None and not (_is_number(loss) and abs(loss) <= limits.loss):
        return f"'loss' is {loss!r:.80}; it must be a number within ±{limits.loss:g}"
    if reach is not None and not (_is_number(reach) and 0 < reach <= limits.reach):
        return f"'reach' is {reach!r:.80}; it must be a number above 0 and at most {limits.reach:g}"
    if size is not None and not (_is_whole(size) and 1 <= size <= _MOST):
        return f"'num-examples' is {size!r:.80}; it must be a whole number of 1 or more"
    if turn is not None and not (_is_whole(turn) and turn == t):
        return f"it is for round {turn!r:.80}, not for round {t}"
    return None


def _most(limits: Limits) -> float:
    return LONGEST if limits.norm is None else min(limits.norm, LONGEST)


def _too_long(norm: float, limits: Limits) -> str:
    return f"its update has length {norm:.4g}, beyond the limit of {_most(limits):.4g}"


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
    if array.dtype != dtype:
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


def _square(part: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.dot(part.ravel(), part.ravel()))


def _not_finite(arrays: Mapping[Any, Any], layout: Layout) -> str | None:
    return next((name for name in layout.trained if not np.isfinite(arrays[name]).all()), None)
