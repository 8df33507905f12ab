"""Settings of a training on real nodes, in groups: how long to wait, who is a client, what to write and to believe."""

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from turnout.declarations import Numbers, check_fields
from turnout.errors import nearest

Seconds = Annotated[float, Numbers(infinite=True)]  # for ever is allowed
Bound = Annotated[float, Numbers(infinite=True)]
Target = Literal["uniform", "size", "examples"] | Mapping[str, float] | Callable[[str], float]
Identity = Literal["declared", "key", "node"]
Standing = Literal["unknown", "available"]
AtEnd = Literal["give up", "wait"]
Robust = Literal["median", "trimmed", "geometric"]


class Clock:
    """Real time; tests have a clock of their own."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970, as messages are stamped; they may jump."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Waiting:
    """How long the server waits for clients and for the SuperLink, in seconds.

    The time for training and for evaluation is the `timeout` of `start`.
    """

    greeting: Seconds = 30.0  # for new nodes to say who they are, if no other client is there
    probe: Seconds = 60.0  # for losses, if the strategy asks for them before it selects
    poll: Seconds = 1.0  # between two checks for replies
    patience: Seconds = 600.0  # of calls to the SuperLink that fail: so long they are repeated, then the round goes on
    at_end: AtEnd = "give up"  # what becomes of orders under way after the last step of a server that does not wait
    clock: Clock = field(default_factory=Clock)  # gives the time, and sleeps

    def __post_init__(self) -> None:
        check_fields(self)
        _check_choice("at_end", self.at_end, AtEnd)
        if not self.poll > 0:
            raise ValueError(f"poll of Waiting must be above 0 seconds, not {self.poll}")
        for name in ("greeting", "probe", "patience"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} of Waiting must be 0 seconds or more, not {getattr(self, name)}")


@dataclass(frozen=True)
class Members:
    """Who is a client: how it is recognised after a restart, when it leaves, and what being listed means.

    A client is recognised by the `client-id` that it declares (on trust), by its authenticated key (only for a
    SuperLink that authenticates its SuperNodes), or only by its present node. If `retire_after` is not given, a client
    with a name never leaves, and a node without one leaves after a day, or at once if the strategy remembers a model
    per client: the model of a node under its former number would count twice.
    """

    identity: Identity = "declared"
    retire_after: Seconds | None = None  # seconds after which a client that is not listed any more leaves for good
    listed: Standing = "unknown"  # what a listed client counts as that was not asked: its node may not be running

    def __post_init__(self) -> None:
        check_fields(self)
        _check_choice("identity", self.identity, Identity)
        _check_choice("listed", self.listed, Standing)
        if self.retire_after is not None and not self.retire_after >= 0:
            raise ValueError(f"retire_after must be 0 seconds or more, not {self.retire_after}")


@dataclass(frozen=True)
class Files:
    """What is written: a checkpoint to go on from, and records to read."""

    checkpoint: str | Path | None = None  # file from which a restarted server continues
    record: str | Path | None = None  # run folder, like that of `turnout run`, for `turnout report` and `diagnose`
    participation: str | Path | None = None  # CSV file of who was available, asked and arrived; `record` has one too
    every: int = 1  # rounds between two writes of checkpoint and record; a crash loses the rounds since the last

    def __post_init__(self) -> None:
        check_fields(self)
        if self.every < 1:
            raise ValueError(f"every of Files must be 1 or more rounds, not {self.every}")


@dataclass(frozen=True)
class Limits:
    """Bounds that a reply must satisfy, besides its form."""

    norm: Bound | None = None  # longest update, ‖Δ‖
    second: Bound | None = None  # longest second vector, where clients send one
    loss: Bound = 1e12  # largest absolute value of a loss
    reach: Bound = 1e9  # most local work

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("norm", "second", "loss", "reach"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"the limit of {name} must be above 0, not {value}")


@dataclass(frozen=True)
class Guard:
    """What protects the model from clients that lie; every part can be turned off.

    A bound is a factor times an upper quartile over the clients. Each client counts once, by the median of what it sent
    in the last `window` rounds. If the upper quartile of the present round alone is larger, that one is taken. So one
    client of three cannot move a bound, nor can two of eight. No bound holds before three clients have replied.
    """

    clip: Bound | None = 4.0  # longest update, per step length; it is halved for each round in a row that exceeds it
    reach: Bound | None = 10.0  # furthest claim of local work, in either direction, that is believed
    size: Bound | None = 4.0  # largest number of samples that is believed
    window: Annotated[int, Numbers(high=10_000)] = 10  # rounds
    rollback: bool | None = None  # to the last good model; None: unless its copy has one model per client
    robust: Robust | None = None  # centre that stands for every update of a round, in place of the updates themselves
    strikes: int | None = 3  # dropped replies in a row after which a client rests; not where everyone is asked anyway
    rest: int = 10  # rounds for which it is not asked

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("clip", "reach", "size"):
            if (factor := getattr(self, name)) is not None and not factor >= 1:
                raise ValueError(f"{name} of a guard must be a factor of 1 or more, or None, not {factor}")
        for name in ("window", "strikes", "rest"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise ValueError(f"{name} of a guard must be 1 or more, not {count}")
        if self.robust is not None:
            _check_choice("robust", self.robust, Robust, " or None")


GUARDED = Guard()
UNGUARDED = Guard(clip=None, reach=None, size=None, rollback=False, strikes=None)

# Former arguments of FlowerStrategy that have another name in their group.
_RENAMED = {
    "greeting_timeout": ("waiting", Waiting, "greeting"),
    "probe_timeout": ("waiting", Waiting, "probe"),
    "checkpoint_every": ("files", Files, "every"),
}


def refuse_unknown(given: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise a TypeError for arguments that `FlowerStrategy`, made by a function, does not have.

    It names the group of settings that has them, or the nearest argument.
    """
    known = [name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY]
    grouped = {
        one.name: (argument, group, one.name)
        for argument, group in (("waiting", Waiting), ("members", Members), ("files", Files))
        for one in fields(group)
    }
    for name in given:
        if (place := (grouped | _RENAMED).get(name)) is not None:
            argument, group, now = place
            raise TypeError(f"FlowerStrategy has no argument {name!r}: give {argument}={group.__name__}({now}=…)")
        raise TypeError(f"FlowerStrategy has no argument {name!r}: {nearest(name, known)}")


def _check_choice(name: str, value: object, choices: Any, more: str = "") -> None:
    if value not in get_args(choices):
        names = ", ".join(repr(choice) for choice in get_args(choices))
        raise ValueError(f"{name} must be one of {names}{more}, not {value!r}")
