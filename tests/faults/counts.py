"""What came of the cases of a campaign: nothing may be lost or silently changed, and every error is a clean one."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from turnout.errors import is_mistake

SECONDS = 20  # of the processor, after which a case counts as one that never ends
KEPT = 5  # undeclared cases that are described


@dataclass
class Counts:
    """Numbers of cases; `undeclared` are errors that are not the library's own, and cases that never end."""

    tried: int = 0
    resumed: int = 0
    refused: int = 0
    lost: int = 0
    changed: int = 0
    undeclared: int = 0
    kinds: dict[str, str] = field(default_factory=dict, repr=False)  # the first case of each kind of undeclared error

    def __str__(self) -> str:
        names = ("tried", "resumed", "refused", "lost", "changed", "undeclared")
        return ", ".join(f"{getattr(self, name):,} {name}" for name in names)

    def case(self, run: Callable[[], object], described: str) -> None:
        """Run one case and count what comes of it."""
        self.tried += 1
        try:
            with limited(SECONDS):
                run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of polars is no Exception
            if isinstance(error, Exception) and is_mistake(error):
                self.refused += 1
                return
            self.undeclared += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {last.filename}:{last.lineno}"
            if len(self.kinds) < KEPT:
                self.kinds.setdefault(kind, f"{described}\n{''.join(traceback.format_exception(error))[-3000:]}")

    def check(self) -> None:
        """Fail, with the first cases, unless everything is in order."""
        described = "\n\n".join(f"{kind}\n{case}" for kind, case in self.kinds.items())
        assert (self.lost, self.changed, self.undeclared) == (0, 0, 0), f"{self}\n{described}"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A TimeoutError after so many seconds of the processor."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
