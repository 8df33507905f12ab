"""Ctrl-C ends a command with exit code 130, whatever it is doing and however long that lasts, and says how to go on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from turnout.workbench.cli.stopping import GRACE

PATIENCE = 3600  # seconds, so that a slow machine is no fault
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")

BUSY = """
import concurrent.futures, hashlib, sys, threading
from turnout.workbench.cli import stopping
from turnout.workbench.cli.stopping import INTERRUPTED, end_when_asked, leave, say_when_stopped
from turnout.workbench.cli.terminal import one_line_errors

def compute():  # like a compiler: Python can raise nothing in it, other threads run; it lasts for hours
    while True:
        try:
            print("busy", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
        except KeyboardInterrupt:  # the signal came just before
            pass

def here():
    compute()

def in_threads():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda _: compute(), range(1)))

def swallowing():
    while True:
        try:
            print("busy", flush=True)
            threading.Event().wait(30)
        except KeyboardInterrupt:
            pass

stopping.GRACE = {grace}
end_when_asked()
say_when_stopped("go on with: turnout run --resume there")
{place}()
"""


@pytest.fixture
def started():
    """A program that runs, which is not left behind."""
    running = []

    def start(program):
        command = [sys.executable, "-c", program]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        assert running[-1].stdout.readline() == "busy\n"
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("place", ["here", "in_threads", "swallowing"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_process_that_computes(started, place, number, code):
    process = started(BUSY.format(place=place, grace=GRACE))
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert said.endswith("stopped: go on with: turnout run --resume there\n")


def test_a_second_signal_ends_it_without_grace(started):
    process = started(BUSY.format(place="here", grace=1e6))
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:  # two that come at once may arrive as one
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert process.returncode == 130


def test_the_grace_leaves_two_seconds_to_end_in():
    assert GRACE <= 1


@pytest.mark.slow
def test_a_training_is_stopped_and_goes_on(tmp_path):
    """With segments of minutes, from the first state that was saved."""
    run = [sys.executable, "-m", "turnout", "run", "demo", "--rounds", "100000", "--seeds", "1", "--out", "there"]
    with subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        waited = time.monotonic()
        while not list((tmp_path / "there").rglob("*.npz")):
            assert process.poll() is None
            assert time.monotonic() - waited < PATIENCE
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert said.endswith("stopped: go on with: turnout run --resume there\n")
    again = [sys.executable, "-m", "turnout", "run", "--resume", "there", "--quiet"]
    with subprocess.Popen(again, cwd=tmp_path, env=os.environ) as resumed:
        time.sleep(5)
        assert resumed.poll() is None
        resumed.kill()
