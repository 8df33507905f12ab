"""How a command ends when it is asked to: by Ctrl-C or SIGTERM, within two seconds, whatever it is doing.

Python raises nothing while a compiler or a compiled program runs, and waits at its end for threads that compute. So a
thread of its own hears of the signal at once and, if the command has not ended by then, ends the process itself. Files
are whole or absent at any moment (decision 0022), and nothing is lost that is not lost by a power cut.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130  # the shell's code for a program that was stopped by Ctrl-C
TERMINATED = 143  # and for one that was asked to end, by SIGTERM
GRACE = 1.0  # seconds in which a command may end by itself
NOTHING_LEFT = "nothing half-done is left"
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


class Terminated(KeyboardInterrupt):
    """The process was asked to end."""


class _Ending:
    """What is to be said if the process must be ended from outside of its command."""

    advice = NOTHING_LEFT
    told = False


def say_when_stopped(advice: str) -> None:
    """How to go on, if the command is stopped from now on."""
    _Ending.advice = advice


def say_stopped(advice: str) -> None:
    """Say that the command was stopped, and how to go on."""
    _Ending.told = True
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    sys.stderr.write(f"stopped: {advice}\n")
    sys.stderr.flush()


def end_when_asked() -> None:
    """Let SIGTERM end the process as Ctrl-C does, so that it says how to go on; neither is ever lost."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    if hasattr(signal, "setitimer"):
        sys.unraisablehook = _stop_again
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=_end_in_time, args=(heard,), daemon=True, name="stopping").start()


def leave(code: int) -> NoReturn:
    """End the process now: Python would wait for threads that compute, and some end in a crash."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the reader went away, or the stream is closed
            continue
    os._exit(code)


def _end_in_time(heard: int) -> None:
    """Wait for a signal, then for a while, or for another one, and end the process."""
    codes = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
    asked: list[int] = []
    while not asked:
        asked = [number for number in os.read(heard, 64) if number in codes]
    timer = threading.Timer(GRACE, _end, (codes[signal.Signals(asked[0])],))
    timer.daemon = True
    timer.start()
    while len(asked) < 2:
        asked += [number for number in os.read(heard, 64) if number in codes]
    _end(codes[signal.Signals(asked[0])])


def _end(code: int) -> None:
    if not _Ending.told:  # by the command itself
        say_stopped(_Ending.advice)
    leave(code)


def _stop_again(lost: Any) -> None:
    """Stop a moment later if the signal came where Python can raise nothing, as in a callback of its collector."""
    if lost.exc_type is None or not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    kind = lost.exc_type

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise kind

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
