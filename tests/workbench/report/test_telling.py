"""What a chart does not show by itself is said."""

from dataclasses import replace

import numpy as np
import pytest

from turnout.workbench.report.page.chart import (
    Axis,
    Cells,
    Chart,
    Picture,
    Series,
    coinciding,
    why_silent,
    with_coincidences,
)
from turnout.workbench.report.page.colours import BLUE, Style
from turnout.workbench.report.page.shell import figures_or_why, page

STYLE, ROUNDS = Style.of(BLUE), np.arange(3.0)


def lines(log=False, **values):
    series = tuple(Series(label, STYLE, np.asarray(y, float), ROUNDS) for label, y in values.items())
    return Chart("lines", "Worst tenth", Axis("Round"), Axis("Worst tenth", "%", log), series, "The note.")


def test_lines_that_lie_on_one_another_are_said_to():
    chart = lines(a=[0, 1, 2], b=[0, 1.001, 2], c=[2, 1, 0], d=[0, 1, 2.01])
    assert coinciding(chart) == [["a", "b", "d"]]
    assert with_coincidences(chart).note == "The note. Lines that coincide: a, b and d."
    assert with_coincidences(lines(a=[0, 1, 2], c=[2, 1, 0])).note == "The note."
    assert coinciding(lines(a=[0, 1, np.nan], b=[0, 1, np.nan], c=[0, 1, 5])) == [["a", "b"]]


def test_on_a_logarithmic_axis_small_values_are_far_apart():
    values = {"a": [1e3, 1e-3, 1e-6], "b": [1e3, 1e-3, 1e-3]}
    assert coinciding(lines(**values)) == [["a", "b"]]
    assert coinciding(lines(log=True, **values)) == []


def test_a_chart_of_one_value_says_nothing():
    assert why_silent(lines(a=[0, 0, 0], b=[0, 0, 0])) == "Worst tenth: 0 % everywhere, so there is no chart."
    assert why_silent(lines(a=[np.nan] * 3)) == "Worst tenth: no finite value, so there is no chart."
    assert why_silent(lines(a=[0, 0, 0], b=[0, 0, 1])) == ""


def test_one_group_needs_no_bars():
    series = tuple(Series(label, STYLE, np.array([100.0])) for label in "ab")
    chart = Chart("bars", "Who", Axis("", names=("50 % available",)), Axis(""), series, targets=np.array([100.0]))
    assert why_silent(chart) == "Who: all clients form one group (50 % available), so there is no chart."
    alone = replace(chart, series=series[:1], targets=None)
    assert why_silent(alone) == "Who: there is one bar only, of 100, so there is no chart."
    two = replace(chart, x=Axis("", names=("10 %", "90 %")), targets=np.array([50.0, 50.0]))
    assert why_silent(two) == ""
    nothing = replace(two, series=tuple(replace(one, y=np.zeros(2)) for one in series), targets=None)
    assert why_silent(nothing) == "Who: every bar is 0, so there is no chart."


@pytest.mark.parametrize(("state", "silent"), [(3, True), (0, False)])
def test_a_picture_of_one_state_says_nothing(state, silent):
    cells = np.full((2, 3), 3, np.uint8)
    cells[0, 0] = state
    styles = {name: STYLE for name in ("away", "excluded", "failed", "active")}
    part = Cells("a", ("0", "1"), np.arange(3), cells, (), ())
    reason = why_silent(Picture("Who", Axis(""), Axis(""), (part,), styles, 2))
    assert reason == ("Who: every client was active in every round, so there is no chart." if silent else "")


def test_a_page_has_the_reason_in_place_of_the_chart():
    flat, steep = lines(a=[0, 0, 0]), lines(a=[0, 1, 2])
    html = page("Title", [figures_or_why({"flat": flat, "steep": steep}, "flat", "steep", "absent")], {"flat": flat})
    assert html.count("<canvas") == 1
    assert "Worst tenth: 0 % everywhere, so there is no chart." in html
    assert 'id="data">{}</script>' in html
