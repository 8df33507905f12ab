"""The charts of a diagnosis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from turnout.statistics import evenly
from turnout.workbench.diagnosis.diagnose import Diagnosis
from turnout.workbench.diagnosis.findings.cycles import Cycle
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.likeness import Comparison
from turnout.workbench.report.diagnosis.readable import in_zone
from turnout.workbench.report.diagnosis.work_section import lengths_chart
from turnout.workbench.report.page.chart import Axis, Chart, Drawing, Rule, Series
from turnout.workbench.report.page.colours import BLUE, GREEN, ORANGE, SKY, VERMILION, Style

MOST_POINTS = 2000  # in a chart; more would be a blot of megabytes
BARS = 20
LOW = 200  # height of a chart with little to tell
MOST_CLUSTERS = 30
MOST_NAMES = 8  # beside each other; more are a line
REAL, SIMULATED = "the log", "the fitted world"
THERE = "Share of time there, π"
MIXING = (
    "Correlation of a client with itself, so long after; band: the middle half of the clients. A curve at 0 means that "
    "the past is forgotten."
)


def diagnosis_charts(diagnosis: Diagnosis) -> dict[str, Drawing]:
    """Every chart by name; those that the log has nothing for are left out."""
    charts = {
        "availability": _availability(diagnosis),
        "correlation": _correlation(diagnosis),
        "sizes": _cluster_sizes(diagnosis),
        "weights": _weights(diagnosis),
        "mixing": _forgetting(diagnosis),
        "lengths": lengths_chart(diagnosis),
    }
    for cycle in diagnosis.findings.cycles.tested:
        if cycle.found or cycle.name == "daily":
            charts[f"cycle-{cycle.name}"] = _profile(cycle, diagnosis.log)
    for comparison in diagnosis.likeness.comparisons:
        charts[comparison_name(comparison)] = _beside(comparison, diagnosis.log.slot_seconds)
    return {name: chart for name, chart in charts.items() if chart is not None}


def comparison_name(comparison: Comparison) -> str:
    return f"like-{comparison.name.replace(' ', '-')}"


def _availability(diagnosis: Diagnosis) -> Chart | None:
    """How many clients are there how often."""
    rates = diagnosis.findings.rates.pi[np.isfinite(diagnosis.findings.rates.pi)]
    if not len(rates):
        return None
    counts, edges = np.histogram(rates, bins=BARS, range=(0.0, 1.0))
    names = tuple(f"{100 * low:.0f}–{100 * high:.0f}" for low, high in itertools.pairwise(edges))
    series = Series("clients", Style.of(BLUE), counts)
    return Chart(
        "bars",
        "Clients by how often they are there",
        Axis(THERE, "%", names=names),
        Axis("Clients", whole=True),
        (series,),
    )


def _correlation(diagnosis: Diagnosis) -> Chart | None:
    """λ̂ against π̂ with its credible interval; clients that surely have memory in a colour of their own."""
    rates = diagnosis.findings.rates
    changing = np.flatnonzero((rates.on > 0) & (rates.on < rates.watched))
    if not len(changing):
        return None
    shown = changing[evenly(len(changing), MOST_POINTS)]

    def series() -> Iterator[Series]:
        for surely, label, shade in ((True, "surely has memory", VERMILION), (False, "may have none", SKY)):
            those = shown[rates.persistent[shown] == surely]
            lam, low, high = rates.lam[those], rates.lam_low[those], rates.lam_high[those]
            names = tuple(f"client {name}" for name in np.asarray(diagnosis.log.names)[those].tolist())
            yield Series(label, Style.of(shade), lam, 100 * rates.pi[those], low, high, names=names)

    return Chart(
        "dots",
        "Correlation of each client from one slot to the next",
        Axis(THERE, "%", domain=(0.0, 100.0)),
        Axis("Correlation λ"),
        tuple(series()),
        "With its 95 % credible interval. At 0 a client comes at random; near 1 it stays away, and stays, for long.",
        (Rule(0.0),),
        keyed=True,
    )


def _cluster_sizes(diagnosis: Diagnosis) -> Chart | None:
    """The largest groups of clients that move together, by size."""
    if not diagnosis.findings.clusters.count:
        return None
    sizes = diagnosis.findings.clusters.sizes[:MOST_CLUSTERS]
    x = Axis("Group, the largest first", names=tuple(str(k + 1) for k in range(len(sizes))))
    series = Series("clients", Style.of(BLUE), sizes)
    return Chart("bars", "Sizes of the groups", x, Axis("Clients", whole=True), (series,), height=LOW)


def _profile(cycle: Cycle, log: Log) -> Chart:
    """Share of the fleet that is there over one cycle."""
    week = f"Day of the week, from Monday{in_zone(log)}" if log.dated else "Day of the week that slot 0 begins"
    span, title = {"daily": (24.0, f"Hour of the day{in_zone(log)}"), "weekly": (7.0, week)}.get(
        cycle.name, (cycle.period, "Round of the cycle")
    )
    at = (np.arange(len(cycle.profile)) + 0.5) * span / len(cycle.profile)
    series = Series("clients", Style.of(BLUE), 100 * cycle.profile, at)
    x, y = Axis(title, domain=(0.0, span)), Axis("Share there", "%", zero=True)
    return Chart("lines", "Share of the watched clients that are there", x, y, (series,), height=LOW)


def _weights(diagnosis: Diagnosis) -> Chart | None:
    """Effective weight over target, client by client, in order: 1 is what was asked."""
    weights = diagnosis.findings.weights
    wanted = weights.target > 0
    ratio = np.sort(weights.weighted[wanted] / weights.target[wanted])[::-1]
    if not len(ratio):
        return None
    place = evenly(len(ratio), MOST_POINTS)
    return Chart(
        "lines",
        "How many times its due each client gets",
        Axis("Clients, from the most favoured", "%"),
        Axis("Weight by FedAvg ÷ weight asked for", zero=True),
        (Series("weight", Style.of(VERMILION), ratio[place], 100 * (place + 1) / len(ratio)),),
        "The dashed line is fair.",
        (Rule(1.0),),
    )


def _forgetting(diagnosis: Diagnosis) -> Chart | None:
    """Autocorrelation of the clients and of the fleet by lag."""
    mixing, seconds = diagnosis.findings.mixing, diagnosis.log.slot_seconds
    if len(mixing.lags) < 2 or not np.isfinite(mixing.curve).any():
        return None
    unit, title = _lag_unit(seconds)
    lag = mixing.lags * unit
    return Chart(
        "lines",
        "Autocorrelation of the median client, and of the number of clients there",
        Axis(title),
        Axis("Autocorrelation"),
        (
            Series("median client", Style.of(BLUE), mixing.curve, lag, mixing.curve_low, mixing.curve_high),
            Series("number of clients there", Style.of(ORANGE), mixing.fleet_curve, lag),
        ),
        MIXING,
        (Rule(0.0),),
        keyed=True,
    )


def _beside(comparison: Comparison, slot_seconds: float | None) -> Chart:
    """One aspect of the log and of simulated logs, from the least to the largest of these."""
    points = tuple(str(point) for point in comparison.points)
    few = len(points) <= MOST_NAMES
    place, x = np.arange(1, len(points) + 1), Axis(f"{points[0]} … {points[-1]}")
    if comparison.lags is not None:
        unit, title = _lag_unit(slot_seconds)
        place, x = comparison.lags * unit, Axis(title)
    title = comparison.name.capitalize()
    return Chart(
        "bars" if few else "lines",
        f"{title}: {'alike' if comparison.alike else 'not alike'}",
        Axis("", names=points) if few else x,
        Axis(title, zero=True),
        (
            Series(REAL, Style.of(VERMILION), comparison.real, None if few else place),
            Series(
                SIMULATED,
                Style.of(GREEN),
                comparison.simulated,
                None if few else place,
                comparison.low,
                comparison.high,
            ),
        ),
        f"{comparison.distance:.2g} apart where {comparison.tolerance:.2g} can be chance.",
        height=LOW,
        keyed=True,
    )


def _lag_unit(slot_seconds: float | None) -> tuple[float, str]:
    """What a slot is on an axis of lags, and its title."""
    return (1.0, "Lag in rounds") if slot_seconds is None else (slot_seconds / 3600, "Lag in hours")
