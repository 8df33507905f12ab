"""Local steps that the server's algorithm steers: what a training loop calls on the gradient of each step.

It works for arrays of NumPy, PyTorch and JAX, and loads none of them but NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from turnout.flower.wire.layout import Arrays

Gradients = Mapping[str, Any]


class Steer:
    """Corrects the gradients of one order, and gathers the raw ones where the algorithm wants them.

    A local step from z is to move along q + A (z - x) + b, with q the raw gradient, x the model as it was sent, A =
    `pull` and b = `push`.
    """

    def __init__(
        self, start: Arrays, push: Arrays | None = None, pull: float | None = None, wanted: Collection[str] = ()
    ) -> None:
        self.calls = 0  # one per step
        self._start = start
        self._push = push
        self._pull = pull
        self._wanted = wanted
        self.seen: set[str] = set()  # arrays of which there was a gradient
        self._total: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._cast: dict[tuple[str, str, str], Any] = {}

    def __call__(self, gradients: Any, model: Any = None) -> Any:
        """What a step is to move along; see `steer`."""
        if hasattr(gradients, "named_parameters"):
            return self._steer_module(gradients)
        self._check(gradients, model)
        self.calls += 1
        self._gather(gradients)
        return {name: self._along(name, gradient, model[name]) for name, gradient in gradients.items()}

    def mean(self) -> Arrays:
        """The mean of the raw gradients, zero for arrays without any."""
        share = np.float32(1.0 / max(self.calls, 1))
        return {name: part * share for name, part in self._in_full(self._total).items()}

    def last(self) -> Arrays:
        """The last raw gradient, zero for arrays without one."""
        return self._in_full(self._last)

    def reach(self, steps: float, rate: float) -> float:
        """‖a‖₁ of so many steps of plain SGD: a pull towards the start makes it less than their number."""
        each = rate * (self._pull or 0.0)
        if each == 0:
            return steps
        with np.errstate(all="ignore"):
            left = np.float64(1.0 - each) ** (steps if each < 1 else round(steps))
            return float((1.0 - left) / each)

    def _steer_module(self, net: Any) -> None:
        """The gradients of a module of PyTorch, which are changed where they stand."""
        parameters = {name: one for name, one in net.named_parameters() if one.grad is not None}
        gradients = {name: one.grad.detach() for name, one in parameters.items()}
        steered = self(gradients, {name: one.detach() for name, one in parameters.items()})
        for name, gradient in gradients.items():
            gradient.copy_(steered[name])

    def _check(self, gradients: Any, model: Any) -> None:
        if not isinstance(gradients, Mapping) or not isinstance(model, Mapping):
            kinds = " and ".join(type(one).__name__ for one in (gradients, model))
            raise TypeError(
                "steer takes gradients and model by the names of the model's arrays, steer({name: …}, {name: …}), or a "
                f"module of PyTorch, not {kinds}"
            )
        if not gradients:
            raise ValueError("steer was given no gradient: call it after the gradients of a step are there")
        for name, gradient in gradients.items():
            if name not in self._start or name not in model:
                where = "of the model that was sent" if name not in self._start else "of the model given to steer"
                raise ValueError(f"steer was given a gradient of {name!r}, which is no trained array {where}")
            if tuple(gradient.shape) != self._start[name].shape:
                shapes = f"{tuple(gradient.shape)}, not {self._start[name].shape}"
                raise ValueError(f"the gradient of {name!r} has the shape {shapes}")
            if "jax" in sys.modules and isinstance(gradient, sys.modules["jax"].core.Tracer):
                raise TypeError(
                    "steer was called inside a function that jax traces: compile the gradient and the step, and call "
                    "steer between them"
                )

    def _gather(self, gradients: Gradients) -> None:
        for name, gradient in gradients.items():
            self.seen.add(name)
            if "mean" in self._wanted:
                held = self._total.get(name)
                self._total[name] = _in_32_bits(gradient) if held is None else held + _in_32_bits(gradient)
        if "last" in self._wanted:
            self._last = {name: _in_32_bits(gradient) for name, gradient in gradients.items()}

    def _along(self, name: str, gradient: Any, place: Any) -> Any:
        # In this order, as in simulations.
        if self._push is not None:
            gradient = gradient + self._as(gradient, name, "push", self._push)
        if self._pull is not None:
            gradient = gradient + (place - self._as(place, name, "start", self._start)) * self._pull
        return gradient

    def _as(self, like: Any, name: str, what: str, arrays: Arrays) -> Any:
        """An array of these in the kind, precision and place of another."""
        key = (name, what, f"{type(like).__name__} {like.dtype} {getattr(like, 'device', None)}")
        if key not in self._cast:
            self._cast[key] = _cast(arrays[name], like)
        return self._cast[key]

    def _in_full(self, arrays: Mapping[str, Any]) -> Arrays:
        found = {name: _to_numpy(array) for name, array in arrays.items()}
        return {name: found.get(name, np.zeros(part.shape, np.float32)) for name, part in self._start.items()}


def _is_of_torch(array: Any) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)


def _in_32_bits(gradient: Any) -> Any:
    """A copy, since gradients are changed where they stand."""
    if _is_of_torch(gradient):
        return gradient.detach().to(sys.modules["torch"].float32, copy=True)
    return gradient.astype(np.float32)


def _cast(array: np.ndarray, like: Any) -> Any:
    if _is_of_torch(like):
        return sys.modules["torch"].tensor(array, dtype=like.dtype, device=like.device)
    if isinstance(like, np.ndarray | np.generic):
        return array.astype(like.dtype)
    return sys.modules["jax"].numpy.asarray(array, like.dtype)


def _to_numpy(array: Any) -> np.ndarray:
    return array.cpu().numpy() if _is_of_torch(array) else np.asarray(array)


_AT_WORK: ContextVar[Steer | None] = ContextVar("turnout.steer", default=None)


@contextmanager
def steering(with_this: Steer | None) -> Iterator[None]:
    """Let `steer` be this one while an order is worked on; None where the algorithm leaves local steps alone."""
    token = _AT_WORK.set(with_this)
    try:
        yield
    finally:
        _AT_WORK.reset(token)


def steer(gradients: Any, model: Any = None) -> Any:
    """What a local step is to move along, in place of its raw gradient; the gradient itself if nothing steers.

    Call it once in every step, on the raw gradient, before momentum, decay and clipping. `gradients` and `model`, the
    model at this step, are arrays of NumPy, PyTorch or JAX by the names of the arrays that were sent; for a module of
    PyTorch alone, `steer(net)` changes the gradients of its parameters where they stand, and returns nothing. Inside
    `train` it is `config["steer"]`, too.
    """
    at_work = _AT_WORK.get()
    if at_work is not None:
        return at_work(gradients, model)
    return None if hasattr(gradients, "named_parameters") else gradients
