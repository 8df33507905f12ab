"""The charts of a report page, as data: what assets/chart.js draws."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from turnout.metrics import DISTANCE, METRICS, TEST_ACCURACY, Metric, metric_named
from turnout.report.page.colours import BLUE, ORANGE, VERMILION, page_style
from turnout.report.page.shell import Spec
from turnout.report.run.by_client import client_means, client_names, seen_of, sorted_shares, weights_of
from turnout.report.run.compared import Points, common_metrics, shown_metrics
from turnout.report.run.curves import AXES, learning_curves_of
from turnout.report.run.error_split import ErrorSplit
from turnout.report.run.groups import attention
from turnout.simulator.attendance import STATES

DIGITS = 5
MOST_PICTURES = 20  # strategies whose attendance is in the page; each takes up to 40 kB
AWAY = {"light": "#ECEEF1", "dark": "#2A2E35"}
STATE_STYLES = dict(zip(STATES, (AWAY, page_style(ORANGE), page_style(VERMILION), page_style(BLUE)), strict=True))


def report_charts(points: Points, splits: dict[str, ErrorSplit]) -> dict[str, Spec]:
    """Every chart by name; those that the runs have nothing for are left out."""
    found = {f"curve-{metric.name}": _curves(points, metric, splits) for metric in _drawn_metrics(points)}
    found |= {
        "availability": _picture(points),
        "weights": _weights(points),
        "groups": _groups(points),
        "clients": _served(points),
        "staleness": _staleness(points),
        "split": _split(splits),
    }
    return {name: spec for name, spec in found.items() if spec is not None}


def _drawn_metrics(points: Points) -> list[Metric]:
    """The telling metrics, and the losses that a table has no room for."""
    names = common_metrics(points)
    listed = (metric for metric in METRICS if metric.in_report and metric.name in names)
    return list(dict.fromkeys([*shown_metrics(points), *listed]))


def numbers(values: Any) -> list[float | None]:
    """Plain numbers with as many digits as can be seen, null where not finite."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in np.asarray(values).tolist()]


def _curves(points: Points, metric: Metric, splits: dict[str, ErrorSplit]) -> Spec:
    curves = learning_curves_of(points, metric)
    seeds = len(points.points[0].history.seeds)
    known = [axis for axis in AXES if any(axis in curve.over for curve in curves)]
    log = metric.log and all((curve.mean[np.isfinite(curve.mean)] > 0).all() for curve in curves)
    series = [
        {"label": curve.label, "xs": {axis: numbers(values) for axis, values in curve.over.items()}}
        | {"y": numbers(curve.mean)}
        | ({"low": numbers(curve.low), "high": numbers(curve.high)} if seeds > 1 else {})
        for curve in curves
    ]
    note = f"Line: mean over {seeds} seeds. Band: one standard deviation." if seeds > 1 else "One seed."
    floors = {}
    if metric.name == DISTANCE and splits:
        floors = {"rules": [{"y": float(split.bias.mean()), "label": label} for label, split in splits.items()]}
        note += " Dashed: how far off the weights of this run lead, by themselves."
    return {
        "kind": "lines",
        "title": metric.title,
        "note": note,
        "x": {"title": AXES["round"], "choices": [{"name": axis, "title": AXES[axis]} for axis in known]},
        "y": {"title": metric.title, "unit": "%" if metric.percent else "", "log": log},
        "series": series,
    } | floors


def _picture(points: Points) -> Spec | None:
    found = [(point, seen) for point in points.points[:MOST_PICTURES] if (seen := seen_of(point)) is not None]
    if not found:
        return None
    series = [
        {
            "label": point.label,
            "rounds": seen.attendance.rounds.tolist(),
            "clients": client_names(point, seen.clients),
            "edges": seen.edges,
            "pi": numbers(seen.pi),
            "lam": None if seen.lam is None else numbers(seen.lam),
            "cells": packed(seen.states),
        }
        for point, seen in found
    ]
    first = found[0][1]
    shown, in_all = len(first.clients), points.points[0].target.shape[0]
    some = "" if shown == in_all else f" {shown} of {in_all:,} clients."
    if len(points.points) > MOST_PICTURES:
        some += f" The first {MOST_PICTURES} strategies."
    stride = int(first.attendance.rounds[1] - first.attendance.rounds[0]) if len(first.attendance.rounds) > 1 else 1
    every = "" if stride == 1 else f" Every {stride}th round."
    order = ", then ".join(first.groups)
    return {
        "kind": "picture",
        "wide": True,
        "height": 420,
        "title": "Who was there, who was asked, who was heard",
        "note": f"A row a client, a column a round, seed {first.attendance.seed}. From the top: {order}.{some}{every}",
        "x": {"title": "Round"},
        "y": {"title": "Clients"},
        "states": [{"name": name} | STATE_STYLES[name] for name in STATES],
        "series": series,
    }


def packed(states: np.ndarray) -> str:
    """Four cells a byte, the first in its lowest bits, as base64."""
    flat = states.ravel().astype(np.uint8)
    rows = np.pad(flat, (0, -len(flat) % 4)).reshape(-1, 4)
    return base64.b64encode((rows << np.arange(0, 8, 2, dtype=np.uint8)).sum(axis=1, dtype=np.uint8).tobytes()).decode()


def _weights(points: Points) -> Spec | None:
    series = []
    for point in points.points:
        found = weights_of(point, len(points.points))
        if found is None:
            continue
        names = [f"client {name}" for name in client_names(point, found.clients)]
        more = [["available", numbers(100 * found.available), "%"], ["target", numbers(100 * found.target), "%"]]
        ends = {"low": numbers(found.low), "high": numbers(found.high)}
        ends = ends if len(point.history.seeds) > 1 else {}
        places = {"x": numbers(np.linspace(0, 100, len(names) + 1)[1:]), "y": numbers(found.ratio)}
        series.append({"label": point.label, "names": names, "more": more} | places | ends)
    if not series:
        return None
    return weight_over_target(series, "least and most over the seeds")


def weight_over_target(series: list[Spec], bars: str) -> Spec:
    """The chart of every client's weight, of a run or of an audit; `bars` says what the whiskers are."""
    top = max(max(filter(None, one["y"]), default=1.0) for one in series)
    return {
        "kind": "dots",
        "title": "Weight of each client, over its target",
        "note": f"At 1 a client counts as it should. Bars: {bars}.",
        "x": {"title": "Clients, least available first", "unit": "%", "domain": [0, 100]},
        "y": {"title": "Weight ÷ target", "zero": True, "domain": [0, 1.05 * max(2.0, min(top, 20.0))]},
        "rules": [{"y": 1.0}],
        "series": series,
    }


def _groups(points: Points) -> Spec | None:
    if any("weight" not in point.history.clients for point in points.points):
        return None
    rows = attention(points)
    order = rows.unique("group", maintain_order=True).sort("availability", maintain_order=True)
    names = order["group"].to_list()
    series = []
    for (label,), mine in rows.group_by("label", maintain_order=True):
        by_name = {row["group"]: row for row in mine.iter_rows(named=True)}
        values = {
            key: [by_name[name][key] if name in by_name else np.nan for name in names]
            for key in ("share", "low", "high")
        }
        series.append(
            {
                "label": label,
                "y": numbers(values["share"]),
                "low": numbers(values["low"]),
                "high": numbers(values["high"]),
            }
        )
    return {
        "kind": "bars",
        "title": "Who the model is trained for",
        "note": "Mark across the bars: the share that the target asks for. Whisker: least and most over the seeds.",
        "x": {"title": "Clients by availability", "names": names},
        "y": {"title": "Share of all weight", "unit": "%"},
        "targets": numbers(order["target"].to_numpy()),
        "series": series,
    }


def _served(points: Points) -> Spec | None:
    """Accuracy from the worst served client to the best."""
    metric = metric_named(TEST_ACCURACY)
    of_clients = [(point.label, client_means(point, metric.name)) for point in points.points]
    recorded = [(label, values) for label, values in of_clients if values is not None]
    if not recorded:
        return None
    series = []
    for label, values in recorded:
        shares, accuracy = sorted_shares(values)
        series.append({"label": label, "x": numbers(100 * shares), "y": numbers(metric.factor * accuracy)})
    return {
        "kind": "lines",
        "title": "From the worst served client to the best",
        "note": "Test accuracy of the final model on each client. The left tenth is the worst decile.",
        "x": {"title": "Clients, worst first", "unit": "%"},
        "y": {"title": metric.title, "unit": "%"},
        "series": series,
    }


def _staleness(points: Points) -> Spec | None:
    series = []
    for point in points.points:
        values = client_means(point, "stalest")
        if values is not None:
            shares, rounds = sorted_shares(values)
            series.append({"label": point.label, "x": numbers(100 * shares), "y": numbers(rounds)})
    if not series:
        return None
    return {
        "kind": "lines",
        "title": "How long clients were not heard",
        "note": "Longest time without an upload of each client, mean over the seeds.",
        "x": {"title": "Clients, freshest first", "unit": "%"},
        "y": {"title": "Longest wait in rounds", "zero": True},
        "series": series,
    }


def _split(splits: dict[str, ErrorSplit]) -> Spec | None:
    if not splits:
        return None
    parts = {"total": "model to optimum", "optimisation": "optimisation error", "bias": "bias"}
    series = [{"label": label} | _parts(split, list(parts)) for label, split in splits.items()]
    return {
        "kind": "bars",
        "title": "What is left of the error: optimisation or bias",
        "note": "Distances at the end: from the model to the optimum; from the model to where the weights of the run "
        "lead; from there to the optimum. The first is at most the sum of the others. Chance in the weights fades with "
        "more rounds, a strategy's bias does not.",
        "x": {"title": "Distance", "names": list(parts.values())},
        "y": {"title": "Distance"},
        "series": series,
    }


def _parts(split: ErrorSplit, names: list[str]) -> dict[str, Any]:
    values = [getattr(split, name) for name in names]
    ends = {"low": numbers([each.min() for each in values]), "high": numbers([each.max() for each in values])}
    return {"y": numbers([each.mean() for each in values])} | ends
