"""Numpy's own file format, written and read without the copies that a file needs."""

from __future__ import annotations

import math
from io import BytesIO

import numpy as np

HEADER = 16384  # bytes within which the header of a file must end


def packed(array: np.ndarray) -> bytes:
    """The bytes that `numpy.save` writes."""
    rows = np.asarray(array, order="C")
    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(rows))
    return b"".join((head.getvalue(), rows.reshape(-1).view(np.uint8).data))


def unpacked(data: bytes) -> np.ndarray:
    """The array that `numpy.load` reads, as a read-only view; raises a ValueError if it is no array of numbers."""
    head = BytesIO(data[:HEADER])
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not supported: expected 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(head)
    if dtype.hasobject or any(length < 0 for length in shape):
        raise ValueError(f"dtype {dtype} with shape {shape} is no array of numbers")
    flat = np.frombuffer(data, dtype, math.prod(shape), offset=head.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
