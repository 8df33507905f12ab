import json

import numpy as np
import pytest

from turnout.experiment import toml
from turnout.experiment.errors import ExperimentError
from turnout.report.claims import claim_figure as reproduced
from turnout.report.claims import figure_kinds as figures
from turnout.report.page import colours
from turnout.reproduction.claim import claim_names, read_claim
from turnout.reproduction.measured import Curve, write_curves
from turnout.reproduction.measures import MEASURES
from turnout.reproduction.tables import function_and_arguments

FINAL = {"name": "final", "metric": "test_accuracy"}
FINAL_LOSS = {"name": "final", "metric": "loss"}


def curve(label, values, panel="", metric="test_accuracy", x=None):
    values = np.asarray(values, float)
    return Curve(
        panel, label, metric, np.arange(values.shape[1]) if x is None else x, tuple(range(len(values))), values
    )


def rows_of(chart, place=0):
    """The rows that a panel is drawn from."""
    made = json.loads(chart.to_json())
    part = made["concat"][place] if "concat" in made else made
    return made["datasets"][part.get("data", made.get("data"))["name"]]


def by_label(rows, *names):
    return {row["label"]: tuple(row[name] for name in names) for row in rows}


def test_a_band_is_one_standard_deviation_around_the_mean():
    (row,) = rows_of(figures.curves([curve("CA-Fed", [[0.1, 0.5], [0.1, 0.7]])], "test_accuracy"))
    assert row["mean"] == pytest.approx(60)  # percent
    assert (row["low"], row["high"]) == pytest.approx((60 - 14.1421, 60 + 14.1421))


def test_the_untrained_model_is_left_out_where_x_are_rounds():
    drawn = [curve("A", [[1.0, 2.0, 3.0]], metric="loss")]
    assert [row["x"] for row in rows_of(figures.curves(drawn, "loss"))] == [1, 2]
    assert [row["x"] for row in rows_of(figures.curves(drawn, "loss", x_title="Separation"))] == [0, 1, 2]


def test_points_are_no_lines():
    drawn = [curve("A", [[1.0, 2.0, 3.0]], metric="loss")]
    marks = json.loads(figures.curves(drawn, "loss", points=True).to_json())["mark"]
    assert marks["type"] == "circle"


def test_every_panel_has_its_own_rows():
    drawn = figures.curves([curve("A", [[1.0]], "left", "loss"), curve("A", [[2.0]], "right", "loss")], "loss")
    assert [rows_of(drawn, place)[0]["mean"] for place in (0, 1)] == [1.0, 2.0]
    assert [panel["title"] for panel in json.loads(drawn.to_json())["concat"]] == ["left", "right"]


def test_logarithmic_axes_leave_out_what_is_not_positive():
    falling = [curve("A", [[1.0, 0.1, 0.0]], metric="distance", x=np.array([0, 1, 2]))]
    rows = rows_of(figures.curves(falling, "distance", log_x=True, log_y=True))
    assert [(row["x"], row["mean"]) for row in rows] == [(1.0, 0.1)]


@pytest.mark.parametrize("log_x", [False, True])
def test_long_curves_are_thinned_from_end_to_end(log_x):
    long = [curve(label, np.arange(1.0, 9001.0)[None], metric="loss", x=np.arange(1, 9001)) for label in "AB"]
    rows = rows_of(figures.curves(long, "loss", log_x=log_x))
    assert 1000 < len(rows) <= 4000
    assert {row["x"] for row in rows} >= {1.0, 9000.0}


def test_labels_without_the_metric_are_left_out():
    rows = rows_of(figures.bars([curve("A", [[0.5]]), curve("B", [[1.0]], metric="bound")], FINAL))
    assert [row["label"] for row in rows] == ["A"]


def test_what_diverged_is_not_drawn():
    rows = rows_of(figures.curves([curve("A", [[1.0, np.inf], [1.0, 2.0]], metric="loss")], "loss"))
    assert len(rows) == 1


def test_a_label_has_the_colour_of_its_strategy():
    made = json.loads(figures.curves([curve("CA-Fed", [[1.0]]), curve("FedAvg", [[1.0]])], "test_accuracy").to_json())
    scale = made["layer"][1]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "CA-Fed": colours.USUAL["ca_fed"],
        "FedAvg": colours.USUAL["fedavg"],
    }


def test_bars_are_the_measure():
    rows = rows_of(figures.bars([curve("A", [[0.1, 0.5], [0.1, 0.7]]), curve("B", [[0.3, 0.2]])], FINAL))
    assert by_label(rows, "number", "never") == {"A": ("60", ""), "B": ("20", "")}
    assert by_label(rows, "low")["A"] == pytest.approx((60 - 14.1421,))


def test_a_target_that_is_not_reached_is_said():
    measure = {"name": "rounds_to", "metric": "test_accuracy", "target": 0.6}
    rows = rows_of(figures.bars([curve("A", [[0.1, 0.7], [0.1, 0.5]]), curve("B", [[0.3, 0.9]])], measure))
    assert by_label(rows, "mean", "never") == {"A": (None, "never in 1 of 2 seeds"), "B": (1.0, "")}


def test_a_sweep_finds_its_numbers_in_labels():
    swept = [curve(f"CA-Fed kappa={kappa:g} tau=0", [[kappa]], metric="loss") for kappa in (0.01, 100.0, 1e-05)]
    rows = rows_of(figures.sweep([*swept, curve("Unbiased", [[0.4]], metric="loss")], FINAL_LOSS, "kappa"))
    assert [row["x"] for row in rows] == [0.01, 100.0, 1e-05, None]
    assert {row["label"] for row in rows} == {"CA-Fed tau=0", "Unbiased"}
    assert all(row["x"] in (None, row["mean"]) for row in rows)


def test_a_sweep_finds_its_numbers_in_panels():
    swept = [curve("A", [[1 / count]], f"{count} clients", "loss") for count in (10, 160)]
    rows = rows_of(figures.sweep(swept, FINAL_LOSS, "panel"))
    assert {row["x"]: row["mean"] for row in rows} == {10.0: 0.1, 160.0: 1 / 160}
    with pytest.raises(ValueError, match="there is none in 'few'"):
        figures.sweep([curve("A", [[1.0]], "few", "loss")], FINAL_LOSS, "panel")


def clients(label, weight, target=None):
    known = {"weight": [weight], "pi": [[0.9, 0.9, 0.1, 0.1]], "lam": [[0.9, 0.0, 0.9, 0.0]]}
    return [
        curve(label, values, metric=name) for name, values in (known | ({"target": [target]} if target else {})).items()
    ]


def test_a_panel_that_is_not_swept_goes_across_the_others():
    drawn = [curve("A r=1", [[1.0]], "swept", "loss"), curve("A r=2", [[2.0]], "swept", "loss")]
    chart = figures.sweep([*drawn, curve("A", [[3.0]], "plain", "loss")], FINAL_LOSS, "r")
    assert by_label(rows_of(chart), "x", "mean") == {"A": (2.0, 2.0), "plain: A": (None, 3.0)}


def test_groups_are_classes_of_pi_and_lam():
    rows = rows_of(figures.groups([*clients("A", [3, 3, 1, 1]), *clients("B", [1, 1, 1, 1], [0.3, 0.1, 0.1, 0.5])]))
    ratio = {(row["label"], row["group"]): row["mean"] for row in rows}
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
