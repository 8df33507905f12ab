"""Any strategy of ours as a Flower strategy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as Base

from turnout.flower import checkpoint as checkpoints
from turnout.flower.alone import alone
from turnout.flower.attendance import Attendance, Identity, Target
from turnout.flower.driver import Driver, ServerOptions
from turnout.flower.messages import (
    ARRAYS,
    CONFIG,
    PROBE,
    ROUND,
    arrays_in,
    error_in,
    is_unreachable,
    metrics_in,
    to_numpy,
    to_record,
)
from turnout.flower.participation import ParticipationLog
from turnout.flower.polling import PollingGrid
from turnout.flower.replies import Dropped, Limits, Reply, check_loss, check_reply
from turnout.flower.rounds import Order, RoundRecord
from turnout.local import Local
from turnout.strategies.base import Strategy

log = logging.getLogger("turnout.flower")
shown = logging.getLogger("flwr")  # what is no warning is seen only in Flower's own log

_LARGEST = 1e30  # of a metric that is averaged

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class FlowerStrategy(Base):
    """A strategy of ours, unchanged, on Flower's nodes.

    Args:
        strategy: the server's algorithm.
        target: how much each client should count: all alike, by the size of its data, by name, or a function of the
            name. A mapping names the whole fleet, and turns all others away.
        local: the clients' learning rate, sent to them as `lr`; if not given, the `lr` of the training config.
        server: learning rate, optimizer and projection of the server, and what it estimates.
        checkpoint: file that is written after every round, and from which a restarted server goes on.
        participation: CSV file of who was there, was asked and arrived, round by round, for `turnout diagnose`.
        identity: what tells a client from others across restarts: the `client-id` it declares (on trust), its
            authenticated key (only for a SuperLink that authenticates its SuperNodes), or nothing but its present node.
        limits: what a reply must keep to.
        seed: of the selection, and of the seeds that clients get.
        greeting_timeout: seconds to wait for new nodes to say who they are.
        probe_timeout: seconds to wait for losses, if the strategy asks for them before it selects.
        poll: seconds between two looks for replies.
        evaluate_every: rounds between evaluations on the clients; never if 0.

    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        target: Target = "uniform",
        local: Local | None = None,
        server: ServerOptions | None = None,
        checkpoint: str | Path | None = None,
        participation: str | Path | None = None,
        identity: Identity = "declared",
        limits: Limits | None = None,
        seed: int = 0,
        greeting_timeout: float = 30.0,
        probe_timeout: float = 60.0,
        poll: float = 1.0,
        evaluate_every: int = 1,
    ) -> None:
        if evaluate_every < 0:
            raise ValueError(f"evaluate_every must be 0 or more rounds, not {evaluate_every}")
        self.strategy = strategy
        self.local = local
        self.options = ServerOptions() if server is None else server
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.participation = None if participation is None else ParticipationLog(participation)
        self.limits = Limits() if limits is None else limits
        self.seed = seed
        self.probe_timeout = probe_timeout
        self.poll = poll
        self.evaluate_every = evaluate_every
        self.records: list[RoundRecord] = []
        self._attendance = Attendance(identity, target, greeting_timeout)
        self._driver: Driver | None = None
        self._ttl: float | None = None
        self._orders: dict[str, Order] = {}
        self._sent: dict[str, Message] = {}
        self._shared: ArrayRecord | None = None

    def summary(self) -> None:
        name, target = type(self.strategy).__name__, self._attendance.target
        aim = f"{len(target)} clients by name" if isinstance(target, Mapping) else str(target)
        shown.info("\t├── %s; target: %s; identity: %s", name, aim, self._attendance.identity)

    @alone
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Train for `num_rounds` rounds in all; those that a checkpoint has behind it are not played again."""
        self._ttl = timeout
        driver = self._ready(initial_arrays, train_config)
        done = driver.t
        arrays = to_record(driver.model())
        shifted = None if evaluate_fn is None else lambda t, model: evaluate_fn(t + done, model)
        left = max(0, num_rounds - done)
        polled = PollingGrid(grid, self.poll)
        result = super().start(polled, arrays, left, timeout, train_config, evaluate_config, shifted)
        result.arrays = to_record(driver.model())
        return _moved_on(result, done)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Find out who is there, probe if need be, select, and write to the chosen."""
        driver = self._ready(arrays, config)
        available = self._attendance.take(grid, driver, driver.t + 1)
        losses = self._probe(driver, available, config, grid) if self.strategy.probes else None
        self._orders = {order.client: order for order in driver.open_round(available, losses)}
        letters = []
        for order in self._orders.values():
            told = {"lr": order.rate, "step-scale": order.scale, "seed": order.seed}
            letters.append((order.client, self._packed(order), told))
        return self._write(MessageType.TRAIN, letters, config, driver.t + 1, self._ttl)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Check every reply, close the round with what was in order, and write the checkpoint."""
        driver = self._driver
        if driver is None:
            raise RuntimeError("no round is open: configure_train comes first")
        contents, failed = self._sort_out(replies)
        good = {}
        for name, content in contents.items():
            found = self._check(driver, self._orders[name], content)
            if isinstance(found, Reply):
                good[name] = found
            else:
                log.warning("round %d: the reply of %s is dropped: %s", driver.t + 1, name, found.reason)
        # Whoever has answered a probe was there: silence afterwards is an upload that failed.
        heard = {*contents, *failed}
        for name in self._orders:
            driver.directory.heard(name, name in heard)
        silent = [] if self.strategy.probes else [name for name in self._orders if name not in heard]
        record = driver.close_round(good, silent)
        self._orders, self._sent, self._shared = {}, {}, None
        self.records.append(record)
        if self.participation is not None:
            self.participation.add(record)
        if self.checkpoint is not None:
            checkpoints.save(self.checkpoint, driver)
        return to_record(driver.model()), _told(record, good)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to every client that is listed."""
        driver = self._driver
        if driver is None or not self.evaluate_every or driver.t % self.evaluate_every:
            return []
        names = {node: driver.directory.client_at(node) for node in grid.get_node_ids()}
        letters = [(name, arrays, {}) for name in names.values() if name is not None and name in driver.directory]
        return self._write(MessageType.EVALUATE, letters, config, driver.t, self._ttl)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Means over the clients that answered, weighted by the target."""
        driver, found = self._driver, self._sort_out(replies)[0]
        self._sent = {}
        if driver is None or not found:
            return None
        sums: dict[str, tuple[float, float]] = {}
        for name, content in found.items():
            worth = driver.importance[driver.directory.place(name)]
            for metric, value in metrics_in(content).items():
                if metric != "round" and isinstance(value, int | float) and abs(value) <= _LARGEST:
                    total, mass = sums.get(metric, (0.0, 0.0))
                    sums[metric] = (total + worth * value, mass + worth)
        return MetricRecord({metric: total / mass for metric, (total, mass) in sums.items()})

    def _ready(self, arrays: ArrayRecord, config: ConfigRecord | None) -> Driver:
        """The driver, made with the first model and gone on from the checkpoint where there is one."""
        if self._driver is None:
            local = _local(config) if self.local is None else self.local
            driver = Driver(self.strategy, to_numpy(arrays), local=local, options=self.options, seed=self.seed)
            if self.checkpoint is not None and checkpoints.resume(self.checkpoint, driver):
                shown.info("Going on after round %d with %d clients", driver.t, len(driver.directory))
            self._attendance.enrol(driver)
            if self.participation is not None:
                self.participation.cut(driver.t)
            self._driver = driver
        return self._driver

    def _packed(self, order: Order) -> ArrayRecord:
        """The model to start from; packed once where all start from the same."""
        if not self.strategy.starts_shared:
            return to_record(order.start)
        if self._shared is None:
            self._shared = to_record(order.start)
        return self._shared

    def _write(
        self,
        kind: str,
        letters: Iterable[tuple[str, ArrayRecord, Mapping[str, float | int]]],
        config: ConfigRecord,
        t: int,
        ttl: float | None,
    ) -> list[Message]:
        """One message a client; a list, since a grid may go through it more than once."""
        self._sent = {}
        for name, arrays, told in letters:
            node = None if self._driver is None else self._driver.directory.node_of(name)
            if node is not None:
                settings = ConfigRecord({**config, **told, ROUND: t})
                content = RecordDict({ARRAYS: arrays, CONFIG: settings})
                self._sent[name] = Message(content, node, kind, ttl=ttl, group_id=str(t))
        return list(self._sent.values())

    def _sort_out(self, replies: Iterable[Message]) -> tuple[dict[str, RecordDict], set[str]]:
        """Contents by client, and the clients that were there but failed; the first reply of each counts.

        A reply belongs to the message that it answers: the link reports errors in the name of a node of its own.
        """
        asked = {message.metadata.message_id: name for name, message in self._sent.items()}
        contents: dict[str, RecordDict] = {}
        failed: set[str] = set()
        for reply in replies:
            name = asked.pop(reply.metadata.reply_to_message_id, None)
            if name is None:
                log.warning("a reply of node %s answers nothing that was asked", reply.metadata.src_node_id)
            elif reply.has_content():
                contents[name] = reply.content
            else:
                log.warning("%s failed with %s", name, error_in(reply))
                failed |= set() if is_unreachable(reply) else {name}
        return contents, failed

    def _check(self, driver: Driver, order: Order, content: RecordDict) -> Reply | Dropped:
        arrays = arrays_in(content, driver.layout)
        if isinstance(arrays, Dropped):
            return arrays
        rules = {"start": order.start, "layout": driver.layout, "t": driver.t + 1, "limits": self.limits}
        return check_reply(arrays, metrics_in(content), **rules)

    def _probe(self, driver: Driver, available: list[str], config: ConfigRecord, grid: Grid) -> dict[str, float]:
        """The losses of those who answer; the others are not there."""
        model, t = to_record(driver.arrays()), driver.t + 1
        letters = [(name, model, {"seed": seed}) for name, seed in driver.probe_seeds(available).items()]
        sent = self._write(PROBE, letters, config, t, self.probe_timeout)
        replies = grid.send_and_receive(sent, timeout=self.probe_timeout) if sent else []
        losses = {}
        for name, content in self._sort_out(replies)[0].items():
            loss = check_loss(metrics_in(content), t=t, limits=self.limits)
            if isinstance(loss, Dropped):
                log.warning("round %d: the loss of %s is dropped: %s", t, name, loss.reason)
            else:
                losses[name] = loss
        return losses


def _local(config: ConfigRecord | None) -> Local:
    """The clients' learning rate where only their config tells it."""
    rate = 1.0 if config is None else config.get("lr", 1.0)
    if not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"'lr' in the training config is {rate!r}; it must be a number above 0")
    return Local(learning_rate=float(rate))


def _told(record: RoundRecord, replies: Mapping[str, Reply]) -> MetricRecord:
    counts = {name: len(getattr(record, name)) for name in ("available", "asked", "uploads", "arrived")}
    means = {"weight-sum": sum(record.weights.values())}
    if record.arrived:
        means["loss"] = sum(replies[name].loss for name in record.arrived) / len(record.arrived)
    return MetricRecord({**counts, **means})


def _moved_on(result: Result, done: int) -> Result:
    """Results under the numbers of the rounds of the whole training."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        setattr(result, name, {t + done: found for t, found in getattr(result, name).items()})
    return result
