"""Ctrl-C ends a command within two seconds with exit code 130, whatever it is doing, and says how to go on."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")

BUSY = """
import concurrent.futures, hashlib, sys, threading
from turnout.workbench.cli.stopping import INTERRUPTED, end_when_asked, leave, say_when_stopped
from turnout.workbench.cli.terminal import one_line_errors

def compute():  # like a compiler: Python can raise nothing in it, other threads run
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)

def here():
    compute()

def in_threads():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda _: compute(), range(1)))

def swallowing():
    print("busy", flush=True)
    while True:
        try:
            threading.Event().wait(30)
        except KeyboardInterrupt:
            pass

end_when_asked()
say_when_stopped("go on with: turnout run --resume there")
{place}()
"""


def stopped(process, number=signal.SIGINT, times=1):
    """Seconds until the process ends after the signal."""
    assert process.stdout.readline() == "busy\n"
    time.sleep(0.1)
    begun = time.monotonic()
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.05)
    _, said = process.communicate(timeout=25)
    return time.monotonic() - begun, said


@pytest.mark.parametrize("place", ["here", "in_threads", "swallowing"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_process_that_computes(place, number, code):
    with _started(BUSY.format(place=place)) as process:
        seconds, said = stopped(process, number)
    assert process.returncode == code
    assert seconds < 2
    assert said.endswith("stopped: go on with: turnout run --resume there\n")


def test_a_second_signal_ends_it_at_once():
    with _started(BUSY.format(place="here")) as process:
        seconds, _ = stopped(process, times=2)
    assert process.returncode == 130
    assert seconds < 0.9  # the grace is a second


def _started(program):
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_training_is_stopped_and_goes_on(tmp_path):
    """With segments of minutes, from the first state that was saved."""
    run = [sys.executable, "-m", "turnout", "run", "demo", "--rounds", "100000", "--seeds", "1", "--out", "there"]
    with subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        waited = time.monotonic()
        while not list((tmp_path / "there").rglob("*.npz")):
            assert process.poll() is None
            assert time.monotonic() - waited < 300
            time.sleep(0.2)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert time.monotonic() - begun < 2
    assert process.returncode == 130
    assert said.endswith("stopped: go on with: turnout run --resume there\n")
    again = [sys.executable, "-m", "turnout", "run", "--resume", "there", "--quiet"]
    with subprocess.Popen(again, cwd=tmp_path, env=os.environ) as resumed:
        time.sleep(5)
        assert resumed.poll() is None
        resumed.kill()
