"""The idx format of MNIST: big-endian sizes, then bytes."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from turnout.files.downloads import Remote, located
from turnout.files.integrity import reading, verify
from turnout.tasks.data.image_sets import Images

BYTES = b"\x00\x00\x08"  # two zeros, then the code of unsigned bytes


def load_idx(data_set: str, files: dict[str, tuple[str, str]], mirrors: tuple[str, ...]) -> tuple[Images, Images]:
    """Training and test images of a data set that comes as MNIST's four files."""
    arrays = []
    for name, (packed, unpacked) in files.items():
        remote = Remote(f"{data_set}/{name}", f"md5:{packed}", tuple(f"{mirror}/{name}" for mirror in mirrors))
        arrays.append(read_idx(located(remote, f"turnout.tasks.{data_set}"), f"md5:{unpacked}"))
    train, train_labels, test, test_labels = arrays
    return Images(train, train_labels.astype(np.int64)), Images(test, test_labels.astype(np.int64))


def read_idx(path: Path, checksum: str) -> np.ndarray:
    """The array of an idx file of bytes, packed by gzip or not; the checksum is that of the unpacked file.

    So a file that was packed anew by another gzip is still the same.
    """
    with reading(path):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        array = parse_idx(content)
        verify(content, checksum)
    return array


def parse_idx(content: bytes) -> np.ndarray:
    rank = content[3] if len(content) > 3 else 0
    begin = 4 + 4 * rank
    if content[:3] != BYTES or rank == 0 or len(content) < begin:
        raise ValueError("it does not begin as an idx file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", rank, 4))
    if len(content) - begin != math.prod(shape):
        raise ValueError(f"it promises {math.prod(shape)} bytes of shape {shape} and has {len(content) - begin}")
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)
