import io
import zipfile

import numpy as np
import pytest

from turnout.files.integrity import read_npz, reading


def read(path):
    with reading(path):
        return read_npz(path, ("images",))


def test_an_npz_with_an_unknown_compression_is_told(tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, images=np.zeros(3))
    content = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the local header, and the one at the end
        at = content.index(signature) + place
        content[at : at + 2] = (77).to_bytes(2, "little")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"images.npz is damaged .*compression method is not supported"):
        read(path)


def test_an_array_that_promises_more_than_it_holds_gets_no_room(tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(tmp_path / "images.npz", "w") as archive:
        archive.writestr("images.npy", head.getvalue())
    with pytest.raises(ValueError, match=r"images.npy promises 8000000000000000 bytes"):
        read(tmp_path / "images.npz")
