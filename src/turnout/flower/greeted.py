"""A ClientApp that answers the server's questions, and does what its strategy wants around the app's own work."""
# Long: it answers every kind of message, those about secure sums included.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from turnout.flower.leaving import has_left
from turnout.flower.secure.words import NUMBERS, VALUES, WANTED
from turnout.flower.steering import steering
from turnout.flower.wire import messages as wire
from turnout.flower.wire.client_metrics import OWN_BASE, OWN_NORM, OWN_ROUND, length
from turnout.flower.wire.layout import Arrays
from turnout.flower.wire.side_names import KNOWN_SIDES, SIDE, SIDES, check_side_known
from turnout.metrics import TEST_LOSS, is_loss

if TYPE_CHECKING:
    from turnout.flower.memory import Place
    from turnout.flower.secure.node import AskedSum, SecureNode
    from turnout.flower.secure.rules import Rules
    from turnout.flower.sender import Begun, Sender, Sending
    from turnout.strategies.client_side import ClientSide
    from turnout.uploads import Upload

KEPT, KEPT_IN = "turnout.update ", "turnout.kept-in"  # in the node's own state, between training and upload
OWN_SIZE = "turnout.size"  # in the node's own state: the samples that its app has last reported
LOSSES = ("loss", "eval_loss", "eval-loss", TEST_LOSS, "test-loss", "val_loss", "val-loss")  # as apps call it

Settings = dict[str, Any]
Loss = Callable[[Arrays, Settings, Context], float]
Size = Callable[[Context], int]
Name = Callable[[Context], str | int]
Reach = float | str | Callable[[Mapping[str, Any]], float]


class Greeted(ClientApp):
    """Answers greetings, probes and requests for kept updates; everything else is the other app's.

    What that app has trained is sent as it is, or as an update: if it is to be transformed, or if the server's strategy
    wants the client to remember what it has sent.
    """

    def __init__(  # noqa: PLR0913 (what a user gives, most by name)
        self,
        app: ClientApp,
        *,
        name: Name | None = None,
        size: Size | None = None,
        loss: Loss | None = None,
        reach: Reach | None = None,
        uploads: Upload | None = None,
        state: Place | None = None,
        side: type[ClientSide] | None = None,
        secure: Rules | None = None,
    ) -> None:
        super().__init__()
        self._app, self._name, self._size, self._loss, self._reach = app, name, size, loss, reach
        self._uploads, self._place = uploads, state
        self._sides = () if side is None else (_checked_side(side),)
        self._sender: Sender | None = None
        self._asked: AskedSum | None = None  # what the order of now says of a secure sum
        # Functions may be registered before or after: both end up with the app inside.
        self.train, self.evaluate, self.query, self.lifespan = app.train, app.evaluate, app.query, app.lifespan
        self._answers = {wire.HELLO: self._hello, wire.PROBE: self._probe, wire.UPLOAD: self._upload}
        self._secure = None if secure is None else _secure_node(secure, state, uploads)
        if self._secure is not None:
            self._answers = {wire.HELLO: self._hello, **self._secure.answers}

    def __call__(self, message: Message, context: Context) -> Message:
        kind = message.metadata.message_type
        if kind in self._answers:
            return self._answers[kind](message, context)
        if kind != MessageType.TRAIN:
            return self._app(message, context)
        if self._secure is None:
            return self._train(message, context)
        self._asked = asked = self._secure.asked(message, context)
        self._put_in_fixed_points(asked.quantum, asked.most)
        reply = self._leave_sum(message, context) if has_left(context) else self._train(message, context)
        return self._secure.mask(asked, message, reply, context)

    def _leave_sum(self, message: Message, context: Context) -> Message:
        """The goodbye of a client whose word is in a sum under masks."""
        start, config = read_order(message)
        said = self._with_jax().goodbye_in_sum(start, config, context)
        if said is None:
            raise ValueError("this client has no word in the sum of the server")
        return Message(self._for_sum(said, 1.0), reply_to=message)

    def _for_sum(self, sent: Sending, counts: float) -> RecordDict:
        """An answer that is still to be put under masks."""
        numbers = np.array([counts], np.float32) if sent.numbers is None else sent.numbers
        assert sent.whole is not None  # of what is packed here
        return RecordDict(
            {VALUES: wire.to_record({"values": sent.whole}), NUMBERS: wire.to_record({"numbers": numbers})}
        )

    def _put_in_fixed_points(self, quantum: float, most: float) -> None:
        from turnout.flower.sender import Sender
        from turnout.uploads.fixed_point import FixedPoint

        upload = FixedPoint(quantum, most)
        if self._sender is None or upload != self._uploads:
            self._uploads, self._sender = upload, Sender(upload, self._place, self._sides)

    def _train(self, message: Message, context: Context) -> Message:
        check_side_known(wire.config_in(message), self._own_sides)
        if has_left(context):
            return self._say_goodbye(message, context)
        begun = self._begin(message, context)
        with steering(None if begun is None else begun.steer):
            reply = self._app(message, context)
        if has_left(context):
            return self._say_goodbye(message, context)
        return self._complete(message, reply, context, begun)

    @property
    def _own_sides(self) -> list[str]:
        return [side.__name__ for side in self._sides]

    def _begin(self, message: Message, context: Context) -> Begun | None:
        """What comes before the training: None if that alone is the work. The app sees one record, the model."""
        record, config = message.content.array_records.get(wire.SHARED), wire.config_in(message)
        if record is not None:
            del message.content[wire.SHARED]
        if self._uploads is None and SIDE not in config:
            return None
        shared = None if record is None else wire.to_numpy(record)
        return self._with_jax().begin(read_order(message)[0], shared, config, context)

    def _with_jax(self) -> Sender:
        """What packs answers; it imports jax, which a client that sends models does not need."""
        if self._sender is None:
            from turnout.flower.sender import Sender

            self._sender = Sender(self._uploads, self._place, self._sides)
        return self._sender

    def _hello(self, message: Message, context: Context) -> Message:
        """Who this is; what is wrong is told, for an error would look like an app that knows no greetings."""
        config, counts = wire.config_in(message), MetricRecord()
        who = ConfigRecord({SIDES: [*KNOWN_SIDES, *self._own_sides]})
        try:
            check_side_known(config, self._own_sides)
            if self._secure is not None:
                self._secure.check(config)
            elif config.get(WANTED):
                raise ValueError(
                    "the server sees sums only, but this app sends its updates as they are: take "
                    "app = greet(app, secure=Rules())"
                )
            elif self._uploads is not None:
                self._with_jax().check(config)
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
            arrays, config = read_order(message)
            return reply_with(message, {"loss": self._loss(arrays, config, context)})
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
        return reply_with(message, {"loss": metrics[own]})

    def _complete(self, message: Message, reply: Message, context: Context, begun: Begun | None) -> Message:
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
        if begun is not None and wire.COMPACT not in content.array_records:
            self._send_answer(message, content, own, context, begun)
        if config.get(wire.KEEP):
            records = wire.array_records_in(content)
            if OWN_NORM not in own:
                own[OWN_NORM] = _distance(wire.to_numpy(next(iter(records.values()))), read_order(message)[0])
            for key, record in records.items():
                context.state[f"{KEPT}{key}"] = record
                del content[key]
            context.state[KEPT_IN] = ConfigRecord({wire.ROUND: config[wire.ROUND], "records": list(records)})
        return reply

    def _send_answer(
        self, message: Message, content: RecordDict, own: MetricRecord, context: Context, begun: Begun
    ) -> None:
        """Replace the trained model by what is to be sent."""
        key, record = next(iter(content.array_records.items()))
        start, config = read_order(message)  # read again, since a model may be trained in place
        reach: Any = own.get("reach", 1.0 if begun.steer is None else begun.steer.calls or 1.0)
        usable = float(reach) if np.isfinite(reach) and reach >= 0 else 1.0  # as the server takes it
        if begun.steer is not None:
            usable = own["reach"] = begun.steer.reach(usable, config["lr"] / (config.get("step-scale") or 1.0))
        told = config.get(wire.WEIGHT, 1.0) if self._asked is None else self._asked.weight or config.get(wire.WEIGHT)
        counts = _importance(told, wire.metrics_in(content))
        sent = self._with_jax().pack(begun, wire.to_numpy(record), start, config, context, usable, counts)
        del content[key]
        if self._asked is not None and sent.whole is not None:
            if SIDE in config and sent.based_on != config[wire.ACKNOWLEDGED]:
                raise ValueError("what this client has sent before is lost: it is left out of this sum")
            content.update(self._for_sum(sent, counts))
            return
        content[wire.COMPACT] = wire.to_record(sent.parts)
        if sent.numbers is not None:
            content[wire.NUMBERS] = wire.to_record({"numbers": sent.numbers})
        if sent.second is not None:
            content[wire.SECOND] = wire.to_record(sent.second)
        if config.get(wire.KEEP):
            own[OWN_NORM] = sent.length
        if SIDE in config:
            own[OWN_BASE] = sent.based_on

    def _say_goodbye(self, message: Message, context: Context) -> Message:
        """The answer of a client that leaves for good; the memory stays, since the answer may be lost."""
        content, (start, config) = RecordDict(), read_order(message)
        own = content[wire.METRICS] = MetricRecord({OWN_ROUND: config[wire.ROUND], wire.LEAVING: 1})
        said = self._with_jax().goodbye(start, config, context) if SIDE in config else None
        if said is not None:
            content[wire.COMPACT], own[OWN_BASE] = wire.to_record(said.parts), said.based_on
            if said.numbers is not None:
                content[wire.NUMBERS] = wire.to_record({"numbers": said.numbers})
        return Message(content, reply_to=message)

    def _upload(self, message: Message, context: Context) -> Message:
        wanted = wire.config_in(message)[wire.ROUND]
        kept = context.state.config_records.get(KEPT_IN, ConfigRecord())
        if kept.get(wire.ROUND) != wanted:
            raise ValueError(f"no update of round {wanted} is kept here: a node that restarts loses its update")
        del context.state[KEPT_IN]
        names: Any = kept["records"]
        records: Any = {name: context.state.pop(f"{KEPT}{name}") for name in names}
        return Message(RecordDict(records), reply_to=message)


def _secure_node(rules: Rules, place: Place | None, uploads: Upload | None) -> SecureNode:
    from turnout.flower.secure.node import SecureNode  # needs cryptography
    from turnout.flower.secure.rules import Rules as Kind

    if not isinstance(rules, Kind):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"secure must be Rules, not an object of {type(rules).__name__}")
    if uploads is not None:
        raise ValueError("uploads cannot be used with secure: what is summed up is in fixed points already")
    return SecureNode(rules, place)


def _checked_side(side: Any) -> type[ClientSide]:
    from turnout.strategies.client_side import ClientSide

    if isinstance(side, type) and issubclass(side, ClientSide):
        return side
    raise TypeError(f"side must be a class derived from ClientSide, not {side!r:.80}: an order has the numbers of it")


def _importance(told: Any, metrics: Mapping[str, Any]) -> float:
    """α of this client: as the order tells it, or by a metric that its app reports, such as the samples used."""
    if not isinstance(told, str):
        return float(told)
    value = metrics.get(told)
    return float(value) if isinstance(value, int | float) and 0 < value < np.inf else 1.0


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


def read_order(message: Message) -> tuple[Arrays, Settings]:
    record: ArrayRecord = next(iter(message.content.array_records.values()))
    return wire.to_numpy(record), wire.config_in(message)


def reply_with(message: Message, metrics: Mapping[str, Any], records: Mapping[str, Any] | None = None) -> Message:
    """A reply with metrics as plain numbers and their round, and with other records."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in metrics.items()}
    metric_record = MetricRecord(plain | {OWN_ROUND: wire.config_in(message)[wire.ROUND]})
    return Message(RecordDict({**(records or {}), wire.METRICS: metric_record}), reply_to=message)
