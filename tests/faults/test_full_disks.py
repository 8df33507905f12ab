"""Full disks, disks that cannot be written, and two processes on one folder: told in one line, nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from counts import Counts
from sessions import CACHE, Sessions

from tiny_experiment import TINY
from turnout.workbench import load
from turnout.workbench.experiment import toml

LONGER = TINY | {"rounds": 12, "task": TINY["task"] | {"num_clients": 6}}
NUMBERS = ("history.parquet", "clients.parquet", "attendance.parquet", "models.npz")
IN_A_NAMESPACE = """
mount -t tmpfs -o size={size}k tmpfs {disk} || exit 97
cd {disk}
{python} -m turnout run {experiment} -q --out run 2> {out}/first.err
echo $? > {out}/first.code
mount -o remount,size=64m {disk}
{python} -m turnout run --resume run -q 2> {out}/second.err || {python} -m turnout run {experiment} -q --out run
echo $? > {out}/second.code
cp -r run {out}/run
"""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disks")
    (folder / "tiny.toml").write_text(toml.write(LONGER))
    running = Sessions(folder)
    assert running.run("run", "tiny.toml", "-q", "--out", "whole").code == 0
    yield running
    running.close()


def same(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in NUMBERS)


def fill(sessions: Sessions, steps: range) -> Counts:
    """Let the disk be full from a step on; make room, and go on."""
    counts = Counts()
    for step in steps:
        counts.tried += 1
        out = sessions.folder / f"full-{step}"
        ended = sessions.run("run", "tiny.toml", "-q", "--out", out.name, full_at=step)
        if ended.code == 2 and "no space left on device" in ended.err.lower():
            counts.refused += 1
        elif ended.code:
            counts.undeclared += 1
            counts.kinds.setdefault(f"exit code {ended.code}", ended.err[-2000:])
        if (out / "unfinished").exists():
            assert f"go on with: turnout run --resume {out.name}" in ended.err
            ended = sessions.run("run", "--resume", out.name, "-q")
            counts.resumed += ended.code == 0
        elif not out.exists():
            ended = sessions.run("run", "tiny.toml", "-q", "--out", out.name)
        counts.lost += ended.code != 0 or not (out / "run.json").exists()
        counts.changed += ended.code == 0 and not same(out, sessions.folder / "whole")
    return counts


@pytest.mark.parametrize("steps", [range(30, 31), pytest.param(range(0, 110, 7), marks=pytest.mark.faults)], ids=str)
def test_a_full_disk_is_told_and_the_run_goes_on(sessions, steps):
    counts = fill(sessions, steps)
    print(f"\nfull disks: {counts}", file=sys.stderr)
    counts.check()
    assert counts.refused


@pytest.mark.faults
@pytest.mark.parametrize("size", [4, 40, 120, 400])
def test_a_small_disk_in_earnest(sessions, tmp_path, size):
    """A file system of so many kilobytes, in a namespace of its own, which Linux lets any user have."""
    (tmp_path / "disk").mkdir()
    script = IN_A_NAMESPACE.format(
        size=size, disk=tmp_path / "disk", python=sys.executable, experiment=sessions.folder / "tiny.toml", out=tmp_path
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = (tmp_path / "first.err").read_text()
    assert (tmp_path / "first.code").read_text().strip() == "2", told
    assert "no space left on device" in told.lower()
    assert "Traceback" not in told
    assert (tmp_path / "second.code").read_text().strip() == "0", (tmp_path / "second.err").read_text()
    assert same(tmp_path / "run", sessions.folder / "whole")


@pytest.mark.faults
def test_a_disk_that_cannot_be_written_is_told_before_anything_runs(sessions, tmp_path):
    """Read-only for the superuser, too."""
    (tmp_path / "disk").mkdir()
    script = (
        f"mount -t tmpfs -o ro tmpfs {tmp_path / 'disk'} || exit 97; cd {sessions.folder};"
        f"exec {sys.executable} -m turnout run tiny.toml -q --out {tmp_path / 'disk' / 'run'}"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_second_process_on_a_folder_is_told_at_once(sessions):
    command = [sys.executable, "-m", "turnout", "run", "tiny.toml", "-q", "--out", "shared"]
    environment = os.environ | {"TURNOUT_CACHE": str(CACHE)}
    first = subprocess.Popen(
        command, cwd=sessions.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while not (sessions.folder / "shared" / "unfinished" / "start.json").exists():
        assert first.poll() is None
    for argv in (("run", "tiny.toml", "-q", "--out", "shared"), ("run", "--resume", "shared", "-q")):
        ended = sessions.run(*argv)
        assert ended.code == 2
        assert "another process" in ended.err
        assert ended.err.count("\n") == 1
    assert first.wait() == 0
    assert first.stderr is not None
    first.stderr.close()
    assert same(sessions.folder / "shared", sessions.folder / "whole")
    assert len(load(sessions.folder / "shared").points) == 3
