"""How a metric is shown: its title, its unit, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnout.report.run.compared import Points


@dataclass(frozen=True)
class Metric:
    """One number about a model."""

    name: str
    title: str
    percent: bool = False
    higher_is_better: bool = False

    @property
    def factor(self) -> float:
        return 100.0 if self.percent else 1.0

    @property
    def axis_title(self) -> str:
        return f"{self.title} (%)" if self.percent else self.title

    def number(self, value: float, signed: bool = False) -> str:
        """A value with as many digits as mean something."""
        sign = "+" if signed else ""
        return f"{value * self.factor:{sign}.1f}" if self.percent else f"{value:{sign}.3g}"

    def spread(self, values: np.ndarray, signed: bool = False) -> str:
        """Mean ± standard deviation over the seeds."""
        mean = self.number(float(values.mean()), signed)
        if values.size < 2:
            return mean
        deviation = float(values.std(ddof=1))
        return f"{mean} ± {self.number(deviation) if self.percent else f'{deviation:.2g}'}"


METRICS = (
    Metric("test_accuracy", "Test accuracy", percent=True, higher_is_better=True),
    Metric("worst_decile_accuracy", "Worst tenth of clients", percent=True, higher_is_better=True),
    Metric("distance", "Distance to the optimum"),
    Metric("test_loss", "Test loss"),
    Metric("train_loss", "Training loss"),
)


def metric_named(name: str) -> Metric:
    """A metric by its name; of those that are not in the list, accuracies are in percent."""
    for metric in METRICS:
        if metric.name == name:
            return metric
    good = name.endswith("accuracy")
    return Metric(name, name.replace("_", " ").capitalize(), percent=good, higher_is_better=good)


def shown_metrics(run: Points) -> list[Metric]:
    """The metrics of a run that are worth a column, the most telling first; all points have them."""
    known = set.intersection(*(set(point.history.metrics) for point in run.points))
    found = [metric for metric in METRICS if metric.name in known]
    found = [metric for metric in found if not (metric.name == "test_loss" and "test_accuracy" in known)]
    return found or [metric_named(name) for name in sorted(known)]


def headline(run: Points) -> Metric:
    """The one metric by which strategies are compared."""
    return shown_metrics(run)[0]
