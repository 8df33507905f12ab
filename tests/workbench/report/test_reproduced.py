import json

import numpy as np
import pytest

from turnout.workbench.experiment import toml
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.signatures import function_and_arguments
from turnout.workbench.report.claims import claim_figure as figures
from turnout.workbench.report.claims import claim_figure as reproduced
from turnout.workbench.report.page import colours
from turnout.workbench.reproduction.claim import claim_names, read_claim
from turnout.workbench.reproduction.curve_table import Curve, write_curves
from turnout.workbench.reproduction.measures import MEASURES

FINAL = {"name": "final", "metric": "test_accuracy"}
FINAL_LOSS = {"name": "final", "metric": "loss"}


def curve(label, values, panel="", metric="test_accuracy", x=None):
    values = np.asarray(values, float)
    return Curve(
        panel, label, metric, np.arange(values.shape[1]) if x is None else x, tuple(range(len(values))), values
    )


def only(charts):
    """The one panel of a figure."""
    (chart,) = charts.values()
    return chart


def by_label(chart):
    return {series.label: series for series in chart.series}


def test_a_band_is_one_standard_deviation_around_the_mean():
    (series,) = only(figures.curves([curve("CA-Fed", [[0.1, 0.5], [0.1, 0.7]])], "test_accuracy")).series
    assert series.y == pytest.approx([60])  # percent
    assert (series.low[0], series.high[0]) == pytest.approx((60 - 14.1421, 60 + 14.1421))


def test_the_untrained_model_is_left_out_where_x_are_rounds():
    drawn = [curve("A", [[1.0, 2.0, 3.0]], metric="loss")]
    assert only(figures.curves(drawn, "loss")).series[0].x.tolist() == [1, 2]
    assert only(figures.curves(drawn, "loss", x_title="Separation")).series[0].x.tolist() == [0, 1, 2]


def test_points_are_no_lines():
    drawn = [curve("A", [[1.0, 2.0, 3.0]], metric="loss")]
    assert only(figures.curves(drawn, "loss")).kind == "lines"
    assert only(figures.curves(drawn, "loss", points=True)).kind == "dots"


def test_every_panel_has_its_own_values():
    drawn = figures.curves([curve("A", [[1.0]], "left", "loss"), curve("A", [[2.0]], "right", "loss")], "loss")
    assert {panel: chart.series[0].y.tolist() for panel, chart in drawn.items()} == {"left": [1.0], "right": [2.0]}


def test_logarithmic_axes_leave_out_what_is_not_positive():
    falling = [curve("A", [[1.0, 0.1, 0.0]], metric="distance", x=np.array([0, 1, 2]))]
    chart = only(figures.curves(falling, "distance", log_x=True, log_y=True))
    assert (chart.series[0].x.tolist(), chart.series[0].y.tolist()) == ([1.0], [0.1])
    assert chart.x.log
    assert chart.y.log


@pytest.mark.parametrize("log_x", [False, True])
def test_long_curves_are_thinned_from_end_to_end(log_x):
    long = [curve(label, np.arange(1.0, 9001.0)[None], metric="loss", x=np.arange(1, 9001)) for label in "AB"]
    chart = only(figures.curves(long, "loss", log_x=log_x))
    assert 1000 < sum(len(series.y) for series in chart.series) <= 4000
    assert {1.0, 9000.0} <= set(chart.series[0].x.tolist())


def test_labels_without_the_metric_are_left_out():
    drawn = figures.bars([curve("A", [[0.5]]), curve("B", [[1.0]], metric="bound")], FINAL)
    assert list(by_label(only(drawn))) == ["A"]


def test_what_diverged_is_not_drawn():
    drawn = figures.curves([curve("A", [[1.0, np.inf], [1.0, 2.0]], metric="loss")], "loss")
    assert only(drawn).series[0].y.size == 0


def test_a_label_has_the_colour_of_its_strategy():
    drawn = figures.curves([curve("CA-Fed", [[1.0]]), curve("FedAvg", [[1.0]])], "test_accuracy")
    assert {label: series.style.light for label, series in by_label(only(drawn)).items()} == {
        "CA-Fed": colours.USUAL["ca_fed"],
        "FedAvg": colours.USUAL["fedavg"],
    }


def test_bars_are_the_measure():
    drawn = by_label(only(figures.bars([curve("A", [[0.1, 0.5], [0.1, 0.7]]), curve("B", [[0.3, 0.2]])], FINAL)))
    assert {label: series.names for label, series in drawn.items()} == {"A": ("60",), "B": ("20",)}
    assert drawn["A"].low == pytest.approx([60 - 14.1421])


def test_labels_have_the_same_order_in_all_panels():
    values = [curve("A", [[0.1]], "left"), curve("B", [[0.2]], "left")]
    drawn = figures.bars([*values, curve("B", [[0.1]], "right"), curve("A", [[0.1]], "right")], FINAL)
    assert [list(by_label(chart)) for chart in drawn.values()] == [["A", "B"], ["A", "B"]]


def test_a_target_that_is_not_reached_is_said():
    measure = {"name": "rounds_to", "metric": "test_accuracy", "target": 0.6}
    drawn = by_label(only(figures.bars([curve("A", [[0.1, 0.7], [0.1, 0.5]]), curve("B", [[0.3, 0.9]])], measure)))
    assert np.isnan(drawn["A"].y).all()
    assert drawn["A"].names == ("never in 1 of 2 seeds",)
    assert (drawn["B"].y.tolist(), drawn["B"].names) == ([1.0], ("1",))


def test_a_sweep_finds_its_numbers_in_labels():
    swept = [curve(f"CA-Fed kappa={kappa:g} tau=0", [[kappa]], metric="loss") for kappa in (0.01, 100.0, 1e-05)]
    drawn = by_label(only(figures.sweep([*swept, curve("Unbiased", [[0.4]], metric="loss")], FINAL_LOSS, "kappa")))
    assert list(drawn) == ["CA-Fed tau=0", "Unbiased"]
    assert drawn["CA-Fed tau=0"].x.tolist() == drawn["CA-Fed tau=0"].y.tolist() == [0.01, 100.0, 1e-05]
    assert drawn["Unbiased"].x is None


def test_a_sweep_finds_its_numbers_in_panels():
    swept = [curve("A", [[1 / count]], f"{count} clients", "loss") for count in (10, 160)]
    (series,) = only(figures.sweep(swept, FINAL_LOSS, "panel")).series
    assert (series.x.tolist(), series.y.tolist()) == ([10.0, 160.0], [0.1, 1 / 160])
    with pytest.raises(ValueError, match="there is none in 'few'"):
        figures.sweep([curve("A", [[1.0]], "few", "loss")], FINAL_LOSS, "panel")


def clients(label, weight, target=None):
    known = {"weight": [weight], "pi": [[0.9, 0.9, 0.1, 0.1]], "lam": [[0.9, 0.0, 0.9, 0.0]]}
    return [
        curve(label, values, metric=name) for name, values in (known | ({"target": [target]} if target else {})).items()
    ]


def test_a_panel_that_is_not_swept_goes_across_the_others():
    drawn = [curve("A r=1", [[1.0]], "swept", "loss"), curve("A r=2", [[2.0]], "swept", "loss")]
    found = by_label(only(figures.sweep([*drawn, curve("A", [[3.0]], "plain", "loss")], FINAL_LOSS, "r")))
    assert found["A"].x.tolist() == found["A"].y.tolist() == [1.0, 2.0]
    assert (found["plain: A"].x, found["plain: A"].y.tolist()) == (None, [3.0])


def test_groups_are_classes_of_pi_and_lam():
    chart = only(figures.groups([*clients("A", [3, 3, 1, 1]), *clients("B", [1, 1, 1, 1], [0.3, 0.1, 0.1, 0.5])]))
    ratio = {
        (label, name): value
        for label, series in by_label(chart).items()
        for name, value in zip(chart.x.names, series.y, strict=True)
    }
    assert ratio["A", "10 % available, correlated"] == pytest.approx(0.5)
    assert ratio["A", "90 % available, uncorrelated"] == pytest.approx(1.5)
    assert ratio["B", "10 % available, uncorrelated"] == pytest.approx(0.25 / 0.5)
    with pytest.raises(ValueError, match="without a curve of 'pi'"):
        figures.groups(clients("A", [1, 1, 1, 1])[:1])


@pytest.mark.parametrize(
    ("measure", "title"),
    [
        (FINAL, "Test accuracy (%)"),
        ({"name": "final", "metric": "train_loss", "last": 5}, "Training loss"),
        ({"name": "at", "metric": "test_accuracy", "x": 40}, "Test accuracy after 40 rounds (%)"),
        ({"name": "late_deviation", "metric": "distance"}, "Distance to the optimum, late deviation"),
        ({"name": "rounds_to", "metric": "test_accuracy", "target": 0.7}, "Rounds to a test accuracy of 70 %"),
        ({"name": "cost_to", "metric": "test_loss", "target": 0.7}, "Local steps to a test loss of 0.7"),
        ({"name": "weight_share", "pi": [0, 0.2]}, "Share of all weight (%)"),
        ({"name": "weight_over_target"}, "Weight over target"),
        ({"name": "slope", "metric": "test_accuracy"}, "Test accuracy, slope"),
        ({"name": "time_average", "metric": "test_accuracy"}, "Test accuracy, mean over the rounds (%)"),
    ],
)
def test_axes_say_what_is_measured(measure, title):
    assert figures.measure_title(measure) == title


CLAIM = {"title": "Ahead", "claim": "A is ahead.", "paper": "rodio2023federated", "where": "figure 1a"}


def test_the_figure_of_a_folder(tmp_path):
    (tmp_path / "claim.toml").write_text(toml.write(CLAIM | {"figure": {"name": "bars", "measure": FINAL}}))
    write_curves([curve("A", [[0.1, 0.5], [0.1, 0.7]])], tmp_path / "curves.csv.gz")
    assert reproduced.write_figure(tmp_path).read_bytes().startswith(b"\x89PNG")


def test_the_words_above_a_figure():
    made = json.loads(reproduced.claim_figure(CLAIM, [curve("A", [[0.1], [0.2]])]).to_json())
    assert made["title"]["text"] == "Ahead"
    assert made["title"]["subtitle"] == [
        "A is ahead.",
        "Rodio et al. 2023, figure 1a",
        "Line: mean over 2 seeds. Band: one standard deviation.",
    ]


@pytest.mark.parametrize(
    ("figure", "complaint"),
    [
        ({"name": "curvs"}, "there is no 'curvs': did you mean 'curves'"),
        ({"name": "curves", "metrc": "loss"}, "unknown key 'metrc': did you mean 'metric'"),
    ],
)
def test_a_figure_that_is_not_known_is_an_error(figure, complaint):
    with pytest.raises(ExperimentError, match=complaint):
        reproduced.claim_figure(CLAIM | {"figure": figure}, [curve("A", [[0.1]])])


@pytest.mark.parametrize("name", claim_names())
def test_shipped_claims_ask_for_figures_that_there_are(name):
    figure = read_claim(name, "quick").document["figure"]
    _, arguments = function_and_arguments(figures.FIGURES, figure, "figure", ("curves",))
    if "measure" in arguments:
        function_and_arguments(MEASURES, arguments["measure"], "figure.measure", ("entry",))


def test_a_metric_that_was_not_taken_is_an_error():
    with pytest.raises(ValueError, match="no curve of 'loss' to draw; there are test_accuracy"):
        figures.curves([curve("A", [[0.1]])], "loss")
