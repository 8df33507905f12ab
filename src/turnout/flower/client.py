"""The client's side: a Flower ClientApp around functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from turnout.flower.wire import messages as wire
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.replies import OWN_NORM, OWN_ROUND, length

if TYPE_CHECKING:
    from turnout.flower.node.sender import Sender
    from turnout.uploads import Upload

KEPT, KEPT_IN = "turnout.update", "turnout.kept-in"  # in the node's own state, between training and upload

Settings = dict[str, Any]
Train = Callable[[Arrays, Settings, Context], tuple[Mapping[str, np.ndarray], Mapping[str, float]]]
Loss = Callable[[Arrays, Settings, Context], float]
Evaluate = Callable[[Arrays, Settings, Context], Mapping[str, float]]
Size = Callable[[Context], int]


def client_app(
    *,
    train: Train,
    loss: Loss | None = None,
    evaluate: Evaluate | None = None,
    size: Size | None = None,
    uploads: Upload | None = None,
    state: str | Path | Callable[[Context], Path] | None = None,
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
        state: file for the memory of `uploads`, or a function of the context that names it, where several clients
            share a machine; if not given, the memory is lost when the node restarts.

    """
    app, sender = ClientApp(), _sender(uploads, state)
    record = wire.ARRAYS if sender is None else wire.COMPACT

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        if sender is not None:
            sender.check(message.content.config_records.get(wire.CONFIG, {}))
        counts: dict[str, Any] = {}
        if size is not None and _wants_size(message):
            counts["num-examples"] = int(size(context))
        name = wire.client_name(context)
        identity = ConfigRecord({} if name is None else {wire.CLIENT_ID: name})
        return Message(RecordDict({wire.METRICS: MetricRecord(counts), wire.IDENTITY: identity}), reply_to=message)

    @app.train()
    def work(message: Message, context: Context) -> Message:
        arrays, config = _received(message)
        if sender is not None:
            sender.check_order(config)
        trained, metrics = train(arrays, config, context)
        # The start is read again from the message, since a model may be trained in place.
        if sender is not None:
            sent, norm = sender.pack(trained, _received(message)[0], config, context)
        else:
            sent, norm = trained, _moved(trained, _received(message)[0]) if config.get(wire.KEEP) else 0.0
        if config.get(wire.KEEP):
            context.state[KEPT] = wire.to_record(sent)
            context.state[KEPT_IN] = ConfigRecord({wire.ROUND: config[wire.ROUND]})
            return _reply(message, {**metrics, OWN_NORM: norm})
        return _reply(message, metrics, {record: wire.to_record(sent)})

    @app.query("upload")
    def upload(message: Message, context: Context) -> Message:
        wanted = message.content.config_records[wire.CONFIG][wire.ROUND]
        if context.state.config_records.get(KEPT_IN, ConfigRecord()).get(wire.ROUND) != wanted:
            raise ValueError(f"no update of round {wanted} is kept here: a node that restarts loses its update")
        del context.state[KEPT_IN]
        return Message(RecordDict({record: context.state.pop(KEPT)}), reply_to=message)

    if loss is not None:

        @app.query("probe")
        def probe(message: Message, context: Context) -> Message:
            return _reply(message, {"loss": loss(*_received(message), context)})

    if evaluate is not None:

        @app.evaluate()
        def measure(message: Message, context: Context) -> Message:
            return _reply(message, evaluate(*_received(message), context))

    return app


def _sender(uploads: Upload | None, state: Any) -> Sender | None:
    if uploads is None:
        return None
    from turnout.flower.node.sender import Sender  # imports jax, which a client that sends models does not need

    return Sender(uploads, state)


def _wants_size(message: Message) -> bool:
    """Whether samples must be counted, for which they may have to be read: a client without its data can still join."""
    config = message.content.config_records.get(wire.CONFIG)
    return config is not None and bool(config.get(wire.SIZE))


def _moved(trained: Mapping[str, np.ndarray], start: Arrays) -> float:
    """Distance between the model before and after training."""
    floats = {name: array for name, array in trained.items() if name in start and array.dtype.kind == "f"}
    return length({name: array.astype(np.float32) - start[name].astype(np.float32) for name, array in floats.items()})


def _received(message: Message) -> tuple[Arrays, Settings]:
    content = message.content
    return wire.to_numpy(content.array_records[wire.ARRAYS]), dict(content.config_records[wire.CONFIG])


def _reply(message: Message, metrics: Mapping[str, Any], records: Mapping[str, Any] | None = None) -> Message:
    """A reply with metrics as plain numbers and their round, and with other records."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in metrics.items()}
    turn: Any = message.content.config_records[wire.CONFIG][wire.ROUND]
    metric_record = MetricRecord(plain | {OWN_ROUND: turn})
    return Message(RecordDict({**(records or {}), wire.METRICS: metric_record}), reply_to=message)
