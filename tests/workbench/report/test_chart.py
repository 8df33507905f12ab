"""One description of a chart and its writers: the script of a page, and Altair."""

import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from turnout.workbench.report.page import chart as charts
from turnout.workbench.report.page.chart import Axis, Cells, Chart, More, Picture, Rule, Series
from turnout.workbench.report.page.colours import BLUE, GREEN, ORANGE, Style
from turnout.workbench.report.page.on_paper import MARKS, caption, figure
from turnout.workbench.report.page.shell import axis_switch, figures, for_script

A = Series("a", Style.of(BLUE), np.array([1.0, np.nan, 3.0]), np.array([0.0, 1.0, 2.0]))
B = Series(
    "b", Style.of(GREEN, (6, 3)), np.array([2.0, 2.5]), np.array([0, 2]), np.array([1.0, 1.5]), np.array([3.0, 3.5])
)
LINES = Chart("lines", "A <chart>", Axis("Round"), Axis("Loss", "nats"), (A, B), "What it says.", (Rule(0.0),))


def picture(num_rows=3, num_rounds=4, num_clients=3):
    states = (np.arange(num_rows * num_rounds).reshape(num_rows, num_rounds) % 4).astype(np.uint8)
    more = (More("available", np.full(num_rows, 50.0), "%"),)
    cells = Cells("a", tuple(map(str, range(num_rows))), np.arange(1, num_rounds + 1), states, (1,), more)
    styles = {name: Style.of(BLUE) for name in ("away", "excluded", "failed", "active")}
    return Picture("Who", Axis("Round"), Axis("Clients"), (cells,), styles, num_clients, "Seed 0.")


def rows_of(made):
    return [row for rows in made["datasets"].values() for row in rows]


def lines_of(made):
    """The text that holds a picture, line by line."""
    (text,) = made["datasets"].values()
    return text.splitlines()


def layers_of(made):
    return [layer["mark"]["type"] for layer in made["layer"]]


def test_a_page_is_told_what_the_description_says_and_no_more():
    assert for_script(LINES) == {
        "kind": "lines",
        "x": {"title": "Round"},
        "y": {"title": "Loss", "unit": "nats"},
        "series": [
            {"label": "a", "style": vars(A.style) | {"dash": [1, 0]}, "y": [1, None, 3], "x": [0, 1, 2]},
            {"label": "b", "style": vars(B.style) | {"dash": [6, 3]}, "y": [2, 2.5], "x": [0, 2]}
            | {"low": [1, 1.5], "high": [3, 3.5]},
        ],
        "rules": [{"y": 0.0}],
        "height": 280,
    }


def test_a_rule_has_the_colour_of_its_series():
    floor = for_script(replace(LINES, rules=(Rule(1.0, "a", A.style),)))["rules"][0]
    assert (floor["label"], floor["style"]["light"]) == ("a", BLUE)
    drawn = figure([replace(LINES, rules=(Rule(1.0, "a", Style.of(ORANGE)),))], "", []).to_dict()
    assert drawn["layer"][-1]["encoding"]["color"] == {"value": ORANGE}


def test_title_and_note_stand_around_the_chart():
    html = figures({"one": LINES, "two": replace(LINES, keyed=True)}, "one", "two", "three")
    assert html.count("<h3>A &lt;chart&gt;</h3><p>What it says.</p>") == 2
    assert html.count('<p class="states">') == 1  # the key of the second, whose colours are its own
    assert figures({}, "one") == ""


def test_what_charts_are_drawn_over_can_be_chosen_once():
    over = Axis("Round", choices={"round": "Round", "uploads": "Uploads"})
    html = axis_switch({"one": replace(LINES, x=over), "two": replace(LINES, x=over), "three": LINES})
    assert html.count('type="radio"') == 2
    assert axis_switch({"one": LINES}) == ""


def test_a_picture_on_a_page_has_its_cells_packed_and_its_switch():
    drawn = for_script(picture())
    assert drawn["series"][0]["more"] == [{"title": "available", "values": [50, 50, 50], "unit": "%"}]
    assert drawn["series"][0]["cells"] == "5OTk"
    assert drawn["series"][0]["edges"] == [1]
    assert list(drawn["states"]) == ["away", "excluded", "failed", "active"]
    html = figures({"who": picture(num_clients=1000)}, "who")
    assert "<option>a</option>" in html
    assert "<p>Seed 0. 3 of 1,000 clients.</p>" in html


def test_paper_has_the_points_bands_and_rules_of_the_description():
    made = figure([LINES], "The title", ["What it says."]).to_dict()
    assert made["title"]["text"] == "The title"
    assert layers_of(made) == ["area", "line", "rule"]
    points = {(row["label"], row["x"]): (row["low"], row["y"], row["high"]) for row in rows_of(made) if "x" in row}
    assert points == {("a", 0): (1, 1, 1), ("a", 2): (3, 3, 3), ("b", 0): (1, 2, 3), ("b", 2): (1.5, 2.5, 3.5)}
    line = made["layer"][1]["encoding"]
    assert line["y"]["title"] == "Loss (nats)"
    assert line["color"]["scale"] == {"domain": ["a", "b"], "range": [BLUE, GREEN]}
    assert line["strokeDash"]["scale"]["range"] == [[1, 0], [6, 3]]


def test_what_a_page_can_choose_paper_draws_over_the_first():
    spent = replace(A, x=None, over={"round": np.array([1.0, 2.0, 3.0]), "uploads": np.array([10.0, 20.0, 30.0])})
    chart = replace(LINES, series=(spent,), rules=())
    assert "x" not in for_script(chart)["series"][0]
    assert [row["x"] for row in rows_of(figure([chart], "", []).to_dict())] == [1, 3]


def test_axes_of_paper_follow_the_description():
    made = figure([replace(LINES, x=Axis("n", log=True), y=Axis("Share", domain=(0.0, 2.0)))], "", []).to_dict()
    line = made["layer"][1]["encoding"]
    assert line["x"]["scale"]["type"] == "log"
    assert line["y"]["scale"] == {"domain": [0.0, 2.0], "clamp": True}


def test_panels_have_names_and_one_legend():
    made = figure([LINES, LINES], "", [], ["left", "right"]).to_dict()
    assert [panel["title"] for panel in made["concat"]] == ["left", "right"]
    assert [panel["title"]["text"] for panel in [figure([LINES], "alone", [], ["left"]).to_dict()]] == ["alone"]


def test_words_are_as_wide_as_the_charts():
    made = figure([LINES], "", ["word " * 40, ""]).to_dict()
    assert len(made["title"]["subtitle"]) == 4
    assert max(map(len, made["title"]["subtitle"])) <= 63


def test_bars_have_their_targets_across():
    names = Axis("Group", names=("few, rare", "many"))
    bars = Series("a", Style.of(BLUE), np.array([1.0, 2.0]))
    chart = Chart("bars", "", names, Axis("Share", "%"), (bars,), targets=np.array([1.5, 1.5]))
    made = figure([chart], "", []).to_dict()
    assert layers_of(made) == ["bar", "rule", "tick"]
    assert sorted((row["x"], row["y"]) for row in rows_of(made)) == [
        ("few, rare", 1.0),
        ("few, rare", 1.5),
        ("many", 1.5),
        ("many", 2.0),
    ]


def test_a_picture_on_paper_is_thinned_in_even_steps():
    made = figure([picture(300, 700, 300)], "", []).to_dict()
    lines = lines_of(made)
    assert lines[0] == "row,from,to,state"
    starts = {float(line.split(",")[1]) for line in lines[1:]}
    assert starts <= set(range(1, 702, 3))
    assert made["encoding"]["x"]["scale"]["domain"] == [1, 703]
    assert max(int(line.split(",")[0]) for line in lines[1:]) == 127
    assert caption(picture(300, 700, 300)) == "Seed 0. 128 of 300 clients. One round in 3."


def test_spells_of_one_state_are_one_bar():
    cells = replace(picture().series[0], cells=np.array([[0, 1, 1, 3]], np.uint8), clients=("0",))
    made = figure([replace(picture(), series=(cells,))], "", []).to_dict()
    assert lines_of(made)[1:] == ["0,2,4,excluded", "0,4,5,active"]


@pytest.mark.parametrize("kind", get_args(charts.Kind))
def test_every_kind_is_drawn_on_paper(kind, tmp_path):
    places = np.arange(2)
    named = kind in ("bars", "discs")
    x, y = Axis("x", names=("p", "q") if named else ()), Axis("y", names=("r", "s") if kind == "discs" else ())
    series = Series("a", Style.of(BLUE), places, places, names=("one", "two"), sizes=np.array([3, 4]))
    chart = Chart(kind, "", x, y, (series,))
    figure([chart], "Title", ["Words."]).save(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    assert set(MARKS) == set(get_args(charts.Kind))


def test_one_chart_for_each_series():
    assert [[series.label for series in one.series] for one in charts.one_each(LINES)] == [["a"], ["b"]]
    assert json.loads(json.dumps(for_script(charts.one_each(LINES)[1])))["series"][0]["label"] == "b"
