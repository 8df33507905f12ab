"""Figures of a diagnosis."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from turnout.diagnosis.cycles import Cycle
from turnout.diagnosis.diagnose import Diagnosis
from turnout.diagnosis.likeness import Comparison
from turnout.report.colours import BLUE, GREEN, ORANGE, SKY, VERMILION

WIDTH, HEIGHT = 520, 240
MOST_POINTS = 2000  # in a scatter; more would be a blot of megabytes
BARS = 20
REAL, SIMULATED = "the log", "the fitted world"


def figures(diagnosis: Diagnosis) -> dict[str, Any]:
    """Every figure by name; those that the log has nothing for are left out."""
    found = {
        "availability": availability(diagnosis),
        "correlation": correlation(diagnosis),
        "sizes": cluster_sizes(diagnosis),
        "weights": weights(diagnosis),
        "mixing": forgetting(diagnosis),
    }
    cycles = diagnosis.findings.cycles
    for cycle in (cycles.daily, cycles.weekly, cycles.unnamed):
        if cycle is not None and (cycle.found or cycle.name == "daily"):
            found[f"cycle-{cycle.name}"] = profile(cycle)
    for comparison in diagnosis.likeness.comparisons:
        found[f"like-{comparison.name.replace(' ', '-')}"] = beside(comparison)
    return {name: chart for name, chart in found.items() if chart is not None}


def _sized(chart: Any, height: int = HEIGHT) -> Any:
    return chart.properties(width=WIDTH, height=height)


def _percent(title: str) -> dict[str, Any]:
    return {"title": title, "axis": alt.Axis(format="%")}


def availability(diagnosis: Diagnosis) -> Any:
    """How many clients are there how often."""
    known = diagnosis.findings.rates.pi[np.isfinite(diagnosis.findings.rates.pi)]
    if not len(known):
        return None
    counts, edges = np.histogram(known, bins=BARS, range=(0.0, 1.0))
    rows = pl.DataFrame({"from": edges[:-1], "to": edges[1:], "clients": counts})
    bars = alt.Chart(rows).mark_bar(color=BLUE, binSpacing=1)
    x = alt.X("from:Q", bin="binned", scale=alt.Scale(domain=[0, 1]), **_percent("Share of time there, π"))
    return _sized(bars.encode(x, alt.X2("to:Q"), alt.Y("clients:Q", title="Clients")))


def correlation(diagnosis: Diagnosis) -> Any:
    """λ̂ against π̂ with its credible interval; clients that surely have memory in colour."""
    rates = diagnosis.findings.rates
    changing = np.flatnonzero((rates.on > 0) & (rates.on < rates.watched))
    if not len(changing):
        return None
    shown = changing[np.unique(np.linspace(0, len(changing) - 1, min(len(changing), MOST_POINTS)).astype(int))]
    rows = pl.DataFrame(
        {
            "pi": rates.pi[shown],
            "lam": rates.lam[shown],
            "low": rates.lam_low[shown],
            "high": rates.lam_high[shown],
            "memory": np.where(rates.persistent[shown], "surely has memory", "may have none"),
        }
    )
    base = alt.Chart(rows)
    scale = alt.Scale(domain=["surely has memory", "may have none"], range=[VERMILION, SKY])
    colour = alt.Color("memory:N", scale=scale, legend=alt.Legend(title=None, symbolOpacity=1))
    x = alt.X("pi:Q", **_percent("Share of time there, π"))
    lines = base.mark_rule(opacity=0.15).encode(x, alt.Y("low:Q", title="Correlation λ"), alt.Y2("high:Q"), colour)
    points = base.mark_circle(size=18, opacity=0.8).encode(x, alt.Y("lam:Q"), colour)
    return _sized(alt.layer(lines, points), 300)


def cluster_sizes(diagnosis: Diagnosis) -> Any:
    """The largest groups of clients that move together, by size."""
    found = diagnosis.findings.clusters
    if not found.count:
        return None
    rows = pl.DataFrame(
        {"cluster": np.arange(1, found.count + 1), "clients": found.sizes, "strength": found.strength}
    ).head(30)
    x = alt.X("cluster:O", title="Group, the largest first", axis=alt.Axis(labelAngle=0))
    shade = alt.Color("strength:Q", title="Correlation within", scale=alt.Scale(scheme="blues", domain=[0, 1]))
    return _sized(alt.Chart(rows).mark_bar().encode(x, alt.Y("clients:Q", title="Clients"), shade), 180)


def profile(cycle: Cycle) -> Any:
    """Share of the fleet that is there over one cycle."""
    count = len(cycle.profile)
    span, title = {"daily": (24.0, "Hour of the day"), "weekly": (7.0, "Day of the week that slot 0 begins")}.get(
        cycle.name, (cycle.period, "Round of the cycle")
    )
    rows = pl.DataFrame({"at": (np.arange(count) + 0.5) * span / count, "share": cycle.profile})
    x = alt.X("at:Q", title=title, scale=alt.Scale(domain=[0, span], nice=False))
    y = alt.Y("share:Q", scale=alt.Scale(zero=True), **_percent("Share of the fleet there"))
    return _sized(alt.Chart(rows).mark_line(color=BLUE, point=True, strokeWidth=2).encode(x, y), 180)


def weights(diagnosis: Diagnosis) -> Any:
    """Effective weight over target, client by client, in order: 1 is what was asked."""
    found = diagnosis.findings.weights
    wanted = found.target > 0
    ratio = np.sort(found.weighted[wanted] / found.target[wanted])[::-1]
    if not len(ratio):
        return None
    place = np.unique(np.linspace(0, len(ratio) - 1, min(len(ratio), MOST_POINTS)).astype(int))
    rows = pl.DataFrame({"rank": (place + 1) / len(ratio), "ratio": ratio[place]})
    x = alt.X("rank:Q", scale=alt.Scale(domain=[0, 1]), **_percent("Clients, from the most favoured"))
    y = alt.Y("ratio:Q", title="Weight by FedAvg ÷ weight asked for")
    line = alt.Chart(rows).mark_area(line={"color": VERMILION}, color=VERMILION, opacity=0.25).encode(x, y)
    fair = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(color="gray", strokeDash=[4, 4]).encode(alt.Y("one:Q"))
    return _sized(alt.layer(line, fair))


def forgetting(diagnosis: Diagnosis) -> Any:
    """Autocorrelation of the clients and of the fleet by lag."""
    mixing, seconds = diagnosis.findings.mixing, diagnosis.log.slot_seconds
    if len(mixing.lags) < 2 or not np.isfinite(mixing.curve).any():
        return None
    unit, title = (1.0, "Lag (rounds)") if seconds is None else (seconds / 3600, "Lag (hours)")
    lag = mixing.lags * unit
    curves = {"median client": mixing.curve, "number of clients there": mixing.fleet_curve}
    rows = pl.concat(
        [pl.DataFrame({"lag": lag, "value": values, "of": name}) for name, values in curves.items()]
    ).filter(pl.col("value").is_finite())
    band = pl.DataFrame({"lag": lag, "low": mixing.curve_low, "high": mixing.curve_high})
    x = alt.X("lag:Q", title=title)
    y = alt.Y("value:Q", title="Autocorrelation")
    colour = alt.Color(
        "of:N", scale=alt.Scale(domain=list(curves), range=[BLUE, ORANGE]), legend=alt.Legend(title=None)
    )
    area = alt.Chart(band).mark_area(opacity=0.2, color=BLUE).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"))
    return _sized(alt.layer(area, alt.Chart(rows).mark_line(strokeWidth=2).encode(x, y, colour)))


def beside(comparison: Comparison) -> Any:
    """One aspect of the log and of simulated logs, from the least to the largest of these."""
    place = np.arange(len(comparison.points))
    frame = {"place": place, "point": comparison.points, "low": comparison.low, "high": comparison.high}
    rows = pl.DataFrame(frame | {REAL: comparison.real, SIMULATED: comparison.simulated})
    long = rows.unpivot([REAL, SIMULATED], index=["place", "point"], variable_name="of")
    scale = alt.Scale(domain=[REAL, SIMULATED], range=[VERMILION, GREEN])
    colour = alt.Color("of:N", scale=scale, legend=alt.Legend(title=None))
    y = alt.Y("value:Q", title=comparison.name.capitalize(), scale=alt.Scale(zero=True))
    if len(place) > 8:
        x = alt.X(
            "place:Q", title=_ends(comparison), scale=alt.Scale(nice=False), axis=alt.Axis(labels=False, ticks=False)
        )
        band = alt.Chart(rows).mark_area(opacity=0.2, color=GREEN).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"))
        return _sized(alt.layer(band, alt.Chart(long).mark_line(strokeWidth=2).encode(x, y, colour)), 180)
    axis = alt.Axis(labelAngle=0, labelLimit=180, labelExpr="split(datum.label, ', ')")
    x = alt.X("point:N", sort=list(comparison.points), title=None, axis=axis)
    rule = (
        alt.Chart(rows).mark_rule(color=GREEN, strokeWidth=6, opacity=0.3).encode(x, alt.Y("low:Q"), alt.Y2("high:Q"))
    )
    dots = alt.Chart(long).mark_point(size=60, filled=True).encode(x, y, colour)
    return _sized(alt.layer(rule, dots), 180)


def _ends(comparison: Comparison) -> str:
    return f"{comparison.points[0]} … {comparison.points[-1]}"
