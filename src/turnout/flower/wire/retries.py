"""Retries: Flower's grid with calls that are repeated where they fail, and with our own polling interval."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from turnout.declarations import check_fields
from turnout.flower.settings import Clock, Waiting
from turnout.flower.wire.messages import bytes_in

log = logging.getLogger("turnout.flower")

Answer = TypeVar("Answer")

# Errors of the call itself, which no other try would mend. All others may come from the transport, whichever it is.
_OWN_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)
_WORTH_ANOTHER_TRY = {408, 425, 429}  # HTTP refusals that may pass
_BAD_REQUESTS = {"FAILED_PRECONDITION", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}  # codes of gRPC
_REFUSALS = _BAD_REQUESTS | {"PERMISSION_DENIED", "UNAUTHENTICATED"}
_LONGEST_PAUSE = 30.0  # seconds
_TOGETHER = 64  # replies that are fetched in one call
_IDLE = 3.0  # seconds between two looks at what else there is to do


@dataclass(frozen=True)
class Closing:
    """When a phase ends before all have answered: at a share of the answers, or some time after half of them.

    With `stretch`, it ends at this many times the seconds after which half of the clients had answered.
    """

    quorum: float = 1.0
    stretch: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.quorum <= 1:
            raise ValueError(f"quorum must be a share above 0 and at most 1, not {self.quorum}")
        if self.stretch is not None and not self.stretch >= 1:
            raise ValueError(f"stretch must be 1 or more times the median client's time, not {self.stretch}")

    def end(self, asked: int, answered: list[float]) -> float:
        """Seconds after which the phase is over, given when answers came; infinite while that is open."""
        enough, half = math.ceil(self.quorum * asked), math.ceil(asked / 2)
        if len(answered) >= enough:
            return answered[enough - 1]
        return self.stretch * answered[half - 1] if self.stretch and len(answered) >= half else math.inf


class PollingGrid(Grid):
    """Another grid whose replies are fetched at once, then every `interval` seconds, and a last time at the end.

    A call that fails in transport, such as while the SuperLink restarts, is repeated after pauses that double, for at
    most `patience` seconds. After that no node is listed, nothing was sent, or nothing arrived, and the round goes on.
    Errors other than transport failures, such as an invalid message, are raised.
    """

    def __init__(self, grid: Grid, waiting: Waiting | None = None) -> None:
        waiting = Waiting() if waiting is None else waiting
        self.inner = grid
        self.interval = waiting.poll
        self._patience = waiting.patience
        self.clock: Clock = waiting.clock
        self.meanwhile: Callable[[], None] = lambda: None  # called every few seconds while replies are waited for
        self.unanswered: set[str] = set()  # messages of the last call that were sent, and not answered before its end
        self._last_look = -math.inf

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return self.inner.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._patiently("list the nodes", lambda: list(self.inner.get_node_ids()), [])

    def get_nodes(self) -> Iterable[Any]:
        return self._patiently("list the nodes", lambda: list(self.inner.get_nodes()), [])

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Ids of the messages that were sent; a failed call may have sent some, so those keep their ids.

        A link that takes no more at once gets them one by one; if it refuses even one as too large, that is an error.
        The life of a message begins when it is sent: to write a thousand, or to wait for the link, may take longer.
        """
        sent = list(messages)
        if not sent:
            return []
        numbers = self._patiently("send messages", lambda: self._push(sent), None)
        if numbers == [] and len(sent) > 1:
            return [number for message in sent for number in self.push_messages([message])]
        if numbers == []:
            size = bytes_in(sent[0].content)
            raise ValueError(
                f"the SuperLink refuses a message with {size / 2**20:.1f} MB of arrays, most likely as too large: "
                "raise its limit, or that of the proxy before it"
            )
        return [number or message.metadata.message_id for number, message in zip(numbers or [], sent, strict=False)]

    def _push(self, sent: list[Message]) -> list[Any]:
        for message in sent:
            message.metadata.created_at = self.clock.wall()
        return list(self.inner.push_messages(sent))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies so far; none if the call fails, since it is repeated at the next poll anyway."""
        wanted = list(message_ids)
        return self._patiently("fetch replies", lambda: list(self.inner.pull_messages(wanted)), [], patience=0.0)

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
        closing: Closing | None = None,
        late: Iterable[str] = (),
        on_reply: Callable[[Message], None] | None = None,
    ) -> list[Message]:
        """Send messages, and collect the replies until all are there, the timeout is over, or `closing` says so.

        `late` are messages of earlier calls: their replies are taken if they come, but not waited for, unless there is
        nothing else to wait for. If `on_reply` is given, it gets each reply as it comes, and none is kept: a thousand
        models need not be in memory at once.
        """
        sent = list(messages)
        waiting = {number for number in self.push_messages(sent) if number}
        begun, asked, older = self.clock.now(), len(waiting), set(late)
        del messages, sent
        replies: list[Message] = []
        answered: list[float] = []  # seconds after which replies came
        while waiting or (older and not asked):
            now, known = self.clock.now() - begun, len(older)
            fresh = self.fetch(sorted(waiting | older), replies.append if on_reply is None else on_reply)
            answered += [now] * len(waiting & fresh)
            waiting, older = waiting - fresh, older - fresh
            end = min(math.inf if timeout is None else timeout, (closing or Closing()).end(max(asked, 1), answered))
            if now >= end or (not asked and len(older) < known):
                break
            if waiting or not asked:
                self.idle()
                self.clock.sleep(max(min(self.interval, end - (self.clock.now() - begun)), 0.0))
        self.unanswered = waiting
        return replies

    def fetch(self, numbers: Sequence[str], hand_on: Callable[[Message], None]) -> set[str]:
        """Fetch what is there for these messages, a few at a time, and hand it on; returns which were answered."""
        answered: set[str] = set()
        for first in range(0, len(numbers), _TOGETHER):
            wanted = set(numbers[first : first + _TOGETHER])
            fresh = [reply for reply in self.pull_messages(wanted) if reply.metadata.reply_to_message_id in wanted]
            answered |= {reply.metadata.reply_to_message_id for reply in fresh}
            while fresh:
                hand_on(fresh.pop(0))  # nothing else holds it then
        return answered

    def idle(self) -> None:
        """See to whatever else there is to do while replies are waited for."""
        if self.clock.now() - self._last_look >= min(_IDLE, 10 * self.interval):
            self._last_look = self.clock.now()
            self.meanwhile()

    def begin_round(self, t: int) -> None:
        """Note the round, counted from 1, that comes next; a grid of real nodes has nothing to do."""

    @property
    def takes_time(self) -> bool:
        """Whether it makes sense to wait for nodes that are away."""
        return True

    def lull(self, seconds: float) -> None:
        """Wait while no client is available: until the listed nodes change, but at most this many seconds."""
        if not self.takes_time:
            return
        before, end = set(self.get_node_ids()), self.clock.now() + seconds
        while (left := end - self.clock.now()) > 0 and set(self.get_node_ids()) == before:
            self.idle()
            self.clock.sleep(min(self.interval, left))

    def _patiently(
        self, what: str, call: Callable[[], Answer], otherwise: Answer, patience: float | None = None
    ) -> Answer:
        end, pause = self.clock.now() + (self._patience if patience is None else patience), self.interval
        while True:
            try:
                return call()
            except Exception as error:
                if not is_transport_failure(error):
                    raise
                shown = f"{type(error).__name__}: {error!s:.200}"
                left = end - self.clock.now()
                if left <= 0:
                    log.warning("could not %s: %s; continuing without", what, shown)
                    return otherwise
                log.warning("could not %s: %s; trying again in %.0f s", what, shown, min(pause, left))
                self.clock.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)


def is_transport_failure(error: Exception) -> bool:
    """Whether an error may be a failure of transport, rather than of the request."""
    return not isinstance(error, _OWN_FAULTS) and not _is_refusal(error)


def _is_refusal(error: Exception) -> bool:
    """Whether the link has refused for good: a stopped run, no permission, no such thing."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
    code = getattr(error, "code", None)
    return callable(code) and getattr(code(), "name", "") in _REFUSALS
