"""The charts of a diagnosis, as data: what assets/chart.js draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from turnout.diagnosis.diagnose import Diagnosis
from turnout.diagnosis.findings.cycles import Cycle
from turnout.diagnosis.world.likeness import Comparison
from turnout.report.page.colours import BLUE, GREEN, ORANGE, SKY, VERMILION, page_style
from turnout.report.page.shell import Spec
from turnout.report.run.run_charts import numbers
from turnout.statistics import evenly

MOST_POINTS = 2000  # in a chart; more would be a blot of megabytes
BARS = 20
LOW = 200  # height of a chart with little to tell
MOST_CLUSTERS = 30
REAL, SIMULATED = "the log", "the fitted world"
THERE = "Share of time there, π"
MIXING = (
    "Correlation of a client with itself, so long after; band: the middle half of the clients. A curve at 0 means that "
    "the past is forgotten."
)


def diagnosis_charts(diagnosis: Diagnosis) -> dict[str, Spec]:
    """Every chart by name; those that the log has nothing for are left out."""
    found = {
        "availability": _availability(diagnosis),
        "correlation": _correlation(diagnosis),
        "sizes": _cluster_sizes(diagnosis),
        "weights": _weights(diagnosis),
        "mixing": _forgetting(diagnosis),
    }
    cycles = diagnosis.findings.cycles
    for cycle in (cycles.daily, cycles.weekly, cycles.unnamed):
        if cycle is not None and (cycle.found or cycle.name == "daily"):
            found[f"cycle-{cycle.name}"] = _profile(cycle)
    for comparison in diagnosis.likeness.comparisons:
        found[comparison_name(comparison)] = _beside(comparison)
    return {name: spec for name, spec in found.items() if spec is not None}


def comparison_name(comparison: Comparison) -> str:
    return f"like-{comparison.name.replace(' ', '-')}"


def _availability(diagnosis: Diagnosis) -> Spec | None:
    """How many clients are there how often."""
    known = diagnosis.findings.rates.pi[np.isfinite(diagnosis.findings.rates.pi)]
    if not len(known):
        return None
    counts, edges = np.histogram(known, bins=BARS, range=(0.0, 1.0))
    names = [f"{100 * low:.0f}–{100 * high:.0f}" for low, high in itertools.pairwise(edges)]
    return {
        "kind": "bars",
        "title": "Clients by how often they are there",
        "x": {"title": THERE, "unit": "%", "names": names},
        "y": {"title": "Clients"},
        "series": [{"label": "clients", "style": page_style(BLUE), "y": numbers(counts)}],
    }


def _correlation(diagnosis: Diagnosis) -> Spec | None:
    """λ̂ against π̂ with its credible interval; clients that surely have memory in a colour of their own."""
    rates = diagnosis.findings.rates
    changing = np.flatnonzero((rates.on > 0) & (rates.on < rates.watched))
    if not len(changing):
        return None
    shown = changing[evenly(len(changing), MOST_POINTS)]
    series = []
    for surely, label, shade in ((True, "surely has memory", VERMILION), (False, "may have none", SKY)):
        mine = shown[rates.persistent[shown] == surely]
        ends = {"low": numbers(rates.lam_low[mine]), "high": numbers(rates.lam_high[mine])}
        places = {"x": numbers(100 * rates.pi[mine]), "y": numbers(rates.lam[mine])}
        names = [f"client {name}" for name in np.asarray(diagnosis.log.names)[mine].tolist()]
        series.append({"label": label, "style": page_style(shade), "names": names} | places | ends)
    return {
        "kind": "dots",
        "title": "Correlation of each client from one slot to the next",
        "note": "With its 95 % credible interval. At 0 a client comes at random; near 1 it stays away, and stays, for "
        "long.",
        "x": {"title": THERE, "unit": "%", "domain": [0, 100]},
        "y": {"title": "Correlation λ"},
        "rules": [{"y": 0.0}],
        "series": series,
    }


def _cluster_sizes(diagnosis: Diagnosis) -> Spec | None:
    """The largest groups of clients that move together, by size."""
    found = diagnosis.findings.clusters
    if not found.count:
        return None
    sizes = found.sizes[:MOST_CLUSTERS]
    return {
        "kind": "bars",
        "height": LOW,
        "title": "Sizes of the groups",
        "x": {"title": "Group, the largest first", "names": [str(k + 1) for k in range(len(sizes))]},
        "y": {"title": "Clients"},
        "series": [{"label": "clients", "style": page_style(BLUE), "y": numbers(sizes)}],
    }


def _profile(cycle: Cycle) -> Spec:
    """Share of the fleet that is there over one cycle."""
    span, title = {"daily": (24.0, "Hour of the day"), "weekly": (7.0, "Day of the week that slot 0 begins")}.get(
        cycle.name, (cycle.period, "Round of the cycle")
    )
    at = (np.arange(len(cycle.profile)) + 0.5) * span / len(cycle.profile)
    return {
        "kind": "lines",
        "height": LOW,
        "title": "Share of the watched clients that are there",
        "x": {"title": title, "domain": [0, span]},
        "y": {"title": "Share there", "unit": "%", "zero": True},
        "series": [_line("clients", BLUE, at, 100 * cycle.profile)],
    }


def _line(label: str, shade: str, x: Any, y: Any) -> dict[str, Any]:
    return {"label": label, "style": page_style(shade), "x": numbers(x), "y": numbers(y)}


def _weights(diagnosis: Diagnosis) -> Spec | None:
    """Effective weight over target, client by client, in order: 1 is what was asked."""
    found = diagnosis.findings.weights
    wanted = found.target > 0
    ratio = np.sort(found.weighted[wanted] / found.target[wanted])[::-1]
    if not len(ratio):
        return None
    place = evenly(len(ratio), MOST_POINTS)
    return {
        "kind": "lines",
        "title": "How many times its due each client gets",
        "note": "The dashed line is fair.",
        "x": {"title": "Clients, from the most favoured", "unit": "%"},
        "y": {"title": "Weight by FedAvg ÷ weight asked for", "zero": True},
        "rules": [{"y": 1.0}],
        "series": [_line("weight", VERMILION, 100 * (place + 1) / len(ratio), ratio[place])],
    }


def _forgetting(diagnosis: Diagnosis) -> Spec | None:
    """Autocorrelation of the clients and of the fleet by lag."""
    mixing, seconds = diagnosis.findings.mixing, diagnosis.log.slot_seconds
    if len(mixing.lags) < 2 or not np.isfinite(mixing.curve).any():
        return None
    unit, title = (1.0, "Lag in rounds") if seconds is None else (seconds / 3600, "Lag in hours")
    lag = mixing.lags * unit
    band = {"low": numbers(mixing.curve_low), "high": numbers(mixing.curve_high)}
    fleet = _line("number of clients there", ORANGE, lag, mixing.fleet_curve)
    return {
        "kind": "lines",
        "title": "Autocorrelation of the median client, and of the number of clients there",
        "note": MIXING,
        "x": {"title": title},
        "y": {"title": "Autocorrelation"},
        "rules": [{"y": 0.0}],
        "series": [_line("median client", BLUE, lag, mixing.curve) | band, fleet],
    }


def _beside(comparison: Comparison) -> Spec:
    """One aspect of the log and of simulated logs, from the least to the largest of these."""
    ends = {"low": numbers(comparison.low), "high": numbers(comparison.high)}
    real, fitted = ({"label": name, "style": page_style(c)} for name, c in ((REAL, VERMILION), (SIMULATED, GREEN)))
    real["y"], fitted["y"] = numbers(comparison.real), numbers(comparison.simulated)
    verdict = "alike" if comparison.alike else "not alike"
    frame = {
        "height": LOW,
        "title": f"{comparison.name.capitalize()}: {verdict}",
        "note": f"{comparison.distance:.2g} apart where {comparison.tolerance:.2g} can be chance.",
        "y": {"title": comparison.name.capitalize(), "zero": True},
    }
    points = [str(point) for point in comparison.points]
    if len(points) <= 8:
        return frame | {"kind": "bars", "x": {"title": "", "names": points}, "series": [real, fitted | ends]}
    place = list(range(1, len(points) + 1))
    both = [real | {"x": place}, fitted | ends | {"x": place}]
    return frame | {"kind": "lines", "x": {"title": f"{points[0]} … {points[-1]}"}, "series": both}
