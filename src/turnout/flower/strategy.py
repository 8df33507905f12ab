"""Any strategy of ours as a Flower strategy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as Base

from turnout.flower.fleet.presence import Identity, Presence, Target
from turnout.flower.fleet.sessions import Sessions
from turnout.flower.fleet.shares import Shares
from turnout.flower.fleet.turnout import Gathering, Turnout
from turnout.flower.run.books import Books, held
from turnout.flower.run.estimates import Estimate, estimates_of
from turnout.flower.run.tempo import Tempo
from turnout.flower.server.accepted import real_settings
from turnout.flower.server.compiled_round import Order, RoundRecord
from turnout.flower.server.driver import Driver
from turnout.flower.server.guard import DEFAULT, Guard, Suspicion, Watch
from turnout.flower.server.rollback import Badness, Rollback, badness_of, typical
from turnout.flower.wire.collecting import Collection, listed_clients, losses_in, means_by_target, ratings_in
from turnout.flower.wire.late import LateOrders
from turnout.flower.wire.mailbox import Mailbox, train_letters
from turnout.flower.wire.messages import (
    ARRAYS,
    CONFIG,
    DURABLE,
    FADING,
    KEEP,
    METRICS,
    PER_WORK,
    PROBE,
    RUN_ID,
    UPLOAD,
    metrics_in,
    to_numpy,
    to_record,
    users_own,
)
from turnout.flower.wire.polling import Clock, Closing, PollingGrid
from turnout.flower.wire.replies import Limits
from turnout.server.settings import ServerSettings
from turnout.simulator.history import History
from turnout.simulator.local import Local
from turnout.simulator.programs import use_compilation_cache
from turnout.strategies.base import Strategy

shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
Aggregate = Callable[[list[RecordDict], str], MetricRecord]


class FlowerStrategy(Base):
    """A strategy of ours, unchanged, on Flower's nodes.

    Args:
        strategy: the server's algorithm.
        target: weight of each client in the objective: the same for all, by the size of its data, by the examples that
            its replies report, by name, or a function of the name. A mapping names the whole fleet, and turns all
            others away.
        local: learning rate of the clients, sent to them as `lr`; if not given, the `lr` of the training config, which
            may change from round to round.
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
        quorum: share of the asked clients whose answers close a round; the others are late.
        stretch: close a round at this many times the seconds after which half of the asked clients had answered; if
            not given, a round waits for all, at most until the timeout.
        retire_after: seconds after which a client that is not listed any more leaves the fleet for good. If not given,
            a client with a name never does, and a node without one after a day, or at once if the strategy remembers a
            model per client.
        listed: what a client counts as that is listed, but was not asked: a listed node may not be running.
        fraction_train: share of the listed clients from which the strategy selects in a round.
        fraction_evaluate: share of the listed clients that evaluate the model.
        min_train_nodes: least number of clients to select from, however small the share.
        min_evaluate_nodes: least number of clients to evaluate, however small the share.
        min_available_nodes: wait in each round until so many clients are listed; the first round waits for one.
        weighted_by_key: metric that counts a client's samples, with `target="examples"`.
        arrayrecord_key: name of the record of arrays in messages to clients.
        configrecord_key: name of the record of settings in messages to clients.
        train_metrics_aggr_fn: combines the metrics of the replies to training, as in Flower's own strategies; if not
            given, means weighted by the target.
        evaluate_metrics_aggr_fn: the same for evaluation.
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
        quorum: float = 1.0,
        stretch: float | None = None,
        retire_after: float | None = None,
        listed: Literal["unknown", "available"] = "unknown",
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 0,
        min_evaluate_nodes: int = 0,
        min_available_nodes: int = 0,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = ARRAYS,
        configrecord_key: str = CONFIG,
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
        greeting_timeout: float = 30.0,
        probe_timeout: float = 60.0,
        poll: float = 1.0,
        patience: float = 600.0,
        evaluate_every: int = 1,
        clock: Clock | None = None,
    ) -> None:
        if evaluate_every < 0:
            raise ValueError(f"evaluate_every must be 0 or more rounds, not {evaluate_every}")
        if listed not in ("unknown", "available"):
            raise ValueError(f"listed must be 'unknown' or 'available', not {listed!r}")
        self.strategy = strategy
        self.local = local
        self.settings = real_settings(server, strategy)
        self.limits = Limits() if limits is None else limits
        self.seed = seed
        self.listed = listed
        self.weighted_by_key = weighted_by_key
        self.probe_timeout = probe_timeout
        self.poll = poll
        self.patience = patience
        self.evaluate_every = evaluate_every
        self._closing = Closing(quorum, stretch)
        self._shares = Shares(
            fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes
        )
        self._aggregate = {"train": train_metrics_aggr_fn, "evaluate": evaluate_metrics_aggr_fn}
        self._attendance = Presence(identity, target, greeting_timeout, strategy, retire_after)
        self._gathering = Gathering(self._attendance, self._shares, strategy, seed)
        self._make_watch = partial(Watch, guard, strategy)
        named = self._attendance.identity, self._attendance.shown_target
        self._make_books = partial(Books.of, checkpoint, checkpoint_every, record, participation, *named)
        self._mailbox = Mailbox(arrayrecord_key, configrecord_key)
        self._clock = Clock() if clock is None else clock
        self._grid: PollingGrid | None = None
        self._ttl: float | None = None
        self._last: int | None = None  # round
        self._begun = time.perf_counter()
        self._turnout = Turnout()
        self._orders: dict[str, Order] = {}
        self._collection: Collection | None = None  # replies of the open round
        self._config = ConfigRecord()
        self._warned: set[str] = set()  # metrics of clients that are ignored
        self._begin_anew()

    @property
    def suspects(self) -> dict[str, Suspicion]:
        """Clients that were beyond a bound of the limits or the guard, and how often."""
        return self._watch.suspects

    @property
    def history(self) -> History:
        """The history so far, in the form of a simulation's, with the rounds before a restart."""
        return self._books.chronicle.history(self._started())

    @property
    def estimates(self) -> list[Estimate]:
        """How available each client is and how often its updates arrive, as estimated so far, with intervals."""
        return estimates_of(self._started())

    def retire(self, *names: str) -> None:
        """Let clients leave the fleet for good, before the next round; a client that comes back is a new one."""
        self._attendance.retire(names)

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
        """Train for `num_rounds` rounds in all; rounds before a checkpoint count, and are not repeated.

        Rounds have the same numbers everywhere, also after a restart. Without a checkpoint a second call begins anew.
        """
        train_config, evaluate_config = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        with held(self._books.checkpoint):
            if self._driver is not None and self._books.checkpoint is None:
                self._begin_anew()
            self._ttl, self._last = timeout, num_rounds
            driver, polled = self._ready(initial_arrays, train_config), self._polled(grid)
            done, result = driver.t, Result()
            shown.info("Starting %s on Flower: %d rounds, %d done", type(self.strategy).__name__, num_rounds, done)
            self.summary()
            self._warn_of_nothing_to_do(done, num_rounds)
            self._handed = arrays = to_record(driver.model())
            if num_rounds > done or done == 0:
                before = self._rate_now(polled, evaluate_config, timeout)
                result.evaluate_metrics_clientapp |= {} if before is None else {done: before}
                self._rate_centrally(evaluate_fn, done, arrays, result)
            for t in range(done + 1, num_rounds + 1):
                shown.info("")
                shown.info("[ROUND %d/%d]", t, num_rounds)
                arrays, result.train_metrics_clientapp[t] = self._train(t, arrays, train_config, polled, timeout)
                sent = list(self.configure_evaluate(t, arrays, evaluate_config, polled))
                replies = polled.send_and_receive(sent, timeout=timeout, closing=self._closing)
                if (rated := self.aggregate_evaluate(t, replies)) is not None:
                    result.evaluate_metrics_clientapp[t] = rated
                    shown.info("\t└──> Evaluation: %s", rated)
                self._rate_centrally(evaluate_fn, t, arrays, result)
            result.arrays = to_record(driver.model())
            self._books.close(driver, self.evaluate_every)
        return result

    def _train(
        self, t: int, arrays: ArrayRecord, config: ConfigRecord, grid: PollingGrid, timeout: float
    ) -> tuple[ArrayRecord, MetricRecord]:
        sent, begun = list(self.configure_train(t, arrays, config, grid)), self._clock.now()
        # A subclass that aggregates in its own way gets the replies; all others are taken in as they come.
        take = self._take_in if type(self).aggregate_train is FlowerStrategy.aggregate_train else None
        late = self._late.numbers
        replies = grid.send_and_receive(sent, timeout=timeout, closing=self._closing, late=late, on_reply=take)
        if self._clock.now() - begun < timeout:  # else the messages have expired
            self._turnout.still_open = grid.unanswered
        arrays, metrics = self.aggregate_train(t, replies)
        shown.info("\t└──> Training: %s", metrics)
        return arrays, metrics

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
        if self.local is None:
            driver.local = _local(config, driver.local)
        turnout = self._turnout = self._gathering.gather(polled, driver, self._late, self._watch, self._ttl)
        self._tempo.begin(polled.clock.now())
        losses = self._probe(driver, turnout.asking, config, polled) if self.strategy.probes else None
        self._orders = {order.client: order for order in driver.open_round(turnout.asking, losses)}
        turnout.questioned, turnout.probed = {*self._orders} if losses is None else {*turnout.asking}, {*(losses or ())}
        books = self._books
        for_all = {RUN_ID: books.chronicle.run_id, DURABLE: books.durable_round(driver.t)}
        for_all |= {} if self.strategy.admits_all else {KEEP: True}
        if (memory := self.strategy.client_memory) is not None:
            for_all |= {FADING: float(memory.fading), PER_WORK: memory.per_work}
        fresh = [order for order in self._orders.values() if order.client not in turnout.busy]
        letters = train_letters(fresh, self.strategy.starts_shared, for_all)
        return self._mailbox.write(driver.directory, MessageType.TRAIN, letters, config, driver.t + 1, self._ttl)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Check every reply, close the round with the valid ones, and write the checkpoint."""
        driver, turnout, orders = self._started(), self._turnout, self._orders
        for reply in replies:
            self._take_in(reply)
        collection = self._collected()
        sent = self._mailbox.unanswered
        at_work = {name: sent[name] for name in sent if sent[name].message_id in turnout.still_open}
        starts = {name: orders[name].start for name in at_work}
        self._late.keep(at_work, starts, driver.t + 1, self._clock.now() + (self._ttl or 0.0))
        turnout.busy |= set(at_work)
        heard = collection.heard
        for name in orders:
            if name in heard or name not in turnout.busy:
                driver.directory.heard(name, name in heard, driver.t + 1)
        # A client that answered a probe was available: if it is silent afterwards, its upload failed.
        silent = [] if self.strategy.probes else [name for name in orders if name not in heard]
        norms = self._watch.look(collection.norms(), {name: order.rate for name, order in orders.items()})
        if not self.strategy.admits_all and orders:
            self._collect_uploads(driver, collection, driver.admit_round(norms, silent))
        good = self._watch.correct(driver.t + 1, collection.good)
        self._watch.note(driver.t + 1, good, collection.refused)
        if self._attendance.target == "examples":
            driver.weigh_by_size({name: float(reply.size) for name, reply in good.items() if reply.size})
        unknown = turnout.unknown(heard, self.listed == "unknown")
        about = {"unknown": unknown, "span": self._tempo.span, "forgotten": collection.forgotten}
        closed = driver.close_round(good, silent, collection.reach, **about)
        late = tuple(name for name in closed.arrived if name in collection.late)
        members = driver.directory.names
        record = replace(closed, bytes_uploaded=collection.bytes_uploaded, late=late, members=members)
        self._orders, self._collection = {}, None
        self.records.append(record)
        self._books.add(driver, record, time.perf_counter() - self._begun, collection.dropped)
        self._handed = to_record(driver.model())
        reported = {name: collection.metrics[name] for name in record.arrived}
        means = means_by_target(ratings_in(reported), driver)
        return self._handed, MetricRecord({**record.summary(), **self._combined("train", reported, means)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to the listed clients, except those that have just been silent or are still at work."""
        driver = self._driver
        if driver is not None and not driver.is_open:
            self._adopt(driver, arrays)
        if driver is None or not self._is_rated(driver.t):
            return []
        polled = self._polled(grid)
        out = driver.directory.silent | self._late.busy(driver.directory, polled.clock.now())
        names = [name for name in listed_clients(driver, polled.get_node_ids()) if name not in out]
        letters = [(name, arrays, {}) for name in self._shares.to_evaluate(names, self.seed, driver.t)]
        return self._mailbox.write(driver.directory, MessageType.EVALUATE, letters, config, driver.t, self._ttl)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Means over the clients that answered, weighted by the target."""
        driver = self._started()
        contents, _ = self._mailbox.sort_out(replies)
        metrics = {name: metrics_in(content) for name, content in contents.items()}
        by_metric = ratings_in(metrics)
        means = means_by_target(by_metric, driver)
        self._books.chronicle.rate(driver.t, means, by_metric, len(driver.directory))
        self._judge("clients", typical({name: badness_of(own) for name, own in metrics.items()}, driver))
        self._books.write(driver, self.evaluate_every)
        combined = self._combined("evaluate", metrics, means)
        return MetricRecord(combined) if combined else None

    def _started(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("training has not begun: call start or configure_train first")
        return self._driver

    def _ready(self, arrays: ArrayRecord, config: ConfigRecord) -> Driver:
        """The driver, made with the first model, or continued from the checkpoint if there is one."""
        if self._driver is None:
            use_compilation_cache()  # else every start of a ServerApp, a new process, would compile
            local = _local(config) if self.local is None else self.local
            driver = Driver(self.strategy, to_numpy(arrays), local=local, settings=self.settings, seed=self.seed)
            self._books.open(driver)
            self._attendance.enrol(driver)
            self._driver = driver
        return self._driver

    def _begin_anew(self) -> None:
        """Everything of one training, as before its first round."""
        self.records: list[RoundRecord] = []
        self._driver: Driver | None = None
        self._handed: ArrayRecord | None = None  # the model as it was last returned or adopted
        self._watch = self._make_watch()
        self._attendance.sessions = Sessions()
        self._books = self._make_books(self._watch, self._attendance.sessions)
        self._rollback = Rollback(self._watch.rolls_back)
        self._tempo, self._late = Tempo(), LateOrders()

    def _warn_of_nothing_to_do(self, done: int, num_rounds: int) -> None:
        if done >= num_rounds > 0:
            shown.warning(
                "Nothing is trained: the checkpoint %s has %d rounds already, and num_rounds is %d. Give more "
                "rounds to go on, or move the checkpoint away to begin anew.",
                self._books.checkpoint,
                done,
                num_rounds,
            )

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
        """The grid with patience, one for the whole training; newcomers are greeted while replies are waited for."""
        if isinstance(grid, PollingGrid):
            self._grid = grid
        elif self._grid is None or self._grid.inner is not grid:
            self._grid = PollingGrid(grid, self.poll, self.patience, self._clock)
        polled = self._grid
        polled.meanwhile = lambda: self._attendance.attend(polled, self._started())
        return polled

    def _collected(self) -> Collection:
        """The replies of the round so far."""
        if self._collection is None:
            keys = {"warned": self._warned, "size_key": self.weighted_by_key}
            self._collection = Collection(self._started(), self._orders, self.limits, **keys)
        return self._collection

    def _take_in(self, reply: Message) -> None:
        """Check a reply to training and write its update to its row; the reply is not needed any more."""
        collection, order = self._collected(), self._late.take(reply)
        if order is None:
            collection.add(*self._mailbox.sort_out([reply]))
        elif self._gathering.takes_late and reply.has_content() and order.client in self._orders:
            collection.add_late(order, reply.content)
        else:
            driver = self._started()
            driver.directory.heard(order.client, answered=True)
            t = driver.t + 1
            shown.info("\t\t%s answers in round %d for round %d: too late", order.client, t, order.t)

    def _collect_uploads(self, driver: Driver, collection: Collection, admitted: Iterable[str]) -> None:
        """Ask admitted clients for the updates that they have kept; the others never send theirs."""
        if self._grid is None:
            return
        letters = [(name, None, {}) for name in admitted if name in collection.lengths]
        sent = self._mailbox.write(driver.directory, UPLOAD, letters, self._config, driver.t + 1, self._ttl)
        if sent:
            take = lambda reply: collection.add_uploads(self._mailbox.sort_out([reply])[0])  # noqa: E731
            self._grid.send_and_receive(sent, timeout=self._ttl, closing=self._closing, on_reply=take)

    def _probe(self, driver: Driver, asking: list[str], config: ConfigRecord, grid: PollingGrid) -> dict[str, float]:
        """The losses of the clients that answer; the others count as not available."""
        model, t = to_record(driver.arrays()), driver.t + 1
        letters = [(name, model, {"seed": seed}) for name, seed in driver.probe_seeds(asking).items()]
        sent = self._mailbox.write(driver.directory, PROBE, letters, config, t, self.probe_timeout)
        replies = grid.send_and_receive(sent, timeout=self.probe_timeout, closing=self._closing) if sent else []
        contents, failed = self._mailbox.sort_out(replies)
        for name in asking:  # or a client that was killed could not come back while its old node is listed
            driver.directory.heard(name, name in contents or name in failed, t)
        if asking and failed >= set(asking) and t == 1:
            raise ValueError(
                f"{type(self.strategy).__name__} needs the loss of the model on every client, but all {len(failed)} "
                "clients fail to tell it; the log says why. Give them a loss: `app = greet(app, loss=...)`"
            )
        return losses_in(contents, t, self.limits)

    def _combined(
        self, phase: str, metrics: Mapping[str, Mapping[str, Any]], means: Mapping[str, float]
    ) -> dict[str, Any]:
        """Metrics of the clients combined by the user's function; without one, their means."""
        if (combine := self._aggregate[phase]) is None or not metrics:
            return dict(means)
        contents = [RecordDict({METRICS: MetricRecord(users_own(own))}) for own in metrics.values()]
        return dict(combine(contents, self.weighted_by_key))

    def _is_rated(self, t: int) -> bool:
        """Whether clients evaluate the model after t rounds."""
        return self.evaluate_every > 0 and (t % self.evaluate_every == 0 or t == self._last)

    def _rate_now(self, grid: PollingGrid, config: ConfigRecord, timeout: float) -> MetricRecord | None:
        """Evaluate the model from which training starts or continues, unless that was done before a crash."""
        driver = self._started()
        if not self._is_rated(driver.t) or self._books.chronicle.is_rated(driver.t):
            return None
        self._attendance.take(grid, driver, driver.t + 1)
        sent = self.configure_evaluate(driver.t, to_record(driver.model()), config, grid)
        return self.aggregate_evaluate(driver.t, grid.send_and_receive(sent, timeout=timeout, closing=self._closing))

    def _rate_centrally(self, evaluate_fn: EvaluateFn | None, t: int, model: ArrayRecord, result: Result) -> None:
        """The server's own evaluation, recorded."""
        metrics = None if evaluate_fn is None else evaluate_fn(t, model)
        if metrics is not None:
            shown.info("\t└──> Evaluation by the server: %s", metrics)
            self._books.chronicle.rate_centrally(t, metrics)
            self._judge("server", badness_of(metrics))
            result.evaluate_metrics_serverapp[t] = metrics


def _local(config: ConfigRecord, before: Local | None = None) -> Local:
    """The clients' learning rate where only the training config has it."""
    rate = config.get("lr", 1.0)
    if not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"'lr' in the training config is {rate!r}; it must be a number above 0")
    return before if before is not None and before.learning_rate == rate else Local(learning_rate=float(rate))
