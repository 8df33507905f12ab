"""The client's part of a secure round: it answers the questions about keys, and sends its update under masks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict

from turnout.files.whole import durable_file
from turnout.flower.leaving import has_left
from turnout.flower.secure import packing, vectors, words
from turnout.flower.secure.party import Keys, Party
from turnout.flower.secure.rules import RefusedError, Rules
from turnout.flower.wire import messages as wire
from turnout.flower.wire.client_metrics import OWN_ROUND

if TYPE_CHECKING:
    from turnout.flower.memory import Place

log = logging.getLogger("turnout.flower")

PARTY, SPENT = "turnout.party", "turnout.spent"  # in the node's own state


class AskedSum(NamedTuple):
    """What an order says of the sum that the update is for."""

    party: Party
    boxes: dict[int, bytes]
    entries: int
    quantum: float
    most: float
    metrics: list[str]
    weight: float | str | None  # by which the update is multiplied, or the metric that says so; None: as it says itself


class SecureNode:
    """Keeps the secrets of one round, and the last round in whose sum it has helped, in every run."""

    def __init__(self, rules: Rules, place: Place | None) -> None:
        self.rules, self._place = rules, place
        self.answers: dict[str, Callable[[Message, Context], Message]] = {
            words.KEYS: self._keys,
            words.SHARES: self._shares,
            words.UNMASK: self._unmask,
        }

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise a ValueError for a server that would see this client's update."""
        if not config.get(words.WANTED):
            raise ValueError("this client takes part in secure sums only: FlowerStrategy(…, secure=SecureSums())")

    def asked(self, message: Message, context: Context) -> AskedSum:
        """What an order says of the sum, which is taken out of the message; refused where it says nothing."""
        record: Any = message.content.config_records.get(words.SUM)
        if record is None:
            raise RefusedError("this client sends its update under masks only, but the order is for no secure sum")
        del message.content[words.SUM]
        party = self._recall(record, context)
        boxes = packing.to_rows(record[words.BOXES], words.BOX_BYTES)
        upload = (int(record[words.ENTRIES]), float(record[words.QUANTUM]), float(record[words.MOST]))
        metrics = [name for name in str(record[words.METRICS]).split("\n") if name]
        return AskedSum(party, boxes, *upload, metrics, record.get(wire.WEIGHT))

    def mask(self, asked: AskedSum, message: Message, reply: Message, context: Context) -> Message:
        """The reply with nothing in it but the update under masks."""
        if reply.has_error() or not reply.has_content():
            return reply
        content = reply.content
        if words.VALUES not in content.array_records:
            raise RefusedError("there is no update of this client to be put under masks")
        metrics = wire.metrics_in(content)
        update = wire.to_numpy(content.array_records[words.VALUES])["values"]
        told = wire.to_numpy(content.array_records[words.NUMBERS])["numbers"].astype(np.float64)
        weight = told[-1]
        for name in asked.metrics:
            value = metrics.get(name)
            usable = isinstance(value, int | float) and bool(np.isfinite(value))
            told = np.append(told, (weight * value, weight) if usable and value is not None else (0.0, 0.0))
        if len(update) != asked.entries:
            raise RefusedError(f"the update has {len(update)} entries, but the sum {asked.entries}")
        masked = asked.party.masked(asked.boxes, vectors.to_whole(update, told.tolist(), asked.quantum))
        self._keep(asked.party, context)
        own = MetricRecord({OWN_ROUND: wire.config_in(message)[wire.ROUND]})
        return Message(RecordDict({words.MASKED: wire.to_record({"sum": masked}), wire.METRICS: own}), reply_to=message)

    def _keys(self, message: Message, context: Context) -> Message:
        record: Any = message.content.config_records[words.SUM]
        leaves = has_left(context)
        if leaves and not int(record[wire.ACKNOWLEDGED]):
            return _answer(message, {words.LEAVING: True})  # it has no word that it could take back
        t, spent = int(record[words.ROUND]), self._spent(str(record[words.RUN]), context)
        if t <= spent:
            raise RefusedError(f"round {t} was summed up before: a second sum with one client fewer would show it")
        if self._has_forgotten(record, context):
            return _answer(message, {words.LEAVING if leaves else words.FORGOTTEN: True})
        party = Party(context.node_id, words.tag_of(str(record[words.RUN]), t), self.rules)
        keys = party.keys()
        self._keep(party, context)
        return _answer(message, {words.TOLD: b"".join(keys), words.LEAVING: leaves})

    def _shares(self, message: Message, context: Context) -> Message:
        record: Any = message.content.config_records[words.SUM]
        party = self._recall(record, context)
        rows = packing.to_rows(record[words.GROUP], sum(words.KEY_LENGTHS))
        group = {name: Keys(*packing.cut(row, words.KEY_LENGTHS)) for name, row in rows.items()}
        boxes = party.shares(group, int(record[words.THRESHOLD]))
        self._keep(party, context)
        return _answer(message, {words.BOXES: packing.rows(boxes)})

    def _unmask(self, message: Message, context: Context) -> Message:
        record: Any = message.content.config_records[words.SUM]
        party = self._recall(record, context)
        del context.state[PARTY]  # first: it is answered once, whatever happens
        arrived, gone = (packing.to_rows(record[name], 0).keys() for name in (words.ARRIVED, words.GONE))
        shares = party.unmask(arrived, gone)
        self._spend(str(record[words.RUN]), int(record[words.ROUND]), context)
        return _answer(message, {words.TOLD: packing.rows(shares)})

    def _recall(self, record: Mapping[str, Any], context: Context) -> Party:
        kept: Any = context.state.config_records.get(PARTY)
        if kept is None:
            raise RefusedError("nothing is kept of this sum: it is over, or the node has started again")
        party = Party.from_bytes(kept, self.rules)
        if party.tag != words.tag_of(str(record[words.RUN]), int(record[words.ROUND])):
            raise RefusedError("what is kept is of another round")
        return party

    def _keep(self, party: Party, context: Context) -> None:
        context.state[PARTY] = ConfigRecord(dict(party.to_bytes()))

    def _has_forgotten(self, record: Mapping[str, Any], context: Context) -> bool:
        """Whether what this client has sent before is lost: then it must not be in the sum."""
        from turnout.flower.memory import Memory

        wanted = int(record[wire.ACKNOWLEDGED])
        return bool(wanted) and wanted not in Memory(self._place).rounds(str(record[words.RUN]), context)

    def _spent(self, run: str, context: Context) -> int:
        """The last round of this run in whose sum this client has helped."""
        path = self._path(context)
        if path is None:
            record: Any = context.state.config_records.get(SPENT, ConfigRecord())
            return int(record.get(run, 0))
        lines = path.read_text().splitlines() if path.exists() else []
        return max((int(t) for t, _, name in (line.partition(" ") for line in lines) if name == run), default=0)

    def _spend(self, run: str, t: int, context: Context) -> None:
        """Remember the round, on the disk when this returns, and so before the answer is sent."""
        path = self._path(context)
        if path is None:
            record: Any = context.state.config_records.get(SPENT, ConfigRecord())
            context.state[SPENT] = ConfigRecord({**record, run: t})
            return
        lines = path.read_text().splitlines() if path.exists() else []
        others = [line for line in lines if line.partition(" ")[2] != run]
        with durable_file(path) as file:
            file.write("".join(f"{line}\n" for line in [*others, f"{t} {run}"]).encode())

    def _path(self, context: Context) -> Any:
        from turnout.flower.memory import Memory

        path = Memory(self._place).path(context)
        return None if path is None else path.with_name(f"{path.name}.spent")


def _answer(message: Message, values: dict[str, Any]) -> Message:
    return Message(RecordDict({words.SUM: ConfigRecord(values)}), reply_to=message)
