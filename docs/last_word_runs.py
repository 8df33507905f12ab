"""Parts of pages on LastWord's own claims: its variants, networks, and nights."""

from collections.abc import Callable

import numpy as np
from tables import folder_of, points, size_of, table

from turnout.statistics import Interval
from turnout.workbench.reproduction.curve_table import CURVES, Measured, read_curves
from turnout.workbench.reproduction.measures import StrategyCurves, at, final, largest_fall, lost_between

MIDNIGHT = 300.0  # the last one of the claims, in rounds
LAST_DAY = 8  # evaluations of the claims in a day
SPELL = {"since": 150.0, "until": 250.0}  # rounds of the claims


def lead_of_variants(claim: str, last: int = 1) -> str:
    """The lead of every other strategy of a claim over LastWord, paired by seed: mean of the last evaluations."""
    measured = Measured(read_curves(folder_of(claim) / CURVES))
    panels = measured.panels
    labels = list(dict.fromkeys(label for panel in panels for label in measured.labels(panel) if label != "LastWord"))

    def cell(panel: str, label: str) -> str:
        if label not in measured.labels(panel):
            return points(None)
        ends = (final(StrategyCurves(measured, panel, one), "test_accuracy", last) for one in (label, "LastWord"))
        return points(Interval.of(100 * np.subtract(*ends)))

    rows = ([label, *(cell(panel, label) for panel in panels)] for label in labels)
    return table(("lead over LastWord", *panels), rows) + f"\n\n{size_of(claim)}."


def nights(claim: str) -> str:
    """Accuracy at the end of the night and over the last day, and what nights, thin rounds and late starts cost."""
    measured = Measured(read_curves(folder_of(claim) / CURVES))
    labels = dict.fromkeys(label for panel in measured.panels for label in measured.labels(panel))
    columns: list[tuple[str, str, Callable[[StrategyCurves], np.ndarray]]] = []
    for panel in measured.panels:
        if panel.endswith("nights"):
            columns += [
                (panel, "at midnight", lambda entry: at(entry, "test_accuracy", MIDNIGHT)),
                (panel, "mean of the last day", lambda entry: final(entry, "test_accuracy", LAST_DAY)),
                (panel, "largest fall in it", lambda entry: largest_fall(entry, "test_accuracy", LAST_DAY)),
            ]
        elif panel == "late starts":
            columns.append((panel, "at the end", lambda entry: final(entry, "test_accuracy")))
        else:
            columns.append((panel, "lost in 100 rounds", lambda entry: lost_between(entry, "test_accuracy", **SPELL)))

    def cell(panel: str, label: str, measure: Callable[[StrategyCurves], np.ndarray]) -> str:
        if label not in measured.labels(panel):
            return "–"
        percent = Interval.of(100 * measure(StrategyCurves(measured, panel, label)))
        return f"{percent.mean:.1f} ± {percent.high - percent.mean:.1f}"

    rows = ([label, *(cell(panel, label, measure) for panel, _, measure in columns)] for label in labels)
    heads = (f"{panel}: {what}" for panel, what, _ in columns)
    return table(("strategy", *heads), rows) + f"\n\n{size_of(claim)}."
