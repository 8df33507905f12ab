"""A process that has imported everything heavy and forks a child for every session: a killed session costs no import.

It reads one JSON object per line, and answers with one: how the child ended.
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import flower_server
import jax  # noqa: F401  (before the fork, while it has no threads)

import turnout.workbench.cli
import turnout.workbench.experiment.unfinished
import turnout.workbench.reproduction.reproduce
from turnout.simulator import savepoint

PATIENCE = 1200.0  # seconds for a session that nobody kills


def fail_at(step, full):
    """Let the process die at this step on the disk, counted from 0; or let the disk be full from there on."""
    left = [step]

    def counting(plain):
        def counted(*arguments, **options):
            left[0] -= 1
            if left[0] < 0 and full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if left[0] < 0:
                os._exit(9)
            return plain(*arguments, **options)

        return counted

    os.fsync = counting(os.fsync)
    if not full:
        os.replace = counting(os.replace)
        Path.replace, Path.unlink = counting(Path.replace), counting(Path.unlink)
        shutil.rmtree = counting(shutil.rmtree)


def child(session):
    os.chdir(session["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in ((1, session["out"]), (2, session["err"])):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    savepoint.SECONDS, savepoint.COST = 0.0, 0
    for step in ("die_at", "full_at"):
        if session.get(step) is not None:
            fail_at(session[step], full=step == "full_at")
    code = 1
    try:
        if session["argv"][0] == "flower-server":
            flower_server.serve(*session["argv"][1:])
        else:
            sys.argv = ["turnout", *session["argv"]]
            turnout.workbench.cli.main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except Exception:
        traceback.print_exc()
    except KeyboardInterrupt:  # a server of Flower says nothing of its own
        code = 130
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait(pid, session):
    """The exit code of a child, negative for a signal; it is sent its signal when its time has come."""
    begun, kill_after = time.monotonic(), session.get("kill_after")
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        spent = time.monotonic() - begun
        if kill_after is not None and spent > kill_after:
            os.kill(pid, session["signal"])
            kill_after = None
        if spent > PATIENCE:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


for line in sys.stdin:
    asked = json.loads(line)
    if (pid := os.fork()) == 0:
        child(asked)
    print(json.dumps({"code": wait(pid, asked)}), flush=True)
