"""Who is there in a round, who of them may be asked, and what is known of them."""

import logging
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from turnout.declarations import check_fields
from turnout.flower.fleet.presence import Presence
from turnout.flower.server.driver import Driver
from turnout.flower.server.inspector import Inspector
from turnout.flower.wire.collecting import LateOrders
from turnout.flower.wire.retries import PollingGrid

shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning
_PATIENT_LOG = 60.0  # seconds between two lines that say that clients are waited for


@dataclass(frozen=True)
class Shares:
    """The share of the listed clients in training and evaluation, and the least numbers."""

    fraction_train: float = 1.0
    fraction_evaluate: float = 1.0
    min_train_nodes: int = 0
    min_evaluate_nodes: int = 0
    min_available_nodes: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("fraction_train", "fraction_evaluate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a share from 0 to 1, not {getattr(self, name)}")
        for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")

    def to_train(self, names: Sequence[str], seed: int, t: int) -> list[str]:
        """Clients that may be asked to train in round t."""
        return _draw(names, self.fraction_train, self.min_train_nodes, f"train {seed} {t}")

    def to_evaluate(self, names: Sequence[str], seed: int, t: int) -> list[str]:
        """Clients that evaluate the model after round t."""
        return _draw(names, self.fraction_evaluate, self.min_evaluate_nodes, f"evaluate {seed} {t}")


def _draw(names: Sequence[str], fraction: float, least: int, seed: str) -> list[str]:
    count = min(len(names), max(int(len(names) * fraction), least if fraction else 0))
    if count == len(names):
        return list(names)
    chosen = set(random.Random(seed).sample(sorted(names), count))
    return [name for name in names if name in chosen]


@dataclass
class Listed:
    """The clients that are listed in a round, and what is known of them."""

    names: list[str] = field(default_factory=list)
    asking: list[str] = field(default_factory=list)  # the strategy selects from these
    busy: set[str] = field(default_factory=set)  # still at work on an earlier order
    questioned: set[str] = field(default_factory=set)  # asked to train, or for their loss
    probed: set[str] = field(default_factory=set)  # they have told their loss, so they are there
    still_open: set[str] = field(default_factory=set)  # messages that were not answered before the round was closed

    def unknown(self, heard: Collection[str], doubted: bool) -> list[str]:
        """Clients that may be there or not: still at work or, if `doubted`, listed but not asked."""
        asked = self.questioned if doubted else self.asking
        certain = {*heard, *self.probed}
        return [name for name in self.names if name not in certain and (name not in asked or name in self.busy)]


class Gathering:
    """Finds out who is there. Nothing counts as a round before the first client has come."""

    def __init__(self, presence: Presence, shares: Shares, seed: int) -> None:
        self._presence = presence
        self._shares = shares
        self._seed = seed
        self._anybody = False  # whether any client was ever there

    def gather(
        self, grid: PollingGrid, driver: Driver, late: LateOrders, inspector: Inspector, timeout: float | None
    ) -> Listed:
        """Who is listed in the next round, and may be asked; `timeout` is the length of a round with nobody."""
        t, listed = driver.t + 1, self._wait_for_enough(grid, driver)
        if self._presence.target == "size":
            inspector.bound_sizes(driver)
        if not listed and timeout is not None:  # else a fleet away for a minute would miss the whole training
            grid.lull(timeout)
        busy = late.busy(driver.directory, grid.clock.now())
        free = [name for name in listed if name not in busy]
        awake = [name for name in free if not inspector.rests(name, t) and not driver.directory.rests(name, t)]
        asking = self._shares.to_train(awake or free, self._seed, t)
        asking += [name for name in listed if name in busy] if driver.demands.takes_late else []
        return Listed(listed, asking, busy)

    def _wait_for_enough(self, grid: PollingGrid, driver: Driver) -> list[str]:
        said = -_PATIENT_LOG
        while True:
            listed = self._presence.take(grid, driver, driver.t + 1)
            self._anybody |= bool(listed) or driver.t > 0
            least = max(self._shares.min_available_nodes, 0 if self._anybody else 1)
            if len(listed) >= least or not grid.takes_time:
                return listed
            if grid.clock.now() - said >= _PATIENT_LOG:
                shown.info("Waiting for clients: %d have joined, %d are needed", len(listed), least)
                said = grid.clock.now()
            grid.clock.sleep(grid.interval)
