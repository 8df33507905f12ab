"""Records of Flower's messages to numpy and back; replies are read without raising, whatever was sent."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict

from turnout.flower.wire.client_metrics import Dropped
from turnout.flower.wire.layout import HEADER, Arrays, Layout, pack, unpack
from turnout.flower.wire.side_names import SIDES
from turnout.metrics import TRAIN_LOSS

HELLO = "query.hello"  # who are you, and how much data have you?
PROBE = "query.probe"  # the loss of this model on your data, without training
UPLOAD = "query.upload"  # the update of this round, which you have kept
ARRAYS, CONFIG, METRICS, IDENTITY = "arrays", "config", "metrics", "identity"
COMPACT = "turnout.upload"  # record of an update in few bytes, in place of a model
NUMBERS = "turnout.numbers"  # record of the numbers beside the vector of an answer, one array of that name
SECOND = "turnout.second"  # record of the second vector of an answer, in the same form
CLIENT_ID = "client-id"
PROBLEM = "problem"  # in the answer to a greeting: why the client cannot take part
ROUND = "server-round"
SIZE = "size"  # in the config of a greeting: whether to report the size of the data
KEEP = "keep-update"  # in the config: report the length of the update, and keep it until it is asked for
# In the config, for the transform of an update before its upload. Rounds count from 1.
UPLOAD_SEED = "upload-seed"
RUN_ID = "run-id"
ACKNOWLEDGED = "acknowledged-round"  # the last in which an update of this client arrived, 0 before the first
DURABLE = "durable-round"  # the last that a restarted server will remember
WEIGHT = "turnout.weight"  # in the config: α of the client, or the name of the metric by which it counts itself
LEAVING = "turnout.leaving"  # in the metrics of an answer to an order: the client leaves for good
SHARED = "turnout.shared"  # what all clients are sent besides the model: a number in the config, or a record of arrays


def to_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    rows = {name: np.asarray(array) for name, array in arrays.items()}
    return ArrayRecord(
        {name: Array(str(row.dtype), row.shape, "numpy.ndarray", pack(row)) for name, row in rows.items()}
    )


def to_numpy(record: ArrayRecord) -> Arrays:
    """The arrays of a trusted record, such as the first model; raises what numpy raises."""
    return {name: array.numpy() for name, array in record.items()}


def is_of_link(reply: Message, node: int) -> bool:
    """Whether an error was reported by the link, in place of a node that it cannot reach, rather than by the node."""
    return reply.has_error() and reply.metadata.src_node_id != node


def knows_no_greeting(reply: Message) -> bool:
    """Whether a node has failed because its app has no function for greetings, as apps have that are not ours."""
    reason = str(reply.error.reason)
    return "No query function registered" in reason or "Invalid message type" in reason


def error_in(message: Message) -> str:
    """The code and last line of an error, where a traceback has its reason."""
    lines = [line for line in str(message.error.reason).splitlines() if line.strip()]
    return f"error {message.error.code}: {lines[-1].strip() if lines else 'no reason given'}"[:300]


def arrays_in(records: Mapping[str, ArrayRecord], layout: Layout) -> Arrays | Dropped:
    """The model in the one record of a reply; nothing larger than the model in double precision is unpacked."""
    if len(records) != 1:
        return Dropped(f"it holds {len(records)} array records, not one")
    sizes = {name: int(np.prod(shape, dtype=np.int64)) for name, shape in layout.shapes.items()}
    return parts_in(
        next(iter(records.values())),
        {name: size * max(8, layout.dtypes[name].itemsize) for name, size in sizes.items()},
    )


def parts_in(record: ArrayRecord, most_bytes: Mapping[str, int]) -> Arrays | Dropped:
    """The arrays of a record by name; an array of more bytes than `most_bytes` is not unpacked."""
    if strange := [name for name in record if name not in most_bytes]:
        return Dropped(f"array {strange[0]!r:.80} is not part of the model")
    arrays = {}
    for name, array in record.items():
        room = most_bytes[name] + HEADER
        if len(array.data) > room:
            return Dropped(f"array {name!r} takes {len(array.data)} bytes, more than the model's {room}")
        try:
            arrays[name] = unpack(array.data) if array.stype == "numpy.ndarray" else array.numpy()
        except Exception as error:  # numpy may raise anything for bytes that it cannot read
            return Dropped(f"array {name!r} cannot be read: {type(error).__name__}: {error!s:.200}")
    return arrays


def config_in(message: Message) -> dict[str, Any]:
    """The config of a message to a client, whatever its record is called."""
    return {key: value for record in message.content.config_records.values() for key, value in record.items()}


def array_records_in(content: RecordDict) -> dict[str, ArrayRecord]:
    """The array records of a reply; `content.array_records` checks and copies them with each access."""
    return {name: record for name, record in content.items() if isinstance(record, ArrayRecord)}


def bytes_in(content: RecordDict) -> int:
    """Bytes of all arrays in a reply; the few numbers beside them are left out, as metrics are."""
    records = array_records_in(content)
    return sum(len(array.data) for key, record in records.items() if key != NUMBERS for array in record.values())


def metrics_in(content: RecordDict) -> dict[str, Any]:
    """All metrics of a reply by name; `train_loss`, as many apps call it, counts as `loss`."""
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    metrics = {name: value for record in records for name, value in record.items()}
    return metrics | ({"loss": metrics[TRAIN_LOSS]} if TRAIN_LOSS in metrics and "loss" not in metrics else {})


def users_own(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as the app of a client wrote them, without those that this library adds."""
    return {name: value for name, value in metrics.items() if not name.startswith("turnout.")}


def declared_in(content: RecordDict) -> object:
    """The name that a client declares, None if it declares none."""
    record = content.config_records.get(IDENTITY)
    return None if record is None else record.get(CLIENT_ID)


def problem_in(content: RecordDict) -> str | None:
    """Why a client cannot take part, as it says itself when it is greeted; None if nothing is wrong."""
    problem = content.config_records.get(IDENTITY, {}).get(PROBLEM)
    return None if problem is None else f"{problem!s:.300}"


def sides_in(content: RecordDict) -> tuple[str, ...]:
    """The client sides that a node knows, as it says itself when it is greeted; none if it is of an old version."""
    sides = content.config_records.get(IDENTITY, {}).get(SIDES)
    return tuple(side for side in sides if isinstance(side, str)) if isinstance(sides, list) else ()


def client_name(context: Context) -> str | None:
    """The name that a node's config gives its client, None if it gives none."""
    name = context.node_config.get(CLIENT_ID, context.node_config.get("partition-id"))
    return None if name is None else str(name)
