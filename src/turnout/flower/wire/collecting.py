"""From the contents of replies to updates that count, and to metrics; what fails is dropped and logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import RecordDict

from turnout.flower.server.compiled_round import Order
from turnout.flower.server.driver import Driver
from turnout.flower.wire.compact import check_parts, most_bytes
from turnout.flower.wire.messages import COMPACT, arrays_in, bytes_in, metrics_in, unpacked_in
from turnout.flower.wire.replies import Dropped, Limits, Reply, check_loss, check_reply, check_told

log = logging.getLogger("turnout.flower")

_LARGEST = 1e30  # of a metric that is averaged
_ALIKE = 1e-3  # relative difference between the length that was told and that of the update


@dataclass
class Collection:
    """What has come in one round, checked."""

    driver: Driver
    orders: Mapping[str, Order]
    limits: Limits
    good: dict[str, Reply] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)  # of updates that clients have kept
    reach: dict[str, float] = field(default_factory=dict)  # of those who told such a length
    dropped: int = 0
    bytes_uploaded: int = 0  # by all whose reply came, also if it was dropped
    _metrics: dict[str, dict] = field(default_factory=dict)

    def add(self, contents: Mapping[str, RecordDict]) -> None:
        """Replies to training: updates, or the lengths of updates that are kept."""
        for name, content in contents.items():
            self.bytes_uploaded += bytes_in(content)
            if content.array_records or self.driver.strategy.admits_all:
                self._keep(name, self._checked(name, content, metrics_in(content)))
            else:
                self._take_length(name, metrics_in(content))

    def add_uploads(self, contents: Mapping[str, RecordDict]) -> None:
        """Updates of which the length was told before."""
        for name, content in contents.items():
            self.bytes_uploaded += bytes_in(content)
            found, told = self._checked(name, content, self._metrics[name]), self.lengths[name]
            if isinstance(found, Reply) and abs(found.norm - told) > _ALIKE * max(found.norm, told):
                found = Dropped(f"its update has length {found.norm:.4g}, but it had told {told:.4g}")
            self._keep(name, found)

    def norms(self) -> dict[str, float]:
        """Lengths of all updates, those that came and those that are kept."""
        return self.lengths | {name: reply.norm for name, reply in self.good.items()}

    def _checked(self, name: str, content: RecordDict, metrics: dict) -> Reply | Dropped:
        layout, is_compact = self.driver.layout, COMPACT in content.array_records
        arrays = unpacked_in(content, most_bytes(layout)) if is_compact else arrays_in(content, layout)
        if isinstance(arrays, Dropped):
            return arrays
        rules = {"layout": layout, "t": self.driver.t + 1, "limits": self.limits, "room": self.driver.room_for(name)}
        if is_compact:
            return check_parts(arrays, metrics, **rules)
        return check_reply(arrays, metrics, start=self.orders[name].start, **rules)

    def _take_length(self, name: str, metrics: dict) -> None:
        found = check_told(metrics, t=self.driver.t + 1, limits=self.limits)
        if isinstance(found, Dropped):
            self._keep(name, found)
        else:
            self.lengths[name], self._metrics[name] = found, metrics
            self.reach[name] = float(metrics.get("reach", 1.0))

    def _keep(self, name: str, found: Reply | Dropped) -> None:
        if isinstance(found, Reply):
            self.good[name] = found
            return
        self.dropped += 1
        log.warning("round %d: the reply of %s is dropped: %s", self.driver.t + 1, name, found.reason)


def losses_in(contents: Mapping[str, RecordDict], t: int, limits: Limits) -> dict[str, float]:
    """The losses of those who answered a probe in order."""
    losses = {}
    for name, content in contents.items():
        loss = check_loss(metrics_in(content), t=t, limits=limits)
        if isinstance(loss, Dropped):
            log.warning("round %d: the loss of %s is dropped: %s", t, name, loss.reason)
        else:
            losses[name] = loss
    return losses


def ratings_in(contents: Mapping[str, RecordDict]) -> dict[str, dict[str, float]]:
    """What each client told of the model, by metric; what is no number, or out of all bounds, is left out."""
    found: dict[str, dict[str, float]] = {}
    for name, content in contents.items():
        for metric, value in metrics_in(content).items():
            if metric != "round" and isinstance(value, int | float) and abs(value) <= _LARGEST:
                found.setdefault(metric, {})[name] = float(value)
    return found


def mean_by_target(values: Mapping[str, float], driver: Driver) -> float:
    """Mean over the clients that have a value."""
    worths = {name: driver.importance[driver.directory.place(name)] for name in values}
    return sum(worths[name] * value for name, value in values.items()) / sum(worths.values())


def listed_clients(driver: Driver, nodes: Iterable[int]) -> list[str]:
    """The clients of the fleet that are at these nodes."""
    names = dict.fromkeys(driver.directory.client_at(node) for node in nodes)
    return [name for name in names if name is not None and name in driver.directory]
