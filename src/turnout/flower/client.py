"""The client's side: any ClientApp made to answer the server's questions, and one around functions of numpy arrays."""
# Long: a fifth of it says what the arguments of two public functions are, and refuses others without jax.

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from turnout.flower.leaving import has_left
from turnout.flower.wire import messages as wire
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.replies import OWN_BASE, OWN_NORM, OWN_ROUND, length
from turnout.flower.wire.side_names import KNOWN_SIDES, SIDE, SIDES, check_side_known
from turnout.metrics import TEST_LOSS, is_loss

if TYPE_CHECKING:
    from turnout.flower.sender import Place, Sender
    from turnout.uploads import Upload

KEPT, KEPT_IN = "turnout.update", "turnout.kept-in"  # in the node's own state, between training and upload
OWN_SIZE = "turnout.size"  # in the node's own state: the samples that its app has last reported
LOSSES = ("loss", "eval_loss", "eval-loss", TEST_LOSS, "test-loss", "val_loss", "val-loss")  # as apps call it

Settings = dict[str, Any]
Train = Callable[[Arrays, Settings, Context], tuple[Mapping[str, np.ndarray], Mapping[str, float]]]
Loss = Callable[[Arrays, Settings, Context], float]
Evaluate = Callable[[Arrays, Settings, Context], Mapping[str, float]]
Size = Callable[[Context], int]
Name = Callable[[Context], str | int]
Reach = float | str | Callable[[Mapping[str, Any]], float]


def greet(
    app: ClientApp,
    *,
    name: Name | None = None,
    size: Size | None = None,
    loss: Loss | None = None,
    reach: Reach | None = None,
    state: Place | None = None,
) -> ClientApp:
    """An existing ClientApp that also tells the server who it is, how much data it has, and what a model loses there.

    Put `app = greet(app)` below your app, or `app = greet(ClientApp())` above its functions; they stay as they are.

    Args:
        app: your app, with its functions for training and evaluation.
        name: name of the client, from the context; if not given, `client-id` or `partition-id` of the node's config.
        size: number of samples, from the context; if not given, the `num-examples` that the app reported last.
        loss: (arrays, config, context) to the loss of a model without training, for strategies that probe; if not
            given, the app's own evaluation is asked for it: its `loss`, or whatever metric ends in "loss" there.
        reach: steps of plain SGD in a round: a number, the name of a metric that the app reports, or a function of its
            metrics. Strategies for unequal work need it; if not given, all clients count as doing the same.
        state: file for what the client has sent, or a function of the context that names it; for strategies with their
            memory on the clients. If not given, it is lost when the node restarts.

    """
    if not isinstance(app, ClientApp):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"greet takes a ClientApp, not an object of {type(app).__name__}")
    _check_functions(name=name, size=size, loss=loss)
    _check_reach(reach)
    _check_place(state)
    return _Greeted(app, name=name, size=size, loss=loss, reach=reach, state=state)


# Beside `turnout.declarations`, which imports jax: a client that sends models does without it.
def _check_functions(**given: object) -> None:
    for name, one in given.items():
        if one is not None and (not callable(one) or isinstance(one, type)):
            raise TypeError(f"{name} must be a function, not an object of {type(one).__name__}")


def _check_reach(reach: object) -> None:
    number = isinstance(reach, int | float | np.number) and not isinstance(reach, bool) and 0 <= float(reach) < np.inf
    if not (reach is None or number or (isinstance(reach, str) and reach) or callable(reach)):
        raise TypeError("reach must be a number of 0 or more, the name of a metric, or a function of the metrics")


def _check_place(state: object) -> None:
    if not (state is None or (isinstance(state, str) and state) or isinstance(state, Path) or callable(state)):
        raise TypeError("state must be a path, or a function of the context that names one")


class _Greeted(ClientApp):
    """Answers greetings, probes and requests for kept updates; everything else is the other app's.

    What that app has trained is sent as it is, or as an update: if it is to be transformed, or if the server's strategy
    wants the client to remember what it has sent.
    """

    def __init__(
        self,
        app: ClientApp,
        *,
        name: Name | None = None,
        size: Size | None = None,
        loss: Loss | None = None,
        reach: Reach | None = None,
        uploads: Upload | None = None,
        state: Place | None = None,
    ) -> None:
        super().__init__()
        self._app, self._name, self._size, self._loss, self._reach = app, name, size, loss, reach
        self._transforms, self._place = uploads is not None, state
        self._sender = None if uploads is None else _make_sender(uploads, state)
        # Functions may be registered before or after: both end up with the app inside.
        self.train, self.evaluate, self.query, self.lifespan = app.train, app.evaluate, app.query, app.lifespan
        self._answers = {wire.HELLO: self._hello, wire.PROBE: self._probe, wire.UPLOAD: self._upload}

    def __call__(self, message: Message, context: Context) -> Message:
        kind = message.metadata.message_type
        if kind in self._answers:
            return self._answers[kind](message, context)
        if kind != MessageType.TRAIN:
            return self._app(message, context)
        config = wire.config_in(message)
        check_side_known(config)
        if self._transforms and self._sender is not None:
            self._sender.check_order(config)
        if has_left(context):
            return self._say_goodbye(message, context)
        reply = self._app(message, context)
        return self._say_goodbye(message, context) if has_left(context) else self._complete(message, reply, context)

    def _hello(self, message: Message, context: Context) -> Message:
        """Who this is; what is wrong is told, for an error would look like an app that knows no greetings."""
        config, counts = wire.config_in(message), MetricRecord()
        who = ConfigRecord({SIDES: list(KNOWN_SIDES)})
        try:
            if self._sender is not None:
                self._sender.check(config)
            check_side_known(config)
            name = wire.client_name(context) if self._name is None else str(self._name(context))
            if name is not None:
                who[wire.CLIENT_ID] = name
            if config.get(wire.SIZE):
                counts["num-examples"] = self._samples(context)
        except Exception as error:  # whatever a user's function may raise
            who[wire.PROBLEM] = f"{type(error).__name__}: {error}"
        return Message(RecordDict({wire.METRICS: counts, wire.IDENTITY: who}), reply_to=message)

    def _samples(self, context: Context) -> int:
        """Only counted where they are asked for: a client whose data cannot be read can still join."""
        if self._size is not None:
            return int(self._size(context))
        kept: Any = context.state.config_records.get(OWN_SIZE, ConfigRecord()).get("num-examples")
        if kept is None:
            raise ValueError(
                "the server asks for the size of the data, which this app has not reported yet: give one by `size`, "
                "or let the server use target='examples'"
            )
        return kept

    def _probe(self, message: Message, context: Context) -> Message:
        if self._loss is not None:
            arrays, config = _read_order(message)
            return _reply(message, {"loss": self._loss(arrays, config, context)})
        message.metadata.message_type = MessageType.EVALUATE
        reply = self._app(message, context)
        message.metadata.message_type = wire.PROBE
        if reply.has_error():
            return reply
        metrics = wire.metrics_in(reply.content)
        losses = [metric for metric in metrics if is_loss(metric)]
        own = next((metric for metric in LOSSES if metric in losses), losses[0] if len(losses) == 1 else None)
        if own is None:
            raise ValueError(
                f"the server asks for the loss of the model, but evaluation reports only {sorted(metrics)}: report a "
                "'loss' there, or give one by greet(app, loss=...)"
            )
        return _reply(message, {"loss": metrics[own]})

    def _complete(self, message: Message, reply: Message, context: Context) -> Message:
        """The app's reply with reach and round; the model stays here if only its length is wanted now."""
        if reply.has_error() or not reply.has_content():
            return reply
        config, content = wire.config_in(message), reply.content
        metrics = wire.metrics_in(content)
        own = next(iter(content.metric_records.values()), None)
        if own is None:
            own = content[wire.METRICS] = MetricRecord()
        if (size := metrics.get("num-examples")) is not None and isinstance(size, int):
            context.state[OWN_SIZE] = ConfigRecord({"num-examples": size})
        if self._reach is not None:
            own["reach"] = _read_reach(self._reach, metrics)
        own[OWN_ROUND] = config[wire.ROUND]
        wants_update = self._transforms or SIDE in config
        if wants_update and wire.COMPACT not in content.array_records:
            self._send_update(message, content, own, context)
        if config.get(wire.KEEP):
            key, record = next(iter(content.array_records.items()))
            if OWN_NORM not in own:
                own[OWN_NORM] = _distance(wire.to_numpy(record), _read_order(message)[0])
            context.state[KEPT] = record
            context.state[KEPT_IN] = ConfigRecord({wire.ROUND: config[wire.ROUND], "record": key})
            del content[key]
        return reply

    def _send_update(self, message: Message, content: RecordDict, own: MetricRecord, context: Context) -> None:
        """Replace the trained model by its update, as it is to be sent."""
        self._sender = _make_sender(None, self._place) if self._sender is None else self._sender
        key, record = next(iter(content.array_records.items()))
        start, config = _read_order(message)  # read again, since a model may be trained in place
        reach: Any = own.get("reach", 1.0)
        usable = float(reach) if np.isfinite(reach) and reach >= 0 else 1.0  # as the server takes it
        sent = self._sender.pack(wire.to_numpy(record), start, config, context, usable)
        del content[key]
        content[wire.COMPACT] = wire.to_record(sent.parts)
        if config.get(wire.KEEP):
            own[OWN_NORM] = sent.length
        if SIDE in config:
            own[OWN_BASE] = sent.based_on

    def _say_goodbye(self, message: Message, context: Context) -> Message:
        """The answer of a client that leaves for good; the memory stays, since the answer may be lost."""
        content, (start, config) = RecordDict(), _read_order(message)
        own = content[wire.METRICS] = MetricRecord({OWN_ROUND: config[wire.ROUND], wire.LEAVING: 1})
        if SIDE in config:
            self._sender = _make_sender(None, self._place) if self._sender is None else self._sender
            said = self._sender.goodbye(start, config, context)
            content[wire.COMPACT], own[OWN_BASE] = wire.to_record(said.parts), said.based_on
        return Message(content, reply_to=message)

    def _upload(self, message: Message, context: Context) -> Message:
        wanted = wire.config_in(message)[wire.ROUND]
        kept = context.state.config_records.get(KEPT_IN, ConfigRecord())
        if kept.get(wire.ROUND) != wanted:
            raise ValueError(f"no update of round {wanted} is kept here: a node that restarts loses its update")
        del context.state[KEPT_IN]
        record: Any = context.state.pop(KEPT)
        return Message(RecordDict({str(kept["record"]): record}), reply_to=message)


def client_app(
    *,
    train: Train,
    loss: Loss | None = None,
    evaluate: Evaluate | None = None,
    size: Size | None = None,
    uploads: Upload | None = None,
    state: Place | None = None,
) -> ClientApp:
    """A ClientApp that trains with a function of yours, in any framework.

    Args:
        train: (arrays, config, context) to (arrays after local work, metrics). The config holds the step length `lr`,
            which the strategy may scale, and `seed`, 32 bits per client and round. Of the metrics, `loss` is the mean
            loss during local work, `reach` the number of steps of plain SGD, `num-examples` the samples used; all are
            optional, others are passed on.
        loss: (arrays, config, context) to the loss of a model without training, for strategies that probe.
        evaluate: (arrays, config, context) to metrics of a model on the client's own data.
        size: number of samples on this client, for `target="size"`.
        uploads: transform of an update before it is sent, from `turnout.uploads`; if not given, the model is sent.
        state: file for the memory of `uploads`, and of what was sent to a strategy with its memory on the clients; or
            a function of the context that names it, where several clients share a machine; if not given, the memory is
            lost when the node restarts.

    """
    _check_functions(train=train, loss=loss, evaluate=evaluate, size=size)
    _check_uploads(uploads)
    _check_place(state)
    app = ClientApp()

    @app.train()
    def work(message: Message, context: Context) -> Message:
        trained, metrics = train(*_read_order(message), context)
        return _reply(message, metrics, {wire.ARRAYS: wire.to_record(trained)})

    if evaluate is not None:

        @app.evaluate()
        def measure(message: Message, context: Context) -> Message:
            return _reply(message, evaluate(*_read_order(message), context))

    return _Greeted(app, size=size, loss=loss, uploads=uploads, state=state)


def _check_uploads(uploads: object) -> None:
    if uploads is None:
        return
    from turnout.uploads import Upload  # imports jax

    if not isinstance(uploads, Upload):
        raise TypeError(f"uploads must be a transform such as Clip(1.0), not an object of {type(uploads).__name__}")


def _make_sender(uploads: Upload | None, state: Place | None) -> Sender:
    from turnout.flower.sender import Sender  # imports jax, which a client that sends models does not need

    return Sender(uploads, state)


def _read_reach(reach: Reach, metrics: Mapping[str, Any]) -> float:
    if isinstance(reach, str):
        if reach not in metrics:
            raise ValueError(f"reach is the metric {reach!r}, but training reports only {sorted(metrics)}")
        return float(metrics[reach])
    return float(reach(metrics) if callable(reach) else reach)


def _distance(trained: Mapping[str, np.ndarray], start: Arrays) -> float:
    """Distance between the model before and after training."""
    floats = {name: array for name, array in trained.items() if name in start and array.dtype.kind == "f"}
    return length({name: array.astype(np.float32) - start[name].astype(np.float32) for name, array in floats.items()})


def _read_order(message: Message) -> tuple[Arrays, Settings]:
    record: ArrayRecord = next(iter(message.content.array_records.values()))
    return wire.to_numpy(record), wire.config_in(message)


def _reply(message: Message, metrics: Mapping[str, Any], records: Mapping[str, Any] | None = None) -> Message:
    """A reply with metrics as plain numbers and their round, and with other records."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in metrics.items()}
    metric_record = MetricRecord(plain | {OWN_ROUND: wire.config_in(message)[wire.ROUND]})
    return Message(RecordDict({**(records or {}), wire.METRICS: metric_record}), reply_to=message)
