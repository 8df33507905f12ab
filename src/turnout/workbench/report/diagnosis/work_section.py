"""The section of a diagnosis about the length of work and the pace: a chart and tables."""

from __future__ import annotations

import itertools

import numpy as np

from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.world.pacing import Pacing
from turnout.workbench.report.diagnosis.readable import duration, percent
from turnout.workbench.report.diagnosis.work_words import pace_name
from turnout.workbench.report.page.chart import Axis, Chart, Series
from turnout.workbench.report.page.colours import BLUE, Style
from turnout.workbench.report.page.table import Cell, Column, Table

BARS = 12
LOW = 200  # height of a chart with little to tell


def lengths_chart(diagnosis: Diagnosis) -> Chart | None:
    """How many clients take how long."""
    times = diagnosis.findings.work
    if times is None:
        return None
    median = times.median[times.counted > 0]
    low, high = float(median.min()), float(median.max())
    if high <= 1.01 * low:
        return None
    edges = np.geomspace(low, high * (1 + 1e-9), BARS + 1)
    counts = np.histogram(median, edges)[0]
    names = tuple(duration(float(np.sqrt(a * b)), ".2g") for a, b in itertools.pairwise(edges))
    series = Series("clients", Style.of(BLUE), counts)
    x = Axis("Median length of a client's work, about", names=names)
    return Chart("bars", "Clients by how long their work takes", x, Axis("Clients", whole=True), (series,), height=LOW)


def pace_table(pacing: Pacing) -> Table:
    """The paces, one row each."""
    costs = pacing.costs
    names = tuple(Cell(pace_name(cost), pace_name(cost), best=cost is pacing.recommended) for cost in costs)
    columns = (
        Column("server", names),
        Column.of("time per step", [duration(cost.step_seconds) for cost in costs]),
        Column.of("updates per hour", [_count(cost.used_per_hour) for cost in costs]),
        Column.of("useful per hour", [_count(cost.useful_per_hour) for cost in costs]),
        Column.of("never heard", [f"{cost.unheard:,}" for cost in costs]),
        Column.of("FedAvg off target", [percent(cost.off_target) for cost in costs]),
        Column.of("mean age", [f"{cost.age:.2g}" for cost in costs], if_room=True),
    )
    meaning = (
        "Useful: the updates that are left, in noise, once weights are the target's; none if somebody is never heard. "
        "Never heard: clients with less than a thousandth of the share that waiting for all would give them. Age: "
        "steps of the server since the client was asked."
    )
    return Table(columns, "Paces in the world of the log, by formula", meaning)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def slowest_table(diagnosis: Diagnosis, most: int) -> Table:
    """The slow clients, the slowest first, at most so many."""
    times, rates = diagnosis.findings.work, diagnosis.findings.rates
    assert times is not None
    slow = np.flatnonzero(times.slow)
    chosen = slow[np.argsort(-times.median[slow], kind="stable")][:most].tolist()
    columns = (
        Column.of("client", [str(diagnosis.log.names[k]) for k in chosen]),
        Column.of("pieces of work", [f"{times.counted[k]:,}" for k in chosen]),
        Column.of("median", [duration(float(times.median[k])) for k in chosen]),
        Column.of("÷ median client", [f"{times.median[k] / times.typical:.3g}" for k in chosen]),
        Column.of("there", [percent(float(rates.pi[k])) for k in chosen]),
    )
    return Table(columns)
