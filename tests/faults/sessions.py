"""Sessions of the command in processes of their own, which can be killed at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counts import Counts

ZYGOTE = Path(__file__).with_name("zygote.py")
CACHE = Path(tempfile.gettempdir()) / "turnout-faults-cache"  # not the user's: a killed process may tear an entry
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CLEAN = (0, 2, 130, 143)  # exit codes of a command that says what is the matter


@dataclass(frozen=True)
class Ended:
    """How a session ended."""

    code: int  # negative for a signal, 9 at a step on the disk
    out: str
    err: str

    @property
    def crashed(self) -> bool:
        """Whether it ended in a way that nobody asked for."""
        return self.code not in (*CLEAN, 9, *(-one for one in SIGNALS)) or "Traceback" in self.err


class Sessions:
    """A process that forks one child per session, one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = os.environ | {"TURNOUT_CACHE": str(CACHE), "COLUMNS": "200", "NO_COLOR": "1"}
        command = [sys.executable, str(ZYGOTE)]
        self._zygote = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )

    def run(self, *argv: str, **how: Any) -> Ended:
        """One session to its end; `how` has kill_after and signal, die_at or full_at."""
        out, err = self.folder / ".stdout", self.folder / ".stderr"
        session = {"argv": argv, "cwd": str(self.folder), "out": str(out), "err": str(err)} | how
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(session) + "\n")
        self._zygote.stdin.flush()
        answer = json.loads(self._zygote.stdout.readline())
        return Ended(answer["code"], out.read_text(errors="replace"), err.read_text(errors="replace"))

    def close(self) -> None:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.close()
        self._zygote.stdout.close()
        self._zygote.wait()


def kill_somewhere(draw: random.Random, seconds: float, steps: int) -> dict[str, Any]:
    """A way to die: by a signal within these seconds, or at one of these steps on the disk."""
    if draw.random() < 0.5:
        return {"die_at": draw.randrange(steps)}
    return {"kill_after": draw.uniform(0.2, seconds), "signal": int(draw.choice(SIGNALS))}


def note(counts: Counts, ended: Ended, described: str) -> None:
    """Count a session that was to be killed, or was refused."""
    counts.tried += 1
    if ended.crashed:
        counts.undeclared += 1
        counts.kinds.setdefault(f"exit code {ended.code}", f"{described}\n{ended.err[-2000:]}")
    elif ended.code == 2:
        counts.refused += 1
