"""The picture of an audit: how much each client counts, against how often it is there."""

from __future__ import annotations

import altair as alt
import polars as pl

from turnout.auditor import Audit
from turnout.report.page.colours import line_styles
from turnout.report.run.figures import framed

WIDTH, HEIGHT, COLUMNS = 230, 190, 3
SHOWN_CLIENTS = 400  # dots a panel; more would only hide each other


def effective_weights_figure(audit: Audit, title: str = "") -> alt.TopLevelMixin:
    """A panel a strategy: weight over target of every client, with its interval, by availability; one is right."""
    labels = [entry.label for entry in audit.entries]
    names = [type(entry.strategy).__module__.rpartition(".")[2] for entry in audit.entries]
    colours = dict(zip(labels, (colour for colour, _ in line_styles(names)), strict=True))
    rows = _rows(audit)
    top = max(2.0, float(rows["high"].max() or 2.0))  # pyright: ignore[reportArgumentType]
    panels = [_panel(rows.filter(pl.col("label") == label), label, colours[label], top) for label in labels]
    grid = alt.concat(*panels, columns=COLUMNS, spacing=24)
    note = f"Dashed: the target. Bars: 95 % intervals over {audit.rounds:,} rounds; none where the weight is exact."
    return framed(grid, "How much each client counts, over how much it should", [title, note])


def _rows(audit: Audit) -> pl.DataFrame:
    """Ratios to the target, for a sample of the clients spread evenly over the availabilities."""
    exact = {entry.label: entry.exact is not None for entry in audit.entries}
    frame = audit.frame().filter(pl.col("target") > 0).sort("label", "available", maintain_order=True)
    most = int(frame.group_by("label").len()["len"].max() or 1)  # pyright: ignore[reportArgumentType]
    stride = -(-most // SHOWN_CLIENTS)
    sampled = frame.filter(pl.int_range(pl.len()).over("label") % stride == 0)
    known = pl.col("label").replace_strict(exact, return_dtype=pl.Boolean)
    ratio = {name: pl.col(name) / pl.col("target") for name in ("weight", "low", "high")}
    return sampled.with_columns(**ratio, available=100 * pl.col("available")).with_columns(
        low=pl.when(known).then("weight").otherwise("low"), high=pl.when(known).then("weight").otherwise("high")
    )


def _panel(rows: pl.DataFrame, label: str, colour: str, top: float) -> alt.LayerChart | alt.FacetChart:
    x = alt.X("available:Q", title="Available (% of rounds)", scale=alt.Scale(domain=[0, 100]))
    scale = alt.Scale(domain=[0, top], clamp=True)
    base = alt.Chart(rows)
    dots = base.mark_circle(size=24, color=colour, opacity=0.7).encode(x, alt.Y("weight:Q", title=None, scale=scale))
    bars = base.mark_rule(color=colour, opacity=0.35).encode(x, alt.Y("low:Q", scale=scale), alt.Y2("high:Q"))
    right = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(color="black", strokeDash=[5, 4]).encode(alt.Y("one:Q"))
    return alt.layer(bars, dots, right).properties(title=label, width=WIDTH, height=HEIGHT)
