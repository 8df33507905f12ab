"""Downloads from a server of the test's own: mirrors, checksums, and taking up where one was cut."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from turnout.files.downloads import Remote, download, local_copy

pooch = pytest.importorskip("pooch")
CONTENT = bytes(range(256)) * 4000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Shelf(BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; under /cut it stops half-way, under /other it has other bytes."""

    asked: ClassVar[list] = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        type(self).asked.append((self.path, wanted))
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and "deaf" not in self.path else 0
        if begin >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[begin:] if "other" not in self.path else CONTENT[begin:][::-1]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if "cut" in self.path else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TURNOUT_DATA", raising=False)
    monkeypatch.setattr(Shelf, "asked", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def remote(server, *places, checksum=SHA256):
    return Remote("set/file.bin", checksum, tuple(f"{server}/{place}" for place in places))


def most_of_half(wanted):
    """Whether a range begins where the connection broke, but for a last piece that was not written any more."""
    return len(CONTENT) // 2 - 2**17 < int(wanted.removeprefix("bytes=").removesuffix("-")) <= len(CONTENT) // 2


def test_a_file_is_downloaded_once(server):
    for _ in range(2):
        path = download(remote(server, "whole"), "turnout.tasks.mnist")
        assert path.read_bytes() == CONTENT
    assert Shelf.asked == [("/whole", None)]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_the_next_mirror_takes_up_what_a_cut_one_left(server):
    path = download(remote(server, "missing", "cut", "whole"), "turnout.tasks.mnist")
    assert path.read_bytes() == CONTENT
    assert [place for place, _ in Shelf.asked] == ["/missing", "/cut", "/whole"]
    assert most_of_half(Shelf.asked[-1][1])


def test_a_file_may_be_known_by_its_name_in_git(server):
    name = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT, usedforsecurity=False).hexdigest()
    path = download(remote(server, "other", "whole", checksum=f"git:{name}"), "turnout.tasks.mnist")
    assert path.read_bytes() == CONTENT
    assert [place for place, _ in Shelf.asked] == ["/other", "/whole"]
    with pytest.raises(FileNotFoundError, match="the checksum is wrong"):
        download(remote(server, "whole", checksum=f"git:{name[::-1]}"), "turnout.tasks.mnist")
    assert not path.exists()


def test_a_later_call_takes_up_what_an_earlier_one_left(server):
    with pytest.raises(FileNotFoundError, match="is missing"):
        download(remote(server, "cut"), "turnout.tasks.mnist")
    path = download(remote(server, "whole"), "turnout.tasks.mnist")
    assert path.read_bytes() == CONTENT
    assert most_of_half(Shelf.asked[-1][1])


def test_a_server_without_ranges_sends_all_again(server):
    assert download(remote(server, "cut", "deaf"), "turnout.tasks.mnist").read_bytes() == CONTENT


def test_a_part_that_was_whole_already_is_used(server):
    download(remote(server, "whole"), "turnout.tasks.mnist")
    path = download(remote(server, "whole"), "turnout.tasks.mnist")
    path.rename(path.with_name("file.bin.part"))
    assert download(remote(server, "whole"), "turnout.tasks.mnist").read_bytes() == CONTENT


def test_wrong_bytes_are_never_left_under_the_name(server):
    with pytest.raises(FileNotFoundError, match="the checksum is wrong") as caught:
        download(remote(server, "other"), "turnout.tasks.mnist")
    assert "\n" not in str(caught.value)
    folder = pooch.os_cache("turnout") / "data" / "set"
    assert list(folder.iterdir()) == []
    assert download(remote(server, "other", "whole"), "turnout.tasks.mnist").read_bytes() == CONTENT


def test_without_a_network_the_error_is_one_line_with_both_ways():
    closed = Remote("set/file.bin", SHA256, ("http://127.0.0.1:9/file.bin",))
    with pytest.raises(FileNotFoundError, match=r"127.0.0.1:9: ConnectionError.*TURNOUT_DATA") as caught:
        download(closed, "turnout.tasks.mnist")
    assert "from turnout.tasks.mnist import load" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_users_own_folder_comes_first(server, monkeypatch, tmp_path):
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin").write_bytes(b"mine")
    assert local_copy(remote(server, "whole"), "turnout.tasks.mnist").read_bytes() == b"mine"
    assert Shelf.asked == []
