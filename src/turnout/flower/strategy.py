"""Any strategy of ours as a Flower strategy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as Base

from turnout.flower.fleet.presence import Identity, Presence, Target
from turnout.flower.run.books import Books
from turnout.flower.run.participation import ParticipationLog
from turnout.flower.run.run_folder import RunFolder
from turnout.flower.server.accepted import check_strategy, estimated
from turnout.flower.server.alone import alone
from turnout.flower.server.compiled_round import Order, RoundRecord
from turnout.flower.server.driver import Driver
from turnout.flower.wire.collecting import Collection, listed_clients, losses_in, mean_by_target, ratings_in
from turnout.flower.wire.mailbox import Mailbox, train_letters
from turnout.flower.wire.messages import DURABLE, KEEP, PROBE, RUN_ID, UPLOAD, to_numpy, to_record
from turnout.flower.wire.polling import Clock, PollingGrid
from turnout.flower.wire.replies import Limits
from turnout.server.settings import ServerSettings
from turnout.simulator.history import History
from turnout.simulator.local import Local
from turnout.strategies.base import Strategy

shown = logging.getLogger("flwr")  # what is no warning is seen only in Flower's own log

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class FlowerStrategy(Base):
    """A strategy of ours, unchanged, on Flower's nodes.

    Args:
        strategy: the server's algorithm.
        target: how much each client should count: all alike, by the size of its data, by name, or a function of the
            name. A mapping names the whole fleet, and turns all others away.
        local: the clients' learning rate, sent to them as `lr`; if not given, the `lr` of the training config.
        server: learning rate, optimizer and projection of the server, and what it estimates.
        checkpoint: file from which a restarted server goes on.
        checkpoint_every: rounds between two writings of `checkpoint` and `record`; a crash loses those after the last.
        record: run folder, as `turnout run` leaves one, for `turnout report` and `turnout diagnose`.
        participation: CSV file of who was there, was asked and arrived, round by round; one is part of `record`, too.
        identity: what tells a client from others across restarts: the `client-id` it declares (on trust), its
            authenticated key (only for a SuperLink that authenticates its SuperNodes), or nothing but its present node.
        limits: what a reply must keep to.
        seed: of the selection, and of the seeds that clients get.
        greeting_timeout: seconds to wait for new nodes to say who they are, if nobody else is there.
        probe_timeout: seconds to wait for losses, if the strategy asks for them before it selects.
        poll: seconds between two looks for replies.
        patience: seconds for which a call to the SuperLink that fails is made again, before the round goes on without.
        evaluate_every: rounds between evaluations on the clients, the first and the last model included; never if 0.
        clock: tells the time, and sleeps.

    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        target: Target = "uniform",
        local: Local | None = None,
        server: ServerSettings | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1,
        record: str | Path | None = None,
        participation: str | Path | None = None,
        identity: Identity = "declared",
        limits: Limits | None = None,
        seed: int = 0,
        greeting_timeout: float = 30.0,
        probe_timeout: float = 60.0,
        poll: float = 1.0,
        patience: float = 600.0,
        evaluate_every: int = 1,
        clock: Clock | None = None,
    ) -> None:
        if evaluate_every < 0:
            raise ValueError(f"evaluate_every must be 0 or more rounds, not {evaluate_every}")
        check_strategy(strategy)
        self.strategy = strategy
        self.local = local
        self.settings = estimated(server, strategy)
        self.limits = Limits() if limits is None else limits
        self.seed = seed
        self.probe_timeout = probe_timeout
        self.poll = poll
        self.patience = patience
        self.evaluate_every = evaluate_every
        self.records: list[RoundRecord] = []
        self._attendance = Presence(identity, target, greeting_timeout, keeps=not strategy.admits_all)
        self._books = Books(
            None if checkpoint is None else Path(checkpoint),
            checkpoint_every,
            None if record is None else RunFolder(record, identity, self._attendance.shown_target),
            None if participation is None else ParticipationLog(participation),
        )
        self._mailbox = Mailbox()
        self._clock = Clock() if clock is None else clock
        self._driver: Driver | None = None
        self._grid: PollingGrid | None = None
        self._ttl: float | None = None
        self._last: int | None = None  # round
        self._begun = time.perf_counter()
        self._orders: dict[str, Order] = {}
        self._config = ConfigRecord()

    @property
    def history(self) -> History:
        """What happened so far, as a simulation tells it; of all rounds, those before a restart too."""
        return self._books.chronicle.history(self._started())

    def summary(self) -> None:
        name, attendance = type(self.strategy).__name__, self._attendance
        shown.info("\t├── %s; target: %s; identity: %s", name, attendance.shown_target, attendance.identity)

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
        self._ttl, self._last = timeout, num_rounds
        driver = self._ready(initial_arrays, train_config)
        done, polled = driver.t, self._polled(grid)
        before = self._rate_now(polled, evaluate_config, timeout) if num_rounds > done or done == 0 else None
        arrays = to_record(driver.model())
        central = None if evaluate_fn is None else self._watched(evaluate_fn, done)
        left = max(0, num_rounds - done)
        result = super().start(polled, arrays, left, timeout, train_config, evaluate_config, central)
        result.arrays = to_record(driver.model())
        self._books.close(driver, self.evaluate_every)
        result = _moved_on(result, done)
        if before is not None:
            result.evaluate_metrics_clientapp[done] = before
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Find out who is there, probe if need be, select, and write to the chosen."""
        self._begun = time.perf_counter()
        driver, polled = self._ready(arrays, config), self._polled(grid)
        self._config = config
        available = self._attendance.take(polled, driver, driver.t + 1)
        if not available and self._ttl is not None:  # or a fleet that is away for a minute has missed a whole training
            polled.lull(self._ttl)
        losses = self._probe(driver, available, config, polled) if self.strategy.probes else None
        self._orders = {order.client: order for order in driver.open_round(available, losses)}
        books = self._books
        for_all = {RUN_ID: books.chronicle.run_id, DURABLE: books.durable_round(driver.t)}
        for_all |= {} if self.strategy.admits_all else {KEEP: True}
        letters = train_letters(self._orders.values(), self.strategy.starts_shared, for_all)
        return self._mailbox.write(driver.directory, MessageType.TRAIN, letters, config, driver.t + 1, self._ttl)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Check every reply, close the round with what was in order, and write the checkpoint."""
        driver = self._started()
        contents, failed = self._mailbox.sort_out(replies)
        heard = {*contents, *failed}
        for name in self._orders:
            driver.directory.heard(name, name in heard)
        # Whoever has answered a probe was there: silence afterwards is an upload that failed.
        silent = [] if self.strategy.probes else [name for name in self._orders if name not in heard]
        found = Collection(driver, self._orders, self.limits)
        found.add(contents)
        if not self.strategy.admits_all and self._orders:
            self._let_upload(driver, found, driver.admit_round(found.norms(), silent))
        record = replace(driver.close_round(found.good, silent, found.reach), bytes_uploaded=found.bytes_uploaded)
        self._orders = {}
        self.records.append(record)
        self._books.add(driver, record, time.perf_counter() - self._begun, found.dropped)
        return to_record(driver.model()), MetricRecord(dict(record.summary()))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to every client that is listed."""
        driver = self._driver
        if driver is None or not self._is_rated(driver.t):
            return []
        names = listed_clients(driver, self._polled(grid).get_node_ids())
        letters = [(name, arrays, {}) for name in names]
        return self._mailbox.write(driver.directory, MessageType.EVALUATE, letters, config, driver.t, self._ttl)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Means over the clients that answered, weighted by the target."""
        driver = self._started()
        found = ratings_in(self._mailbox.sort_out(replies)[0])
        means = {metric: mean_by_target(values, driver) for metric, values in found.items()}
        self._books.chronicle.rate(driver.t, means, found, len(driver.directory))
        self._books.write(driver, self.evaluate_every)
        return MetricRecord(dict(means)) if means else None

    def _started(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("nothing has begun: start, or configure_train, comes first")
        return self._driver

    def _ready(self, arrays: ArrayRecord, config: ConfigRecord | None) -> Driver:
        """The driver, made with the first model and gone on from the checkpoint where there is one."""
        if self._driver is None:
            local = _local(config) if self.local is None else self.local
            driver = Driver(self.strategy, to_numpy(arrays), local=local, settings=self.settings, seed=self.seed)
            self._books.open(driver)
            self._attendance.enrol(driver)
            self._driver = driver
        return self._driver

    def _polled(self, grid: Grid) -> PollingGrid:
        """The grid with patience, one for the whole training."""
        if isinstance(grid, PollingGrid):
            self._grid = grid
        elif self._grid is None or self._grid.inner is not grid:
            self._grid = PollingGrid(grid, self.poll, self.patience, self._clock)
        return self._grid

    def _let_upload(self, driver: Driver, found: Collection, admitted: Iterable[str]) -> None:
        """Ask for the updates that are wanted and still with their clients; the others never send theirs."""
        if self._grid is None:
            return
        letters = [(name, None, {}) for name in admitted if name in found.lengths]
        sent = self._mailbox.write(driver.directory, UPLOAD, letters, self._config, driver.t + 1, self._ttl)
        replies = self._grid.send_and_receive(sent, timeout=self._ttl) if sent else []
        found.add_uploads(self._mailbox.sort_out(replies)[0])

    def _probe(self, driver: Driver, available: list[str], config: ConfigRecord, grid: Grid) -> dict[str, float]:
        """The losses of those who answer; the others are not there."""
        model, t = to_record(driver.arrays()), driver.t + 1
        letters = [(name, model, {"seed": seed}) for name, seed in driver.probe_seeds(available).items()]
        sent = self._mailbox.write(driver.directory, PROBE, letters, config, t, self.probe_timeout)
        replies = grid.send_and_receive(sent, timeout=self.probe_timeout) if sent else []
        return losses_in(self._mailbox.sort_out(replies)[0], t, self.limits)

    def _is_rated(self, t: int) -> bool:
        """Whether clients evaluate the model after t rounds."""
        return self.evaluate_every > 0 and (t % self.evaluate_every == 0 or t == self._last)

    def _rate_now(self, grid: PollingGrid, config: ConfigRecord | None, timeout: float) -> MetricRecord | None:
        """Evaluate the model with which training begins, or goes on where a crash has kept it from being evaluated."""
        driver = self._started()
        if not self._is_rated(driver.t) or self._books.chronicle.is_rated(driver.t):
            return None
        self._attendance.take(grid, driver, driver.t + 1)
        model = to_record(driver.model())
        sent = self.configure_evaluate(driver.t, model, ConfigRecord() if config is None else config, grid)
        return self.aggregate_evaluate(driver.t, grid.send_and_receive(sent, timeout=timeout) if sent else [])

    def _watched(self, evaluate_fn: EvaluateFn, done: int) -> EvaluateFn:
        """The server's own evaluation, under the numbers of the rounds of the whole training, and written down."""

        def evaluate(t: int, model: ArrayRecord) -> MetricRecord | None:
            found = evaluate_fn(t + done, model)
            if found is not None:
                self._books.chronicle.rate_centrally(t + done, found)
            return found

        return evaluate


def _local(config: ConfigRecord | None) -> Local:
    """The clients' learning rate where only their config tells it."""
    rate = 1.0 if config is None else config.get("lr", 1.0)
    if not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"'lr' in the training config is {rate!r}; it must be a number above 0")
    return Local(learning_rate=float(rate))


def _moved_on(result: Result, done: int) -> Result:
    """Results under the numbers of the rounds of the whole training."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        setattr(result, name, {t + done: found for t, found in getattr(result, name).items()})
    return result
