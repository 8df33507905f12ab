import io

import numpy as np
import pytest

from turnout.flower.wire.layout import pack, unpack

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(5),
    np.zeros((0, 3)),
    np.array([True, False]),
    np.arange(3, dtype=">f4"),
    np.arange(10)[::2],
]


def saved(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_the_format_is_that_of_numpy(array):
    assert pack(array) == saved(array)
    for data in (saved(array), saved(np.asfortranarray(array))):
        found = unpack(data)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
        assert not found.flags.writeable


def objects():
    file = io.BytesIO()
    np.save(file, np.array([{}]), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize("data", [b"", b"x", b"\x93NUMPY", saved(np.zeros(3))[:-1], objects()])
def test_what_is_no_array_of_numbers_is_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(data)
