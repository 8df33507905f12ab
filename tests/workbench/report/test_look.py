"""A figure as a paper wants it: size, labels, order, ranges, logarithms, first round; and the whole set at once."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from made_up import made_up_run
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.store import save
from turnout.workbench.report.page.chart import Look
from turnout.workbench.report.run.plots import figure_set, plot

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from turnout.workbench.cli import app


@pytest.fixture(scope="module")
def run():
    return made_up_run(3, 2, 30, 20)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return save(run, tmp_path_factory.mktemp("runs") / "first")


def curves(run, **look):
    return plot(run, "curves", "test_accuracy", Look(**look)).to_dict()


def rows(made):
    return [row for data in made["datasets"].values() for row in data if "label" in row]


def scale(made, axis, layer=-1):
    return made["layer"][layer]["encoding"][axis]["scale"]


def test_size_labels_and_order(run):
    made = curves(run, size=(300, 150), labels={"FedAvg": "Baseline"}, order=("AdaFed", "Baseline"))
    assert (made["width"], made["height"]) == (300, 150)
    assert scale(made, "color")["domain"] == ["AdaFed", "Baseline", "Unbiased"]
    picture = plot(run, "availability", look=Look(size=(200, 90))).to_dict()
    assert {(panel["width"], panel["height"]) for panel in picture["concat"]} == {(200, 90)}


def test_ranges_cut_off_what_lies_outside(run):
    made = curves(run, x_range=(5, 20), y_range=(10, 40))
    assert scale(made, "x") == {"domain": [5, 20], "nice": False}
    assert scale(made, "y")["domain"] == [10, 40]
    assert all(layer["mark"]["clip"] for layer in made["layer"])
    bars = plot(run, "groups", look=Look(y_range=(0, 60))).to_dict()
    assert bars["layer"][0]["encoding"]["y"]["scale"]["domain"] == [0, 60]


def test_logarithms_and_the_first_round(run):
    made = curves(run, log="xy", from_round=10)
    assert scale(made, "x")["type"] == scale(made, "y")["type"] == "log"
    assert min(row["x"] for row in rows(made)) == 10
    cells = plot(run, "availability", look=Look(from_round=20)).to_dict()
    starts = [int(line.split(",")[1]) for text in cells["datasets"].values() for line in text.splitlines()[1:]]
    assert min(starts) >= 20


@pytest.mark.parametrize(
    ("kind", "look", "message"),
    [
        ("curves", {"labels": {"Fedavg": "x"}}, "no 'Fedavg' to rename: did you mean 'FedAvg'"),
        ("curves", {"order": ("mifa",)}, "no 'mifa' to put in order"),
        ("curves", {"labels": {"FedAvg": "AdaFed"}}, "the same label"),
        ("curves", {"log": "x"}, "begins at 0: leave out log, or begin later"),
        ("curves", {"from_round": 99}, "from round 99: FedAvg ends with round 30"),
        ("groups", {"log": "y"}, "bars that begin at 0"),
        ("groups", {"x_range": (0, 1)}, "x axis of this figure has names"),
        ("clients", {"from_round": 3}, "not drawn over rounds"),
        ("availability", {"y_range": (0, 1)}, "neither ranges nor logarithms"),
        ("availability", {"from_round": 99}, "ends with round 30"),
    ],
)
def test_what_a_figure_cannot_have_is_said(run, kind, look, message):
    with pytest.raises(ExperimentError, match=message):
        plot(run, kind, look=Look(**look))


@pytest.mark.parametrize(
    ("look", "message"),
    [
        ({"size": (5, 100)}, "at least 20x20"),
        ({"y_range": (3, 1)}, "from the smaller to the larger"),
        ({"y_range": (0, 1), "log": "y"}, "must be positive"),
        ({"log": "z"}, "must be x, y or xy"),
    ],
)
def test_a_look_that_cannot_be_is_refused(look, message):
    with pytest.raises(ValueError, match=message):
        Look(**look)


def test_the_figures_of_a_paper(run):
    figures, reasons = figure_set(run, Look(from_round=5))
    assert {"curve-test_accuracy", "groups", "weights", "clients", "staleness", "availability"} <= set(figures)
    assert reasons == []
    for point in run.points:
        point.history.metrics["worst_decile_accuracy"] = np.zeros((2, 31))
    assert figure_set(run)[1] == ["Worst tenth of clients: 0 % everywhere, so there is no chart."]
    with pytest.raises(ExperimentError, match="belong to one figure"):
        figure_set(run, Look(log="y"))


def asked(*arguments):
    return CliRunner().invoke(app, ["plot", *map(str, arguments)])


def test_from_the_command_line(folder, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    second = save(run, tmp_path / "second")
    done = asked(folder, second, "curves", "--metric", "test_accuracy", "--size", "250x120", "--format", "svg")
    assert done.exit_code == 0, done.output
    assert "second: FedAvg" in Path("curves.svg").read_text()
    options = ("--label", "FedAvg=Plain", "--order", "AdaFed", "--y-range", "0:50", "--log", "x", "--from-round", 1)
    done = asked(folder, "curves", *options, "--out", "a.svg", "--json")
    assert json.loads(done.stdout) == {"figure": "a.svg", "kind": "curves", "runs": [str(folder)]}
    assert "Plain" in Path("a.svg").read_text()
    done = asked(folder, "all", "--format", "svg", "--out", "set", "-q")
    assert done.exit_code == 0, done.output
    assert {file.name for file in Path("set").iterdir()} == {Path(line).name for line in done.stdout.split()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "big"), "--size big: must be WIDTHxHEIGHT"),
        (("--x-range", "5"), "--x-range 5: must be LOW:HIGH"),
        (("--label", "FedAvg"), "--label FedAvg: must be OLD=NEW"),
        (("--y-range", "4:2"), "from the smaller to the larger"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(folder, options, message):
    wrong = asked(folder, "curves", *options)
    assert wrong.exit_code == 2
    assert message in wrong.output
    assert wrong.output.strip().count("\n") == 0
