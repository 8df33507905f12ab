import pytest


@pytest.fixture
def file(tmp_path):
    """Write lines, text or bytes, to a file and give its path."""

    def write(*lines, name="log.csv"):
        path = tmp_path / name
        path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
        return str(path)

    return write
