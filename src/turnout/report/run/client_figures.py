"""Figures of what became of the clients: who was there, who counts, who is served, who waits."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from turnout.metrics import TEST_ACCURACY, metric_named
from turnout.report.page.colours import BLUE, ORANGE, VERMILION
from turnout.report.run.by_client import Seen, client_means, seen_of, sorted_shares, weights_of
from turnout.report.run.compared import Points, title_of
from turnout.report.run.figures import PANEL, framed, labelled_legend
from turnout.simulator.attendance import STATES
from turnout.statistics import evenly

AWAY = "#ECEEF1"
STATE_COLOURS = (AWAY, ORANGE, VERMILION, BLUE)
SHOWN_CLIENTS, SHOWN_ROUNDS = 128, 256  # of a picture; more would be thinner than a line in print
DIGITS = 4  # of a number in the text that holds the spells


def availability_picture(points: Points) -> alt.TopLevelMixin:
    """Who was there, asked and heard: a row a client, a column a round, a panel a strategy."""
    seen = [(point.label, found) for point in points.points if (found := seen_of(point)) is not None]
    if not seen:
        raise ValueError("this run does not tell who was there: it was recorded by an older version, or by nobody")
    names = [label if len(seen) > 1 else "" for label, _ in seen]
    panels = [_panel(found, n).properties(title=names[n]) for n, (_, found) in enumerate(seen)]
    picture = alt.concat(*panels, columns=2, spacing=24) if len(panels) > 1 else panels[0]
    note = f"From the top: {', then '.join(seen[0][1].groups)}. Seed {seen[0][1].attendance.seed}."
    return framed(picture, "Who was there, who was asked, who was heard", [title_of(points), note])


def _panel(seen: Seen, number: int) -> Any:
    """Spells of one state as bars. They travel as one text in a parameter: a table of them would be too long."""
    rows, columns = (
        evenly(count, most) for count, most in zip(seen.states.shape, (SHOWN_CLIENTS, SHOWN_ROUNDS), strict=True)
    )
    states, rounds = seen.states[np.ix_(rows, columns)], seen.attendance.rounds[columns]
    spells = _spells(states)
    text = "".join(f"{row:0{DIGITS}d}{start:0{DIGITS}d}{end:0{DIGITS}d}{state}" for row, start, end, state in spells)
    width, name = 3 * DIGITS + 1, f"spells{number}"
    held = alt.param(name=name, value=text)

    def part(place: int, length: int = DIGITS) -> str:
        begin = f"datum.cell * {width} + {place * DIGITS}"
        return f"toNumber(substring({name}, {begin}, {begin} + {length}))"

    stride = float(rounds[1] - rounds[0]) if len(rounds) > 1 else 1.0
    ends = [float(rounds[0]), float(rounds[-1]) + stride]
    x = alt.X("from:Q", title="Round", scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(grid=False))
    y = alt.Y(
        "row:Q",
        title="Clients",
        scale=alt.Scale(domain=[len(rows), 0], nice=False),
        axis=alt.Axis(labels=False, grid=False),
    )
    colour = alt.Color(
        "state:N",
        scale=alt.Scale(domain=list(STATES), range=list(STATE_COLOURS)),
        legend=alt.Legend(title=None, symbolType="square"),
    )
    return (
        alt.Chart(alt.sequence(0, len(spells), as_="cell"))
        .mark_rect()
        .transform_calculate(**{"row": part(0), "below": f"{part(0)} + 1"})
        .transform_calculate(
            **{"from": f"{rounds[0]} + {stride} * {part(1)}", "to": f"{rounds[0]} + {stride} * {part(2)}"}
        )
        .transform_calculate(state=f"{list(STATES)}[{part(3, 1)}]")
        .encode(x, alt.X2("to:Q"), y, alt.Y2("below:Q"), colour)
        .add_params(held)
        .properties(width=PANEL, height=min(300, max(120, 3 * len(rows))))
    )


def _spells(states: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Row, first column, column after the last, and state of every stretch; being away is the ground."""
    found = []
    for row, line in enumerate(states):
        edges = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1, [len(line)]])
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if line[start]:
                found.append((row, start, end, int(line[start])))
    return found


def client_weights(points: Points) -> alt.TopLevelMixin:
    """Weight over target of each client, from the least available to the most."""
    parts = []
    for point in points.points:
        found = weights_of(point, len(points.points))
        if found is None:
            raise ValueError(f"{point.label}: this run does not tell weights")
        place = 100 * np.arange(1, len(found.clients) + 1) / len(found.clients)
        columns = {"client": found.clients, "available": 100 * found.available, "ratio": found.ratio}
        parts.append(pl.DataFrame({"label": point.label, "place": place} | columns))
    rows = pl.concat(parts)
    colour, _ = labelled_legend(points, "circle")
    x = alt.X("place:Q", title="Clients, least available first (%)", scale=alt.Scale(domain=[0, 100]))
    top = max(2.0, min(20.0, float(np.quantile(rows["ratio"].to_numpy(), 0.99)) * 1.2))
    y = alt.Y("ratio:Q", title="Weight ÷ target", scale=alt.Scale(domain=[0, top], clamp=True))
    tips = ["label", "client", alt.Tooltip("available", format=".0f"), alt.Tooltip("ratio", format=".2f")]
    dots = alt.Chart(rows).mark_circle(size=24, opacity=0.7).encode(x, y, colour, tooltip=tips)
    one = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(color="black", strokeDash=[5, 4]).encode(alt.Y("one:Q"))
    chart = alt.layer(dots, one).properties(width=PANEL, height=280)
    return framed(chart, "Weight of each client, over its target", [title_of(points), "Dashed: as it should be."])


def served_clients(points: Points) -> alt.TopLevelMixin:
    """Test accuracy on each client, from the worst served to the best."""
    note = "Test accuracy of the final model on each client. The left tenth is the worst decile."
    metric = metric_named(TEST_ACCURACY)
    titles = "Clients, worst first (%)", metric.axis_title
    return _ranked(points, metric.name, metric.factor, "From the worst served client to the best", titles, note)


def staleness(points: Points) -> alt.TopLevelMixin:
    """Longest wait of each client for an upload to arrive, from the shortest to the longest."""
    titles = "Clients, freshest first (%)", "Longest wait in rounds"
    return _ranked(points, "stalest", 1.0, "How long clients were not heard", titles, "Mean over the seeds.")


def _ranked(points: Points, name: str, factor: float, title: str, titles: tuple[str, str], note: str) -> Any:
    parts = []
    for point in points.points:
        values = client_means(point, name)
        if values is not None:
            shares, sorted_values = sorted_shares(values)
            parts.append(pl.DataFrame({"label": point.label, "share": 100 * shares, "value": factor * sorted_values}))
    if not parts:
        raise ValueError(f"this run does not tell {name} by client")
    colour, dash = labelled_legend(points, "stroke")
    x, y = alt.X("share:Q", title=titles[0]), alt.Y("value:Q", title=titles[1], scale=alt.Scale(zero=False))
    lines = alt.Chart(pl.concat(parts)).mark_line(strokeWidth=2).encode(x, y, colour, dash)
    return framed(lines.properties(width=PANEL, height=280), title, [title_of(points), note])
