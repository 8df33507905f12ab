"""The figure of a reproduced claim, drawn from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnout.workbench.experiment import toml
from turnout.workbench.experiment.citations import short_citation
from turnout.workbench.report.claims.claim_charts import FIGURES
from turnout.workbench.report.page.on_paper import PANEL, figure
from turnout.workbench.reproduction.measured import CURVES, Curve, read_curves
from turnout.workbench.reproduction.tables import function_and_arguments

ALONE = 560  # width of a single panel
SCALE = 1.25  # pixels of the image per pixel of the chart: results are kept beside the code, and should be small
SPREADS = {
    "curves": "Line: mean over {seeds}. Band: one standard deviation.",
    "bars": "Dot: mean over {seeds}. Whisker: one standard deviation.",
    "sweep": "Dot: mean over {seeds}. Whisker: one standard deviation.",
    "groups": "Bar: mean over {seeds}. Whisker: one standard deviation. Dashed: the target.",
}


def write_figure(folder: Path) -> Path:
    """Draw `figure.png` of a reproduction's folder from its claim.toml and its curves."""
    path = folder / "figure.png"
    claim_figure(toml.read(folder / "claim.toml"), read_curves(folder / CURVES)).save(path, scale_factor=SCALE)
    return path


def claim_figure(claim: dict[str, Any], curves: Sequence[Curve]) -> Any:
    """The figure that a claim describes; by default, the curves of its first metric."""
    asked = claim.get("figure") or {"name": "curves", "metric": curves[0].metric}
    describe, arguments = function_and_arguments(FIGURES, asked, "figure", ("curves",))
    charts = describe(curves, **arguments)
    lines = [claim.get("claim", ""), source(claim), _spread(asked, curves)]
    width = PANEL if len(charts) > 1 else ALONE
    return figure(list(charts.values()), claim.get("title", ""), lines, list(charts), width=width)


def source(claim: dict[str, Any]) -> str:
    """The source of a claim: authors, year, and the place in the paper."""
    paper = short_citation(claim["paper"]) if claim.get("paper") else ""
    where = claim.get("where", "")
    return f"{paper}, {where}" if paper and where else paper or where.capitalize()


def _spread(figure: dict[str, Any], curves: Sequence[Curve]) -> str:
    seeds = max(len(curve.seeds) for curve in curves)
    form = "Dot: mean over {seeds}." if figure.get("points") else SPREADS[figure["name"]]
    return form.format(seeds=f"{seeds} seeds") if seeds > 1 else ""
