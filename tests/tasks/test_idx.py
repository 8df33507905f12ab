import gzip
import hashlib
import struct

import numpy as np
import pytest

from turnout.tasks.data.idx import read_idx


def packed(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def md5(content):
    return f"md5:{hashlib.md5(content).hexdigest()}"


ARRAY = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
CONTENT = packed(ARRAY)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda content: gzip.compress(content, 1)])
def test_an_array_comes_back_however_it_was_packed(tmp_path, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(CONTENT))
    found = read_idx(path, md5(CONTENT))
    np.testing.assert_array_equal(found, ARRAY)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (CONTENT[:-1], r"promises 60 bytes of shape \(5, 4, 3\) and has 59"),
        (CONTENT + b"x", "has 61"),
        (b"", "does not begin as an idx file"),
        (b"\x00\x00\x08", "does not begin as an idx file"),
        (b"\x00\x00\x0d" + CONTENT[3:], "does not begin as an idx file"),
        (b"<html>not found</html>", "does not begin as an idx file"),
        (gzip.compress(CONTENT)[:-9], "end-of-stream"),
        (gzip.compress(CONTENT)[:30] + b"\x00" + gzip.compress(CONTENT)[31:], "is damaged"),
        (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), "the md5 of what it holds is"),
    ],
    ids=["short", "long", "empty", "head", "type", "page", "cut", "damaged", "other"],  # gzip writes down the time
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path, content, told):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told) as caught:
        read_idx(path, md5(CONTENT))
    assert str(caught.value).startswith(f"{path} is damaged")
    assert str(caught.value).endswith("delete it and get it again")
    assert "\n" not in str(caught.value)
