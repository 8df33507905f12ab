"""Arrays by name in the safetensors format: eight bytes of length, a header of JSON, and the numbers."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from turnout.files.integrity import reading

Arrays = dict[str, np.ndarray]
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
MOST_HEADER = 100 * 2**20  # bytes, as in the format's own description


def read_safetensors(path: Path) -> Arrays:
    """The arrays of a file; bfloat16 becomes float32, all else stays what it is."""
    with reading(path), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MOST_HEADER, path.stat().st_size - 8):
            raise ValueError(f"its header would have {length} bytes")
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is no table")
        numbers = file.read()
        return {name: _array(name, entry, numbers) for name, entry in header.items() if name != "__metadata__"}


def _array(name: str, entry: Any, numbers: bytes) -> np.ndarray:
    kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    dtype = np.dtype("<u2" if kind == "BF16" else DTYPES[kind])
    if any(type(size) is not int or size < 0 for size in (*shape, begin, end)):
        raise ValueError(f"{name} has sizes that are no whole numbers")
    if not begin <= end <= len(numbers) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} should be {kind} of shape {shape}, but lies from byte {begin} to {end}")
    array = np.frombuffer(numbers[begin:end], dtype).reshape(shape)
    return (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file whole or not at all."""
    plain = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    header: dict[str, Any] = {}
    end = 0
    for name, array in plain.items():
        if array.dtype not in NAMES:
            raise TypeError(f"{name} is {array.dtype}; give one of {', '.join(str(dtype) for dtype in NAMES)}")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.writelines(array.tobytes() for array in plain.values())
        Path(unfinished).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(unfinished).unlink()
        raise
