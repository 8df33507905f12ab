"""What is logged: every metric of a model, and every record of a round, with what it is called and means.

A new metric is an entry of METRICS, and the place that computes it, such as a task. Names that are not listed, such as
those of a task or an app of your own, are understood by how they begin and end. A new record is an entry of RECORDS,
and the place that counts it: `_record` in `simulator/loop.py`, on real nodes `flower/run/chronicle.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import numpy as np

SplitName = Literal["train", "validation", "test", "worst", "none"]

TRAIN_LOSS, TRAIN_ACCURACY = "train_loss", "train_accuracy"
VALIDATION_LOSS, VALIDATION_ACCURACY = "validation_loss", "validation_accuracy"
TEST_LOSS, TEST_ACCURACY = "test_loss", "test_accuracy"
WORST_DECILE = "worst_decile_accuracy"
DISTANCE = "distance"

_SHARES = ("accuracy",)  # endings of names of shares, shown in percent
_FALLING = ("loss", "distance", "error", "mse", "mae", "perplexity")  # endings of names of which less is better


@dataclass(frozen=True)
class Metric:
    """One number about a model."""

    name: str
    title: str
    split: SplitName = "none"  # the data that it is taken on; "worst": test data of the clients that fare worst
    percent: bool = False  # a share, shown in percent
    higher_is_better: bool = False
    log: bool = False  # drawn on a logarithmic axis
    in_report: bool = True  # shown in the report of every run that has it
    aliases: tuple[str, ...] = ()  # what apps on real nodes call it

    @property
    def factor(self) -> float:
        """From a value to the number that is shown."""
        return 100.0 if self.percent else 1.0

    @property
    def axis_title(self) -> str:
        """The title with the unit."""
        return f"{self.title} (%)" if self.percent else self.title

    @property
    def words(self) -> str:
        """The name as it stands in a sentence."""
        return self.name.replace("_", " ")

    @property
    def on_test_data(self) -> bool:
        """Whether it judges a model, and so must not choose one."""
        return self.split in ("test", "worst")

    def number(self, value: float, signed: bool = False) -> str:
        """A value with as many digits as mean something."""
        sign = "+" if signed else ""
        return f"{value * self.factor:{sign}.1f}" if self.percent else f"{value:{sign}.3g}"

    def spread(self, values: np.ndarray, signed: bool = False) -> str:
        """Mean ± standard deviation over the seeds."""
        values = values.astype("float64")  # a run and its folder then show the same digits
        mean = float(values.mean())
        if values.size < 2:
            return self.number(mean, signed)
        deviation = float(values.std(ddof=1))
        if self.percent:
            return f"{self.number(mean, signed)} ± {self.number(deviation)}"
        first, second = match_digits((mean, deviation), deviation)
        return f"{'+' if signed and mean >= 0 else ''}{first} ± {second}"

    def ends(self, low: float, high: float) -> str:
        """An interval of differences, with signs."""
        if self.percent:
            return f"{self.number(low, signed=True)} to {self.number(high, signed=True)}"
        return " to ".join(match_digits((low, high), (high - low) / 2, "+"))


def match_digits(values: Sequence[float], spread: float, sign: str = "") -> list[str]:
    """Numbers with the same decimals: two digits of their spread, but no more than five digits of the largest."""
    largest = max(map(abs, values))
    if not 0 < largest < math.inf or not all(map(math.isfinite, values)):
        return [f"{value:{sign}.3g}" for value in values]
    power = math.floor(math.log10(largest))
    last = power - 2 if spread <= 0 else max(power - 4, math.floor(math.log10(spread)) - 1)  # place of the last digit
    if -4 <= power < 6:
        return [f"{value:{sign}.{max(0, -last)}f}" for value in values]
    return [f"{value / 10.0**power:{sign}.{max(0, power - last)}f}e{power:+03d}" for value in values]


# The most telling first: reports compare strategies by the first that a run has.
METRICS = (
    Metric(
        TEST_ACCURACY,
        "Test accuracy",
        "test",
        percent=True,
        higher_is_better=True,
        aliases=("accuracy", "acc", "eval_acc", "eval_accuracy"),
    ),
    Metric(WORST_DECILE, "Worst tenth of clients", "worst", percent=True, higher_is_better=True),
    Metric(DISTANCE, "Distance to the optimum", log=True),
    Metric(TEST_LOSS, "Test loss", "test", aliases=("loss", "eval_loss")),
    Metric(TRAIN_LOSS, "Training loss", "train"),
    Metric(
        VALIDATION_ACCURACY, "Validation accuracy", "validation", percent=True, higher_is_better=True, in_report=False
    ),
    Metric(VALIDATION_LOSS, "Validation loss", "validation", in_report=False),
    Metric(TRAIN_ACCURACY, "Training accuracy", "train", percent=True, higher_is_better=True, in_report=False),
)
PER_CLIENT = tuple(metric.name for metric in METRICS if metric.split in ("train", "validation", "test"))

_BY_NAME = {metric.name: metric for metric in METRICS}
_ALIASES = {alias: metric.name for metric in METRICS for alias in metric.aliases}


def metric_named(name: str) -> Metric:
    """A metric by its name; one that is not listed is what its name says."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    split: SplitName = next((split for split in get_args(SplitName) if name.startswith(split)), "none")
    return Metric(
        name,
        spell_out(name),
        split,
        percent=name.endswith(_SHARES),
        higher_is_better=not name.endswith(_FALLING),
        in_report=False,
    )


def on_split(split: str, what: Literal["loss", "accuracy"]) -> str:
    """Name of the loss or accuracy on one split of the clients' data."""
    return f"{split}_{what}"


def is_loss(name: str) -> bool:
    """Whether a metric is some loss, by the end of its name."""
    return name.endswith("loss")


def usual_name(name: str) -> str:
    """The name here of what an app may call otherwise."""
    return _ALIASES.get(name, name)


def spell_out(name: str) -> str:
    """A name as the title of something that is not listed."""
    return name.replace("_", " ").capitalize()


@dataclass(frozen=True)
class Record:
    """One number about a round."""

    name: str
    title: str
    cost: bool = False  # adds up over the rounds: tables have its sum, curves can be drawn over it
    simulated: bool = True  # whether simulations have it; runs on real nodes have all but those of time
    counted: bool = True  # by the compiled loop, rather than from what it counts
    in_bytes: bool = False
    timed: bool = False  # only where work takes time

    def number(self, value: float | int) -> str:
        """A value as it is shown."""
        if not self.in_bytes:
            return f"{value:,.0f}"
        power = min(4, max(0, len(f"{value:.0f}") - 1) // 3)
        return f"{value / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


BYTES_UPLOADED = "bytes_uploaded"  # simulated: lost uploads included; on real nodes: what was received

RECORDS = (
    Record("available", "Available clients"),
    Record("cohort", "Clients asked to train"),
    Record("uploads", "Uploads", cost=True),
    Record(BYTES_UPLOADED, "Bytes uploaded", cost=True, counted=False, in_bytes=True),
    Record("arrived", "Uploads that arrived"),
    Record("weight_sum", "Sum of the weights"),
    Record("local_steps", "Local steps", cost=True),
    Record("server_steps", "Server steps", cost=True, timed=True),
    Record("used", "Updates used", timed=True),
    Record("at_work", "Clients at work", timed=True),
    Record("wasted_steps", "Wasted local steps", cost=True, timed=True),
    Record("seconds", "Seconds", cost=True, simulated=False),
    Record("dropped", "Dropped replies", simulated=False),
)
OF_NODES = tuple(record for record in RECORDS if not record.timed)  # what real nodes have
COSTS = tuple(record for record in RECORDS if record.cost and record.simulated)
OVERFLOW = "overflow"  # of a simulated round: clients without a slot; it must be 0, and is checked rather than kept


def record_named(name: str) -> Record:
    """A record by its name, also one that is not listed."""
    return next((record for record in RECORDS if record.name == name), Record(name, spell_out(name)))
