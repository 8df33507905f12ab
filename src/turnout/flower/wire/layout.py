"""A model as named numpy arrays for users and messages, and as 32-bit floats for strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Layout:
    """Names, shapes and dtypes of a model's arrays.

    Arrays of floating point are trained, whatever their precision. All others, such as counters of batches or masks,
    are sent along as they were in the first model and never changed.
    """

    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]
    carried: Arrays = field(repr=False)  # arrays that are not trained

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Layout:
        if odd := [name for name, array in arrays.items() if array.dtype.kind not in "fiub"]:
            raise ValueError(
                f"array {odd[0]!r} has dtype {arrays[odd[0]].dtype}; it must be floats, integers or booleans"
            )
        carried = {name: array.copy() for name, array in arrays.items() if array.dtype.kind != "f"}
        if len(carried) == len(arrays):
            raise ValueError(f"nothing to train: none of the {len(arrays)} arrays of the model holds floats")
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        return cls(shapes, {name: array.dtype for name, array in arrays.items()}, carried)

    @property
    def trained(self) -> tuple[str, ...]:
        return tuple(name for name in self.shapes if name not in self.carried)

    def to_params(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        import jax.numpy as jnp  # a client that sends models does not need it

        return {name: jnp.asarray(arrays[name], jnp.float32) for name in self.trained}

    def to_arrays(self, params: Mapping[str, Any], copy: bool = True) -> Arrays:
        """The whole model in the user's order and dtypes; without a copy it is only valid as long as `params` are."""
        return {
            name: self.carried[name]
            if name in self.carried
            else np.asarray(params[name]).astype(self.dtypes[name], copy=copy)
            for name in self.shapes
        }

    def rows(self, slots: int) -> Arrays:
        """Zeros for one update per slot."""
        return {name: _aligned_zeros((slots, *self.shapes[name])) for name in self.trained}


def _aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros aligned as jax on a CPU needs them, so that it uses a gigabyte in place instead of copying it."""
    count = 4 * int(np.prod(shape, dtype=np.int64))
    room = np.zeros(count + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + count].view(np.float32).reshape(shape)
