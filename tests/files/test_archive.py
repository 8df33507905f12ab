import numpy as np
import pytest

from turnout.files.archive import read_archive, write_archive
from turnout.files.manifest import EditedError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.npz"
    write_archive(path, {"round": 3, "names": ["a/b", "ä"]}, {"[0]/x y": np.arange(5), "ä": np.float32([1.5, np.nan])})
    return path


def test_an_archive_reads_back_as_it_was(path):
    header, arrays = read_archive(path)
    assert header == {"round": 3, "names": ["a/b", "ä"]}
    np.testing.assert_array_equal(arrays["[0]/x y"], np.arange(5))
    np.testing.assert_array_equal(arrays["ä"], np.float32([1.5, np.nan]))
    assert arrays["ä"].dtype == np.float32


def test_every_single_bit_counts(path):
    content = bytearray(path.read_bytes())
    for bit in range(0, 8 * len(content), 61):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(flipped)
        with pytest.raises(EditedError, match=r"state\.npz: "):
            read_archive(path)


def test_every_cut_is_noticed(path):
    content = path.read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(EditedError, match=r"state\.npz: "):
            read_archive(path)


def test_objects_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_archive(tmp_path / "state.npz", {}, {"object": np.array([{}], object)})
    assert list(tmp_path.iterdir()) == []
