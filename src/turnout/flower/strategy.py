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
from turnout.flower.server.accepted import real_settings
from turnout.flower.server.alone import held
from turnout.flower.server.compiled_round import Order, RoundRecord
from turnout.flower.server.driver import Driver
from turnout.flower.server.guard import DEFAULT, Guard, Suspicion, Watch, remembers_updates
from turnout.flower.server.rollback import Badness, Rollback, badness_of, typical
from turnout.flower.wire.collecting import Collection, listed_clients, losses_in, mean_by_target, ratings_in
from turnout.flower.wire.mailbox import Mailbox, train_letters
from turnout.flower.wire.messages import DURABLE, KEEP, PROBE, RUN_ID, UPLOAD, metrics_in, to_numpy, to_record
from turnout.flower.wire.polling import Clock, PollingGrid
from turnout.flower.wire.replies import Limits
from turnout.server.settings import ServerSettings
from turnout.simulator.history import History
from turnout.simulator.local import Local
from turnout.strategies.base import Strategy

shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class FlowerStrategy(Base):
    """A strategy of ours, unchanged, on Flower's nodes.

    Args:
        strategy: the server's algorithm.
        target: weight of each client in the objective: the same for all, by the size of its data, by name, or a
            function of the name. A mapping names the whole fleet, and turns all others away.
        local: learning rate of the clients, sent to them as `lr`; if not given, the `lr` of the training config.
        server: learning rate, optimizer and projection of the server, and what it estimates.
        checkpoint: file from which a restarted server continues.
        checkpoint_every: rounds between two writes of `checkpoint` and `record`; a crash loses rounds since the last.
        record: run folder, like that of `turnout run`, for `turnout report` and `turnout diagnose`.
        participation: CSV file of who was available, was asked and arrived in each round; `record` has one too.
        identity: how a client is recognised after a restart: by the `client-id` it declares (on trust), by its
            authenticated key (only for a SuperLink that authenticates its SuperNodes), or only by its present node.
        limits: bounds that every reply must satisfy.
        guard: protection against clients that lie within these limits; None for none.
        seed: seed of the selection, and of the clients' own seeds.
        greeting_timeout: seconds to wait for new nodes to say who they are, if no other client is there.
        probe_timeout: seconds to wait for losses, if the strategy asks for them before it selects.
        poll: seconds between two checks for replies.
        patience: seconds for which a failed call to the SuperLink is repeated before the round continues without it.
        evaluate_every: rounds between evaluations on the clients, the first and the last model included; never if 0.
        clock: gives the time, and sleeps.

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
        guard: Guard | None = DEFAULT,
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
        self.strategy = strategy
        self.local = local
        self.settings = real_settings(server, strategy)
        self.limits = Limits() if limits is None else limits
        self.seed = seed
        self.probe_timeout = probe_timeout
        self.poll = poll
        self.patience = patience
        self.evaluate_every = evaluate_every
        self.records: list[RoundRecord] = []
        self._watch = Watch(guard, strategy)
        wanted = self._watch.guard.rollback
        self._rollback = Rollback(not remembers_updates(strategy) if wanted is None else wanted)
        self._attendance = Presence(identity, target, greeting_timeout, keeps=not strategy.admits_all)
        self._books = Books(
            None if checkpoint is None else Path(checkpoint),
            checkpoint_every,
            None if record is None else RunFolder(record, identity, self._attendance.shown_target),
            None if participation is None else ParticipationLog(participation),
            self._watch,
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
        self._warned: set[str] = set()  # metrics of clients that are ignored
        self._handed: ArrayRecord | None = None  # the model as it was last returned or adopted

    @property
    def suspects(self) -> dict[str, Suspicion]:
        """Clients that were beyond a bound of the limits or the guard, and how often."""
        return self._watch.suspects

    @property
    def history(self) -> History:
        """The history so far, in the form of a simulation's, with the rounds before a restart."""
        return self._books.chronicle.history(self._started())

    def summary(self) -> None:
        name, attendance = type(self.strategy).__name__, self._attendance
        shown.info("\t├── %s; target: %s; identity: %s", name, attendance.shown_target, attendance.identity)

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
        """Train for `num_rounds` rounds in all; rounds before a checkpoint count, and are not repeated."""
        with held(self._books.checkpoint):
            self._ttl, self._last = timeout, num_rounds
            driver = self._ready(initial_arrays, train_config)
            done, polled = driver.t, self._polled(grid)
            if done >= num_rounds > 0:
                shown.warning(
                    "Nothing is trained: the checkpoint %s has %d rounds already, and num_rounds is %d. Give more "
                    "rounds to go on, or move the checkpoint away to begin anew.",
                    self._books.checkpoint,
                    done,
                    num_rounds,
                )
            before = self._rate_now(polled, evaluate_config, timeout) if num_rounds > done or done == 0 else None
            central = None if evaluate_fn is None else self._recorded(evaluate_fn, done)
            left, configs = max(0, num_rounds - done), (train_config, evaluate_config)
            self._handed = to_record(driver.model())
            result = super().start(polled, self._handed, left, timeout, *configs, central)
            result.arrays = to_record(driver.model())
            self._books.close(driver, self.evaluate_every)
        result = _renumbered(result, done)
        if before is not None:
            result.evaluate_metrics_clientapp[done] = before
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Find out who is available, probe if the strategy asks for it, select, and write to the selected clients."""
        self._begun = time.perf_counter()
        driver, polled = self._ready(arrays, config), self._polled(grid)
        if driver.is_open:  # a wrapper may leave out a round, for instance if a reply is missing
            shown.warning("round %d was not aggregated: it counts as a round without updates", driver.t + 1)
            self.aggregate_train(server_round - 1, [])
        else:
            self._adopt(driver, arrays)
        self._rollback.settle(driver)
        self._config = config
        available = self._watch.awake(self._attendance.take(polled, driver, driver.t + 1), driver.t + 1)
        if self._attendance.target == "size":
            self._watch.bound_sizes(driver)
        if not available and self._ttl is not None:  # else a fleet away for a minute would miss the whole training
            polled.lull(self._ttl)
        losses = self._probe(driver, available, config, polled) if self.strategy.probes else None
        self._orders = {order.client: order for order in driver.open_round(available, losses)}
        books = self._books
        for_all = {RUN_ID: books.chronicle.run_id, DURABLE: books.durable_round(driver.t)}
        for_all |= {} if self.strategy.admits_all else {KEEP: True}
        letters = train_letters(self._orders.values(), self.strategy.starts_shared, for_all)
        return self._mailbox.write(driver.directory, MessageType.TRAIN, letters, config, driver.t + 1, self._ttl)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Check every reply, close the round with the valid ones, and write the checkpoint."""
        driver = self._started()
        contents, failed = self._mailbox.sort_out(replies)
        heard = {*contents, *failed}
        for name in self._orders:
            driver.directory.heard(name, name in heard)
        # A client that answered a probe was available: if it is silent afterwards, its upload failed.
        silent = [] if self.strategy.probes else [name for name in self._orders if name not in heard]
        collection = Collection(driver, self._orders, self.limits, warned=self._warned)
        collection.add(contents)
        norms = self._watch.look(collection.norms(), {name: order.rate for name, order in self._orders.items()})
        if not self.strategy.admits_all and self._orders:
            self._collect_uploads(driver, collection, driver.admit_round(norms, silent))
        good = self._watch.correct(driver.t + 1, collection.good)
        self._watch.note(driver.t + 1, good, collection.refused)
        closed = driver.close_round(good, silent, collection.reach)
        record = replace(closed, bytes_uploaded=collection.bytes_uploaded)
        self._orders = {}
        self.records.append(record)
        self._books.add(driver, record, time.perf_counter() - self._begun, collection.dropped)
        self._handed = to_record(driver.model())
        reported = ratings_in({name: contents[name] for name in record.arrived if name in contents})
        means = {metric: mean_by_target(values, driver) for metric, values in reported.items()}
        return self._handed, MetricRecord({**means, **record.summary()})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to every client that is listed."""
        driver = self._driver
        if driver is not None and not driver.is_open:
            self._adopt(driver, arrays)
        if driver is None or not self._is_rated(driver.t):
            return []
        names = listed_clients(driver, self._polled(grid).get_node_ids())
        letters = [(name, arrays, {}) for name in names]
        return self._mailbox.write(driver.directory, MessageType.EVALUATE, letters, config, driver.t, self._ttl)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Means over the clients that answered, weighted by the target."""
        driver = self._started()
        contents = self._mailbox.sort_out(replies)[0]
        by_metric = ratings_in(contents)
        means = {metric: mean_by_target(values, driver) for metric, values in by_metric.items()}
        self._books.chronicle.rate(driver.t, means, by_metric, len(driver.directory))
        self._judge("clients", typical({name: badness_of(metrics_in(held)) for name, held in contents.items()}, driver))
        self._books.write(driver, self.evaluate_every)
        return MetricRecord(dict(means)) if means else None

    def _started(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("training has not begun: call start or configure_train first")
        return self._driver

    def _ready(self, arrays: ArrayRecord, config: ConfigRecord | None) -> Driver:
        """The driver, made with the first model, or continued from the checkpoint if there is one."""
        if self._driver is None:
            local = _local(config) if self.local is None else self.local
            driver = Driver(self.strategy, to_numpy(arrays), local=local, settings=self.settings, seed=self.seed)
            self._books.open(driver)
            self._attendance.enrol(driver)
            self._driver = driver
        return self._driver

    def _adopt(self, driver: Driver, arrays: ArrayRecord) -> None:
        """Take over the model that the caller hands in, if a wrapper or a subclass has changed it."""
        if arrays is self._handed or self._rollback.has_left(driver.t):  # the model that was left is not adopted again
            return
        first, self._handed = self._handed is None, arrays
        if first and driver.t:  # a wrapper's start begins with the first model, and knows nothing of the checkpoint
            if not driver.has(to_numpy(arrays)):
                raise ValueError(
                    f"the checkpoint is of round {driver.t}, but the caller begins with another model: "
                    "a wrapper cannot continue a checkpoint; move it away, or start the strategy without the wrapper"
                )
        elif driver.adopt(to_numpy(arrays)):
            shown.info("The model was changed since round %d by what is around the strategy; it is adopted", driver.t)
            self._books.renew(driver)

    def _judge(self, evaluator: str, badness: Badness) -> None:
        """Go back to the last good model if an evaluation of the present one has collapsed."""
        if self._rollback.judge(self._started(), evaluator, badness):
            self._books.renew(self._started())

    def _polled(self, grid: Grid) -> PollingGrid:
        """The grid with patience, one for the whole training."""
        if isinstance(grid, PollingGrid):
            self._grid = grid
        elif self._grid is None or self._grid.inner is not grid:
            self._grid = PollingGrid(grid, self.poll, self.patience, self._clock)
        return self._grid

    def _collect_uploads(self, driver: Driver, collection: Collection, admitted: Iterable[str]) -> None:
        """Ask admitted clients for the updates that they have kept; the others never send theirs."""
        if self._grid is None:
            return
        letters = [(name, None, {}) for name in admitted if name in collection.lengths]
        sent = self._mailbox.write(driver.directory, UPLOAD, letters, self._config, driver.t + 1, self._ttl)
        replies = self._grid.send_and_receive(sent, timeout=self._ttl) if sent else []
        collection.add_uploads(self._mailbox.sort_out(replies)[0])

    def _probe(self, driver: Driver, available: list[str], config: ConfigRecord, grid: Grid) -> dict[str, float]:
        """The losses of the clients that answer; the others count as not available."""
        model, t = to_record(driver.arrays()), driver.t + 1
        letters = [(name, model, {"seed": seed}) for name, seed in driver.probe_seeds(available).items()]
        sent = self._mailbox.write(driver.directory, PROBE, letters, config, t, self.probe_timeout)
        replies = grid.send_and_receive(sent, timeout=self.probe_timeout) if sent else []
        return losses_in(self._mailbox.sort_out(replies)[0], t, self.limits)

    def _is_rated(self, t: int) -> bool:
        """Whether clients evaluate the model after t rounds."""
        return self.evaluate_every > 0 and (t % self.evaluate_every == 0 or t == self._last)

    def _rate_now(self, grid: PollingGrid, config: ConfigRecord | None, timeout: float) -> MetricRecord | None:
        """Evaluate the model from which training starts or continues, unless that was done before a crash."""
        driver = self._started()
        if not self._is_rated(driver.t) or self._books.chronicle.is_rated(driver.t):
            return None
        self._attendance.take(grid, driver, driver.t + 1)
        model = to_record(driver.model())
        sent = self.configure_evaluate(driver.t, model, ConfigRecord() if config is None else config, grid)
        return self.aggregate_evaluate(driver.t, grid.send_and_receive(sent, timeout=timeout) if sent else [])

    def _recorded(self, evaluate_fn: EvaluateFn, done: int) -> EvaluateFn:
        """The server's own evaluation, with rounds counted from the start of the training, and recorded."""

        def evaluate(t: int, model: ArrayRecord) -> MetricRecord | None:
            metrics = evaluate_fn(t + done, model)
            if metrics is not None:
                self._books.chronicle.rate_centrally(t + done, metrics)
                self._judge("server", badness_of(metrics))
            return metrics

        return evaluate


def _local(config: ConfigRecord | None) -> Local:
    """The clients' learning rate where only the training config has it."""
    rate = 1.0 if config is None else config.get("lr", 1.0)
    if not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"'lr' in the training config is {rate!r}; it must be a number above 0")
    return Local(learning_rate=float(rate))


def _renumbered(result: Result, done: int) -> Result:
    """Results with rounds counted from the start of the training."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        setattr(result, name, {t + done: metrics for t, metrics in getattr(result, name).items()})
    return result
