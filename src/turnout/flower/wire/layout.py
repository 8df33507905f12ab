"""Arrays by name: a model and its layout, the bytes of an array in a message, and the arrays of a state in a file.

A client that sends models does not need jax, so only the functions that do need it import it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

HEADER = 16384  # bytes within which the header of a packed array must end


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
        import jax.numpy as jnp

        return {name: jnp.asarray(arrays[name], jnp.float32) for name in self.trained}

    def to_arrays(self, params: Mapping[str, Any], copy: bool = True) -> Arrays:
        """The whole model in the user's order and dtypes; without a copy it is only valid as long as `params` are."""
        return {
            name: self.carried[name]
            if name in self.carried
            else np.asarray(params[name]).astype(self.dtypes[name], copy=copy)
            for name in self.shapes
        }

    def is_same(self, one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
        """Whether two models are the same in all that is trained; arrays of another form are an error."""
        if one.keys() != other.keys() or any(np.shape(one[name]) != np.shape(other[name]) for name in other):
            raise ValueError("the model handed to the strategy has other arrays or shapes than the one it returned")
        return all(np.array_equal(one[name], other[name]) for name in self.trained)

    def rows(self, slots: int) -> Arrays:
        """Zeros for one update per slot."""
        return {name: _aligned_zeros((slots, *self.shapes[name])) for name in self.trained}


def _aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros aligned as jax on a CPU needs them, so that it uses a gigabyte in place instead of copying it."""
    count = 4 * int(np.prod(shape, dtype=np.int64))
    room = np.zeros(count + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + count].view(np.float32).reshape(shape)


def pack(array: np.ndarray) -> bytes:
    """The bytes that `numpy.save` writes, without the copies that a file needs."""
    rows = np.asarray(array, order="C")
    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(rows))
    return b"".join((head.getvalue(), rows.reshape(-1).view(np.uint8).data))


def unpack(data: bytes) -> np.ndarray:
    """The array that `numpy.load` reads, as a read-only view; raises a ValueError if it is no array of numbers."""
    version = np.lib.format.read_magic(BytesIO(data[:8]))
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not supported: expected 1.0 or 2.0")
    begin = 10 if version == (1, 0) else 12
    end = min(begin + int.from_bytes(data[8:begin], "little"), HEADER)
    shape, by_columns, dtype = _form_in(data[:end])
    flat = np.frombuffer(data, dtype, math.prod(shape), offset=end)
    return flat.reshape(shape, order="F" if by_columns else "C")


@lru_cache(maxsize=1024)
def _form_in(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype in the head of a file; clients send the same ones, and reading them takes longest."""
    file = BytesIO(head)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject or any(length < 0 for length in shape):
        raise ValueError(f"dtype {dtype} with shape {shape} is no array of numbers")
    return shape, by_columns, dtype


def named_leaves(state: Any) -> Arrays:
    """The arrays of a state by their path."""
    import jax

    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}


def with_leaves(state: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """The state with these arrays in it; a ValueError names one that does not fit."""
    import jax
    import jax.numpy as jnp

    paths, form = jax.tree_util.tree_flatten_with_path(state)
    if len(paths) != len(leaves):
        raise ValueError(f"it holds {len(leaves)} arrays of state, but this strategy and server have {len(paths)}")
    arrays = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path)
        if name not in leaves or leaves[name].shape != leaf.shape or leaves[name].dtype != leaf.dtype:
            held = f"{leaves[name].dtype}{leaves[name].shape}" if name in leaves else "nothing"
            raise ValueError(f"state{name} is {leaf.dtype}{leaf.shape}, but it holds {held}")
        arrays.append(jnp.array(leaves[name], copy=True))  # a buffer of its own, which may be donated
    return jax.tree_util.tree_unflatten(form, arrays)
