"""The idx format of MNIST: big-endian sizes, then bytes."""

import gzip
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from turnout.files.downloads import Remote, local_copy
from turnout.files.integrity import reading, verify
from turnout.tasks.data.image_task import Images

FILES = tuple(
    f"{name}-ubyte.gz" for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)
BYTES = b"\x00\x00\x08"  # two zeros, then the code of unsigned bytes


class IdxSet(NamedTuple):
    """A data set that comes as MNIST's four files."""

    name: str  # of the task and of its folder
    mirrors: tuple[str, ...]
    # For each file: md5 as published, of the packed file; md5 of the unpacked one, which every packing shares.
    checksums: tuple[tuple[str, str], ...]

    def load(self) -> tuple[Images, Images]:
        """Training and test images, from the folder of that name in TURNOUT_DATA or downloaded."""
        arrays = []
        for file, (packed, unpacked) in zip(FILES, self.checksums, strict=True):
            addresses = tuple(f"{mirror}/{file}" for mirror in self.mirrors)
            remote = Remote(f"{self.name}/{file}", f"md5:{packed}", addresses)
            arrays.append(read_idx(local_copy(remote, f"turnout.tasks.{self.name}"), f"md5:{unpacked}"))
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
