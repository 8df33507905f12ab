"""Charts as SVG that stands in a page: it takes the page's colour and needs nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import altair as alt
import vl_convert

INK, GRID = "currentColor", "rgba(128,128,128,0.25)"


def inline_svg(chart: Any, name: str) -> str:
    """A chart as an <svg> element; `name` tells its inner marks apart from those of other charts in the page."""
    svg = vl_convert.vegalite_to_svg(_styled(chart).to_dict())
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # not needed inside HTML
    svg = re.sub(r'(id="|url\(#)', rf"\1{name}-", svg)
    return re.sub(r'width="(\d+)" height="(\d+)" viewBox', r'style="max-width:\1px" viewBox', svg, count=1)


def _styled(chart: Any) -> alt.TopLevelMixin:
    return (
        chart.properties(background="transparent", padding=8)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=13,
            titleFontWeight="normal",
            gridColor=GRID,
            labelColor=INK,
            titleColor=INK,
            domainColor=INK,
            tickColor=INK,
        )
        .configure_legend(labelFontSize=12, labelColor=INK, titleColor=INK, orient="bottom", labelLimit=400)
        .configure_view(stroke=None)
    )
