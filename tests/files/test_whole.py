"""Folders and files that are whole or absent, whatever happens on the way, and manifests that name what was edited."""

import json
import os
import subprocess
import sys

import pytest

from turnout.errors import FolderError
from turnout.files.manifest import EditedError, Manifest, read_contents
from turnout.files.whole import (
    FileLock,
    durable_file,
    is_locked,
    renew_folder,
    replace_folder,
    settle,
    whole_file,
    whole_or_absent,
)


@pytest.fixture
def folder(tmp_path):
    with whole_or_absent(tmp_path / "folder") as work:
        (work / "a.txt").write_text("old a")
        (work / "b.txt").write_text("old b")
    return tmp_path / "folder"


def texts(folder, *names):
    return [content.decode() for content in read_contents(folder, names).values()]


def test_a_folder_has_a_manifest_of_its_files(folder):
    assert {file.name for file in folder.iterdir()} == {"a.txt", "b.txt", "manifest.json"}
    document = json.loads((folder / "manifest.json").read_text())
    assert document["format"] == 1
    assert set(document["files"]) == {"a.txt", "b.txt"}


def test_an_edited_file_is_named(folder):
    (folder / "a.txt").write_text("new a")
    with pytest.raises(EditedError, match=r"a\.txt: edited or damaged since it was written; `turnout verify"):
        read_contents(folder, ["a.txt", "b.txt"])
    assert texts(folder, "b.txt") == ["old b"]
    (folder / "b.txt").unlink()
    with pytest.raises(EditedError, match=r"b\.txt: missing"):
        read_contents(folder, ["b.txt"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "damaged or edited, not a manifest"),
        ('{"format": 1}', "damaged or edited"),
        ('{"format": 1, "files": []}', "damaged or edited"),
        ('{"format": 1, "files": {"../a.txt": "sha256:"}}', "damaged or edited"),
        ('{"format": 1, "files": {"a.txt": 3}}', "damaged or edited"),
        ('{"format": 2, "files": {"a.txt": "sha256:"}}', "of a later turnout"),
        ("[" * 100_000, "damaged or edited"),
    ],
)
def test_a_damaged_manifest_is_named(folder, text, complaint):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(EditedError, match=complaint):
        read_contents(folder, ["a.txt"])


def test_a_folder_without_a_manifest_is_read_as_it_is(folder):
    (folder / "manifest.json").unlink()
    (folder / "a.txt").write_text("new a")
    assert texts(folder, "a.txt", "absent.txt") == ["new a"]
    with renew_folder(folder) as work:
        (work / "b.txt").write_text("new b")
    assert not (folder / "manifest.json").exists()  # it would vouch for a file of which nothing is known


def test_a_renewal_keeps_other_files_and_their_sums(folder):
    (folder / "a.txt").write_text("edited")
    with renew_folder(folder) as work:
        (work / "b.txt").write_text("new b")
        (work / "c.txt").write_text("new c")
    assert texts(folder, "b.txt", "c.txt") == ["new b", "new c"]
    with pytest.raises(EditedError, match=r"a\.txt"):
        read_contents(folder, ["a.txt"])
    assert {file.name for file in folder.iterdir()} == {"a.txt", "b.txt", "c.txt", "manifest.json"}


def test_a_replacement_leaves_nothing_of_before(folder):
    with replace_folder(folder) as work:
        (work / "b.txt").write_text("new b")
    assert {file.name for file in folder.iterdir()} == {"b.txt", "manifest.json"}
    (folder / "manifest.json").unlink()
    with replace_folder(folder) as work:
        (work / "c.txt").write_text("new c")
    assert {file.name for file in folder.iterdir()} == {"c.txt", "manifest.json"}


def test_a_failure_leaves_what_was_there(folder):
    def fail(change):
        with change(folder) as work:
            (work / "a.txt").write_text("new a")
            raise OSError("disk full")

    for change in (renew_folder, replace_folder):
        with pytest.raises(OSError, match="disk full") as caught:
            fail(change)
        assert caught.value.filename == str(folder)
    assert texts(folder, "a.txt", "b.txt") == ["old a", "old b"]
    assert {file.name for file in folder.iterdir()} == {"a.txt", "b.txt", "manifest.json"}


DYING = """
import os, shutil, sys
from pathlib import Path

left = int(sys.argv[3])

def until_it_dies(plain):
    def counted(*arguments, **options):
        global left
        if left == 0:
            os._exit(9)
        left -= 1
        return plain(*arguments, **options)
    return counted

for owner, name in ((os, "replace"), (os, "fsync"), (Path, "replace"), (Path, "unlink"), (shutil, "rmtree")):
    setattr(owner, name, until_it_dies(getattr(owner, name)))
with getattr(whole, sys.argv[1])(Path(sys.argv[2])) as work:
    (work / "a.txt").write_text("new a")
    (work / "c.txt").write_text("new c")
"""


@pytest.mark.parametrize("change", ["renew_folder", "replace_folder"])
@pytest.mark.parametrize("steps", range(0, 16, 2))
def test_a_process_that_is_killed_leaves_the_old_or_the_new(folder, change, steps):
    """After any number of steps on the disk, readers meet one of the two, and the next writer finishes."""
    subprocess.run([sys.executable, "-c", DYING, change, str(folder), str(steps)], check=False)

    def held():
        return sorted(texts(folder, *Manifest.read(folder).files))

    new = ["new a", "new c"] if change == "replace_folder" else ["new a", "new c", "old b"]
    before = held()
    assert before in (["old a", "old b"], new)
    settle(folder)
    assert held() == before
    with renew_folder(folder) as work:
        (work / "a.txt").write_text("newest a")
    assert texts(folder, "a.txt") == ["newest a"]
    assert not [file.name for file in folder.iterdir() if file.name.startswith(".draft") or file.name == ".renewal"]


def test_leftovers_of_dead_processes_are_removed_and_those_of_living_ones_stay(tmp_path):
    dead, other = tmp_path / ".folder-0123abcd", tmp_path / ".folder-mine"
    for place in (dead, other):
        place.mkdir()
        (place / "half.txt").write_text("half")
    with whole_or_absent(tmp_path / "folder") as first:
        with whole_or_absent(tmp_path / "folder") as second:
            assert first.exists()
            (second / "a.txt").write_text("second")
        assert not dead.exists()
        assert other.exists()
        (first / "a.txt").write_text("first")
        (tmp_path / "folder" / "a.txt").unlink()
        (tmp_path / "folder" / "manifest.json").unlink()
    assert texts(tmp_path / "folder", "a.txt") == ["first"]


def test_a_file_in_a_folder_with_a_manifest_is_listed(folder):
    with whole_file(folder / "page.html") as draft:
        draft.write_text("page")
    assert texts(folder, "page.html") == ["page"]


def test_a_durable_file_that_fails_leaves_the_one_before(tmp_path):
    with durable_file(tmp_path / "state") as file:
        file.write(b"old")

    def fail():
        with durable_file(tmp_path / "state") as file:
            file.write(b"ne")
            raise OSError(28, "full")

    with pytest.raises(OSError, match="full") as caught:
        fail()
    assert caught.value.filename == str(tmp_path / "state")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"state": b"old"}


def test_a_lock_is_held_once_and_tells_by_whom(tmp_path):
    lock = FileLock(tmp_path / "lock")
    assert is_locked(tmp_path / "lock")
    with pytest.raises(FolderError, match=rf"another process \({os.getpid()}\) is writing there"):
        FileLock(tmp_path / "lock")
    lock.release()
    assert not is_locked(tmp_path / "lock")
