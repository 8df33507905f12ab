"""Any strategy of ours as a Flower strategy."""
# Long: Flower wants one class, and a quarter of it declares and documents the arguments.

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as Base

from turnout.declarations import Seed, checked
from turnout.flower.fleet.directory import Sessions
from turnout.flower.fleet.gathering import Gathering, Listed, Shares
from turnout.flower.fleet.presence import Presence
from turnout.flower.pacing import PacedTraining
from turnout.flower.run.books import Books, Evaluations, Tempo, means_by_target, numbers_in
from turnout.flower.run.checkpoint import hold
from turnout.flower.run.estimates import Estimate, estimates_of
from turnout.flower.run.live import MetricsPage, line_of, live_numbers
from turnout.flower.secure.settings import SecureSums
from turnout.flower.server.demands import for_real_nodes
from turnout.flower.server.driver import Driver
from turnout.flower.server.flow import Flow
from turnout.flower.server.inspector import Inspector, Suspicion
from turnout.flower.server.rollback import Rollback
from turnout.flower.server.turn import RoundRecord
from turnout.flower.settings import GUARDED, Files, Guard, Limits, Members, Target, Waiting, refuse_unknown
from turnout.flower.wire import messages, side
from turnout.flower.wire.collecting import Collection
from turnout.flower.wire.exchange import Exchange, Mailbox
from turnout.flower.wire.messages import metrics_in, to_numpy, to_record, users_own
from turnout.flower.wire.retries import Closing, PollingGrid
from turnout.paces import Pace
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.simulator.history import History
from turnout.simulator.programs import use_compilation_cache
from turnout.strategies.base import Strategy

if TYPE_CHECKING:
    from turnout.flower.secure.rounds import SecureRounds

shown = logging.getLogger("flwr")  # only Flower's own log shows messages below a warning

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
_OF_ROUNDS = ("configure_train", "aggregate_train")
Aggregate = Callable[[list[RecordDict], str], MetricRecord]


@dataclass(frozen=True)
class Wanted:
    """What `start` was asked for."""

    num_steps: int
    timeout: float
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: EvaluateFn | None


class FlowerStrategy(Base):
    """A strategy of ours, unchanged, on Flower's nodes.

    Args:
        strategy: the server's algorithm.
        target: weight of each client in the objective: the same for all, by the size of its data, by the examples that
            its replies report, by name, or a function of the name. A mapping names the whole fleet, and turns all
            others away.
        local: learning rate of the clients, sent to them as `lr`; if not given, the `lr` of the training config, which
            may change from round to round.
        seed: seed of the selection, and of the clients' own seeds.
        server: how the server moves the model, and what it estimates.
        members: who is a client, how it is recognised, and when it leaves.
        waiting: how long to wait for clients and for the SuperLink.
        guard: what protects the model from clients that lie within the limits; None for nothing.
        limits: bounds that every reply must satisfy.
        files: what is written, to go on after a crash and to read later.
        evaluate_every: rounds between evaluations on the clients, the first and the last model included; never if 0.
        metrics_address: "host:port" at which Prometheus finds the numbers of a server with a pace while it runs.
        pace: when the server asks and when it steps, such as `Buffered(size=10, concurrency=50)` or
            `Rounds(quorum=0.8)`, in ticks of a second; if not given, in rounds that wait for all.
        quorum: share of the asked clients whose answers close a round; the others are late.
        stretch: close a round at this many times the seconds after which half of the asked clients had answered; if
            not given, a round waits for all, at most until the timeout.
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
        secure: let the server see sums of updates only; experimental.
        unknown: no other arguments; one that stands in a group of settings is refused with its place.

    """

    # Long: what is set once, argument by argument.
    @checked
    def __init__(  # noqa: PLR0913 (the user's settings, most by name)
        self,
        strategy: Strategy,
        *,
        target: Target = "uniform",
        local: Local | None = None,
        seed: Seed = 0,
        server: ServerSettings | None = None,
        members: Members | None = None,
        waiting: Waiting | None = None,
        guard: Guard | None = GUARDED,
        limits: Limits | None = None,
        files: Files | None = None,
        evaluate_every: int = 1,
        metrics_address: str | None = None,
        pace: Pace | None = None,
        quorum: float = 1.0,
        stretch: float | None = None,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 0,
        min_evaluate_nodes: int = 0,
        min_available_nodes: int = 0,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = messages.ARRAYS,
        configrecord_key: str = messages.CONFIG,
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
        secure: SecureSums | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown, FlowerStrategy.__init__)
        if evaluate_every < 0:
            raise ValueError(f"evaluate_every must be 0 or more rounds, not {evaluate_every}")
        if secure is not None:
            guard = None if guard is GUARDED else guard  # the default gives way
            asks = {"evaluate_every": evaluate_every, "target": target, "combines": train_metrics_aggr_fn is not None}
            given = {"guarded": guard is not None, "limited": limits is not None, "paced": pace is not None}
            secure.check(strategy, **given, **asks)
        self.strategy = strategy
        self.secure = secure
        self.local = local
        self.seed = seed
        self.settings = for_real_nodes(server, strategy)
        self.members = Members() if members is None else members
        self.waiting = Waiting() if waiting is None else waiting
        self.guard = guard
        self.limits = Limits() if limits is None else limits
        self.files = Files() if files is None else files
        self.evaluate_every = evaluate_every
        self.weighted_by_key = weighted_by_key
        self._closing = Closing(quorum, stretch)
        self.pace = pace
        self._metrics = None if metrics_address is None else MetricsPage(metrics_address)
        if pace is not None:
            check_pace(pace, strategy, quorum, stretch, fraction_train)
        elif quorum < 1:
            shown.warning("quorum=%g is pace=Rounds(quorum=%g, late='keep' or 'drop') from now on", quorum, quorum)
        self._shares = Shares(
            fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes
        )
        self._aggregate = {"train": train_metrics_aggr_fn, "evaluate": evaluate_metrics_aggr_fn}
        self._presence = Presence(self.members, target, self.waiting.greeting, strategy, secure is not None)
        self._gathering = Gathering(self._presence, self._shares, seed)
        self._keys = (arrayrecord_key, configrecord_key)
        self._mailbox = Mailbox(*self._keys)
        self._grid: PollingGrid | None = None
        self._begun = time.perf_counter()
        self._listed = Listed()
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Everything of one training, as before its first round."""
        self.records: list[RoundRecord] = []
        self._driver: Driver | None = None
        self._handed: ArrayRecord | None = None  # the model as it was last returned or adopted
        self._inspector = Inspector(self.guard, self.strategy)
        self._presence.sessions = Sessions()
        notes = {"identity": self.members.identity, "target": self._presence.shown_target}
        self._books = Books(self.files, notes, self._inspector, self._presence.sessions)
        self._rollback = Rollback(self._inspector.rolls_back)
        self._evaluations = Evaluations(self.evaluate_every, self._books, self._rollback)
        self._flow: Flow | None = None
        self._exchange = Exchange(self._mailbox, self._closing, self.limits, self.weighted_by_key)
        self._tempo = Tempo()
        self._sums: "SecureRounds | None" = None

    @property
    def suspects(self) -> dict[str, Suspicion]:
        """Clients that were beyond a bound of the limits or the guard, and how often."""
        return self._inspector.suspects

    @property
    def history(self) -> History:
        """The history so far, in the form of a simulation's, with the rounds before a restart."""
        return self._books.chronicle.history(self._require_driver())

    @property
    def estimates(self) -> list[Estimate]:
        """How available each client is and how often its updates arrive, as estimated so far, with intervals."""
        return estimates_of(self._require_driver())

    def retire(self, *names: str) -> None:
        """Let clients leave the fleet for good, before the next round; a client that comes back is a new one."""
        self._presence.retire(names)

    def summary(self) -> None:
        name, presence = type(self.strategy).__name__, self._presence
        shown.info("\t├── %s; target: %s; identity: %s", name, presence.shown_target, presence.identity)

    # Long: a whole training in its order, with rounds or with a pace.
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
        if self.pace is not None and (own := [name for name in _OF_ROUNDS if _is_own(type(self), name)]):
            raise TypeError(f"{type(self).__name__} has its own {own[0]}, which a server with a pace never calls")
        with hold(self._books.checkpoint):
            if self._driver is not None and self._books.checkpoint is None:
                self._begin_anew()
            self._exchange.timeout, self._evaluations.last = timeout, num_rounds
            driver, polled = self._ready(initial_arrays, train_config), self._with_retries(grid)
            done, result = driver.t, Result()
            shown.info("Starting %s on Flower: %d rounds, %d done", type(self.strategy).__name__, num_rounds, done)
            self.summary()
            self._warn_of_nothing_to_do(done, num_rounds)
            self._handed = arrays = to_record(driver.model())
            if num_rounds > done or done == 0:
                if self._evaluations.is_missing(done) and self.pace is None:
                    self._presence.take(polled, driver, done + 1)
                    self._evaluate(done, arrays, evaluate_config, polled, timeout, result)
                self._evaluate_centrally(evaluate_fn, done, arrays, result)
            if self.pace is not None and num_rounds > done:
                wanted = Wanted(num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
                self._play_in_time(wanted, polled, result)
            for t in range(driver.t + 1, num_rounds + 1):
                shown.info("")
                shown.info("[ROUND %d/%d]", t, num_rounds)
                arrays, result.train_metrics_clientapp[t] = self._train(t, arrays, train_config, polled, timeout)
                self._evaluate(t, arrays, evaluate_config, polled, timeout, result)
                self._evaluate_centrally(evaluate_fn, t, arrays, result)
            result.arrays = to_record(driver.model())
            self._books.close(driver, self.evaluate_every)
        return result

    def _play_in_time(self, wanted: Wanted, grid: PollingGrid, result: Result) -> None:
        """Train as the pace says, without waiting for the slowest, until the server has made so many steps."""
        driver, flow = self._require_driver(), self._flow
        assert flow is not None  # it is made with the driver

        def evaluated(t: int, metrics: dict[str, dict[str, Any]]) -> None:
            combined = self._combine("evaluate", metrics, self._evaluations.add(driver, metrics, t))
            if combined:
                result.evaluate_metrics_clientapp[t] = MetricRecord(combined)
                shown.info("\t└──> Evaluation after step %d: %s", t, combined)

        pacing = PacedTraining(
            flow,
            grid,
            self._presence,
            self._inspector,
            self._books,
            self._shares,
            self.limits,
            self.waiting,
            lambda: Mailbox(*self._keys),
            self.weighted_by_key,
            evaluated,
        )
        pacing.begin()
        if self._evaluations.is_missing(driver.t):
            pacing.await_clients()
            pacing.begin_evaluation(wanted.evaluate_config, driver.t, self.seed, wanted.timeout)
        with contextlib.nullcontext() if self._metrics is None else self._metrics.served():
            while driver.t < wanted.num_steps:
                self._step_in_time(pacing, wanted, result)
                if self._evaluations.is_due(driver.t):
                    pacing.finish_evaluation()
                    pacing.begin_evaluation(wanted.evaluate_config, driver.t, self.seed, wanted.timeout)
                else:
                    self._books.write(driver, self.evaluate_every)
                self._evaluate_centrally(wanted.evaluate_fn, driver.t, to_record(driver.model()), result)
            pacing.close()

    def _step_in_time(self, pacing: PacedTraining, wanted: Wanted, result: Result) -> None:
        driver, begun = pacing.driver, time.perf_counter()
        self._rollback.keep_good(driver)
        if self.local is None:
            driver.local = _read_local(wanted.train_config, driver.local)
        record, reported = pacing.play_until_step(wanted.train_config, wanted.timeout)
        self.records.append(record)
        self._books.add(driver, record, time.perf_counter() - begun, pacing.dropped)
        means = means_by_target(numbers_in(reported), driver)
        combined = self._combine("train", reported, means)
        result.train_metrics_clientapp[driver.t] = MetricRecord({**record.summary(), **combined})
        shown.info("%s", line_of(pacing.flow, record))
        if self._metrics is not None:
            self._metrics.numbers = live_numbers(pacing.flow, record)

    def _train(
        self, t: int, arrays: ArrayRecord, config: ConfigRecord, grid: PollingGrid, timeout: float
    ) -> tuple[ArrayRecord, MetricRecord]:
        sent, begun = list(self.configure_train(t, arrays, config, grid)), grid.clock.now()
        if self.secure is not None:
            replies = self._secure_rounds(self.secure).play(self._require_driver(), sent, self._exchange, grid, timeout)
            return self.aggregate_train(t, replies)
        # A subclass that aggregates in its own way gets the replies; all others are taken in as they come.
        streams = type(self).aggregate_train is FlowerStrategy.aggregate_train
        take = (lambda reply: self._exchange.take(self._require_driver(), reply)) if streams else None
        late = self._exchange.late.numbers
        replies = grid.send_and_receive(sent, timeout=timeout, closing=self._closing, late=late, on_reply=take)
        if grid.clock.now() - begun < timeout:  # else the messages have expired
            self._listed.still_open = grid.unanswered
        arrays, metrics = self.aggregate_train(t, replies)
        shown.info("\t└──> Training: %s", metrics)
        return arrays, metrics

    def _secure_rounds(self, settings: SecureSums) -> "SecureRounds":
        if self._sums is None:
            from turnout.flower.secure.rounds import SecureRounds  # needs cryptography

            by_size = self.weighted_by_key if self._presence.target == "examples" else None
            self._sums = SecureRounds(settings, self._books.chronicle.run_id, by_size)
        return self._sums

    def _evaluate(
        self, t: int, arrays: ArrayRecord, config: ConfigRecord, grid: PollingGrid, timeout: float, result: Result
    ) -> None:
        sent = list(self.configure_evaluate(t, arrays, config, grid))
        replies = grid.send_and_receive(sent, timeout=timeout, closing=self._closing)
        if (metrics := self.aggregate_evaluate(t, replies)) is not None:
            result.evaluate_metrics_clientapp[t] = metrics
            shown.info("\t└──> Evaluation: %s", metrics)

    def _evaluate_centrally(self, evaluate_fn: EvaluateFn | None, t: int, model: ArrayRecord, result: Result) -> None:
        """The server's own evaluation, recorded."""
        metrics = None if evaluate_fn is None else evaluate_fn(t, model)
        if metrics is not None:
            shown.info("\t└──> Evaluation by the server: %s", metrics)
            self._evaluations.add_central(self._require_driver(), metrics)
            result.evaluate_metrics_serverapp[t] = metrics

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Find out who is available, probe if the strategy asks for it, select, and write to the selected clients."""
        if self.pace is not None:
            raise RuntimeError("a strategy with a pace has no rounds to configure: call start, or leave out the pace")
        self._begun = time.perf_counter()
        driver, polled = self._ready(arrays, config), self._with_retries(grid)
        if driver.is_open:  # a wrapper may leave out a round, for instance if a reply is missing
            shown.warning("round %d was not aggregated: it counts as a round without updates", driver.t + 1)
            self.aggregate_train(server_round - 1, [])
        else:
            self._adopt(driver, arrays)
        self._rollback.keep_good(driver)
        if self.local is None:
            driver.local = _read_local(config, driver.local)
        late, timeout = self._exchange.late, self._exchange.timeout
        listed = self._listed = self._gathering.gather(polled, driver, late, self._inspector, timeout)
        self._tempo.begin(polled.clock.now())
        losses = None
        if driver.demands.losses:
            losses = self._exchange.probe(driver, listed.asking, config, polled, self.waiting.probe)
        orders = {order.client: order for order in driver.open_round(listed.asking, losses)}
        listed.questioned, listed.probed = {*orders} if losses is None else {*listed.asking}, {*(losses or ())}
        for_all = {messages.RUN_ID: self._books.chronicle.run_id, messages.DURABLE: self._books.durable_round(driver.t)}
        for_all |= {messages.KEEP: True} if driver.demands.lengths else {}
        for_all |= side.to_config(self.strategy)
        if driver.demands.numbers and self._presence.target == "examples":
            for_all |= {messages.WEIGHT: self.weighted_by_key}
        return self._exchange.write_orders(driver, orders, listed.busy, for_all, config)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Check every reply, close the round with the valid ones, and write the checkpoint."""
        driver = self._require_driver()
        for reply in replies:
            self._exchange.take(driver, reply)
        now, listed = self.waiting.clock.now(), self._listed
        collection = self._exchange.finish(driver, listed.still_open, listed.busy, now)
        record = self._close_round(driver, collection)
        self.records.append(record)
        self._books.add(driver, record, time.perf_counter() - self._begun, collection.dropped)
        self._handed = to_record(driver.model())
        reported = {name: collection.metrics[name] for name in record.arrived}
        means = means_by_target(numbers_in(reported), driver)
        return self._handed, MetricRecord({**record.summary(), **self._combine("train", reported, means)})

    def _close_round(self, driver: Driver, collection: Collection) -> RoundRecord:
        """Close the round with what the inspector leaves of the replies."""
        t, orders, heard = driver.t + 1, collection.orders, collection.heard
        # A client that answered a probe was available: if it is silent afterwards, its upload failed.
        silent = [] if driver.demands.losses else [name for name in orders if name not in heard]
        norms = self._inspector.look(collection.norms(), {name: order.rate for name, order in orders.items()})
        if driver.demands.lengths and orders:
            self._exchange.fetch_uploads(driver, collection, driver.admit_round(norms, silent), self._grid)
        good = self._inspector.correct(t, collection.good)
        self._inspector.note(t, good, collection.refused)
        self._presence.take_leave(driver, collection.goodbyes)
        if self._presence.target == "examples":
            driver.weigh_by_size({name: float(reply.size) for name, reply in good.items() if reply.size})
        closed = driver.close_round(
            good,
            silent,
            collection.reach,
            unknown=self._listed.unknown(heard, self.members.listed == "unknown"),
            listed=[name for name in self._listed.names if name in driver.directory],
            span=self._tempo.span,
            forgotten=collection.forgotten,
        )
        late = tuple(name for name in closed.arrived if name in collection.late)
        return replace(closed, bytes_uploaded=collection.bytes_uploaded, late=late, members=driver.directory.names)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to the listed clients, except those that have just been silent or are still at work."""
        driver = self._driver
        if driver is not None and not driver.is_open:
            self._adopt(driver, arrays)
        if driver is None or not self._evaluations.is_due(driver.t):
            return []
        polled = self._with_retries(grid)
        out = driver.directory.silent | self._exchange.late.busy(driver.directory, polled.clock.now())
        names = [name for name in driver.directory.clients_at(polled.get_node_ids()) if name not in out]
        letters = [(name, arrays, {}) for name in self._shares.to_evaluate(names, self.seed, driver.t)]
        return self._mailbox.write(
            driver.directory, MessageType.EVALUATE, letters, config, driver.t, self._exchange.timeout
        )

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Means over the clients that answered, weighted by the target."""
        contents, _ = self._mailbox.sort_out(replies)
        metrics = {name: metrics_in(content) for name, content in contents.items()}
        combined = self._combine("evaluate", metrics, self._evaluations.add(self._require_driver(), metrics))
        return MetricRecord(combined) if combined else None

    def _combine(
        self, phase: str, metrics: Mapping[str, Mapping[str, Any]], means: Mapping[str, float]
    ) -> dict[str, Any]:
        """Metrics of the clients combined by the user's function; without one, their means."""
        if (combine := self._aggregate[phase]) is None or not metrics:
            return dict(means)
        contents = [RecordDict({messages.METRICS: MetricRecord(users_own(own))}) for own in metrics.values()]
        return dict(combine(contents, self.weighted_by_key))

    def _require_driver(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("training has not begun: call start or configure_train first")
        return self._driver

    def _ready(self, arrays: ArrayRecord, config: ConfigRecord) -> Driver:
        """The driver, made with the first model, or continued from the checkpoint if there is one."""
        if self._driver is None:
            use_compilation_cache()  # else every start of a ServerApp, a new process, would compile
            local = _read_local(config) if self.local is None else self.local
            driver = Driver(self.strategy, to_numpy(arrays), local=local, settings=self.settings, seed=self.seed)
            if self.pace is not None:
                self._flow = self._books.chronicle.flow = Flow(driver, self.pace, self.waiting.clock)
            self._books.open(driver)
            self._presence.enrol(driver)
            self._driver = driver
        return self._driver

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

    def _with_retries(self, grid: Grid) -> PollingGrid:
        """The grid with patience, one for the whole training; newcomers are greeted while replies are waited for."""
        if isinstance(grid, PollingGrid):
            self._grid = grid
        elif self._grid is None or self._grid.inner is not grid:
            self._grid = PollingGrid(grid, self.waiting)
        polled = self._grid
        polled.meanwhile = lambda: self._presence.attend(polled, self._require_driver())
        return polled


def _is_own(kind: type, name: str) -> bool:
    return getattr(kind, name) is not getattr(FlowerStrategy, name)


def check_pace(pace: Pace, strategy: Strategy, quorum: float, stretch: float | None, fraction_train: float) -> None:
    """Raise a ValueError if a strategy cannot keep this pace on real nodes, or if other arguments contradict it."""
    pace.check(2**31 - 1)
    if quorum != 1 or stretch is not None:
        raise ValueError("quorum and stretch are part of a pace: give pace=Rounds(quorum=…) alone")
    if fraction_train != 1:
        raise ValueError("fraction_train is of rounds that wait for all: with a pace, give the pace a concurrency")
    name = type(strategy).__name__
    if strategy.needs_losses or not strategy.admits_all:
        what = "the losses of all clients" if strategy.needs_losses else "the lengths of all updates"
        raise ValueError(f"{name} compares {what} of a round, and needs rounds that wait for all: leave out the pace")


def _read_local(config: ConfigRecord, before: Local | None = None) -> Local:
    """The clients' learning rate where only the training config has it."""
    rate = config.get("lr", 1.0)
    if not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"'lr' in the training config is {rate!r}; it must be a number above 0")
    return before if before is not None and before.learning_rate == rate else Local(learning_rate=float(rate))
