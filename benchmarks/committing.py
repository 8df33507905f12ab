"""What it costs a run to commit its numbers as it goes: the share of the demo's time that is spent on that.

    python benchmarks/committing.py [EXPERIMENT] [--set KEY=VALUE]

The command `turnout run` is run in this process. Timed apart are the keeping of each finished strategy, synced to the
disk, and the states within a long one, which a crew's thread writes while others train. The rest of the time is a run
without them.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

from typer.testing import CliRunner

from turnout.simulator.savepoint import Savepoint
from turnout.workbench.cli import app
from turnout.workbench.experiment.kept import KeptPoints


class Clock:
    """Seconds spent in some methods, summed over threads."""

    def __init__(self) -> None:
        self.seconds, self.calls, self._lock = 0.0, 0, threading.Lock()

    def watch(self, kind: type, name: str) -> None:
        method = getattr(kind, name)

        def timed(*arguments, **named):
            begin = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                with self._lock:
                    self.seconds, self.calls = self.seconds + time.perf_counter() - begin, self.calls + 1

        setattr(kind, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", nargs="?", default="demo")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    points, states = Clock(), Clock()
    points.watch(KeptPoints, "keep")
    states.watch(Savepoint, "save")
    changes = [part for change in given.set for part in ("--set", change)]
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        command = ["run", given.experiment, "--quiet", "--out", str(Path(place) / "run"), *changes]
        result = CliRunner().invoke(app, command)
        seconds = time.perf_counter() - begin
    assert result.exit_code == 0, result.output
    spent = points.seconds + states.seconds
    print(f"{given.experiment}: {seconds:.1f} s, of which {points.calls} kept strategies took {points.seconds:.3f} s")
    print(f"and {states.calls} segments {states.seconds:.3f} s: {spent / (seconds - spent):.2%} of a run without them")


if __name__ == "__main__":
    main()
