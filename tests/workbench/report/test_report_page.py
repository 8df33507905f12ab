# Long: all tests share one made-up run and its folder.
import base64
import json
import re
import shutil
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import turnout
from every_strategy import ONE_EACH
from page_walker import walked
from turnout.simulator.attendance import Attendance
from turnout.simulator.history import History
from turnout.workbench import Experiment
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.experiment.store import load, save
from turnout.workbench.experiment.sweep import points
from turnout.workbench.report.page import colours
from turnout.workbench.report.page.chart import Axis, Chart, Series
from turnout.workbench.report.page.shell import for_script, pack
from turnout.workbench.report.run import curves, plots
from turnout.workbench.report.run import run_charts as run_charts_module
from turnout.workbench.report.run import run_page as run_page_module
from turnout.workbench.report.run.compared import join_runs, of_history
from turnout.workbench.report.run.curves import ErrorSplit, error_splits, with_floors
from turnout.workbench.report.run.run_charts import attendance_picture, curve_charts, weight_by_group
from turnout.workbench.report.run.run_page import RunReport, Source, write_report

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from turnout.workbench.cli import app

CENTRES = [[0.0], [0.0], [0.0], [4.0]]
DOCUMENT = {
    "title": "Made <up>",
    "rounds": 6,
    "seeds": 3,
    "evaluate_every": 3,
    "task": {"name": "quadratics", "centres": CENTRES},
    "availability": {"name": "two_classes"},
    "local": {"steps": 2},
    "strategies": ["fedavg", {"name": "unbiased", "label": "fair <b>"}, "mifa"],
}
PI, LAM = np.array([0.9, 0.9, 0.1, 0.1]), np.array([0.9, 0.0, 0.9, 0.0])


def outcome(point, distance, weight, model):
    states = np.array([[3, 3, 0, 0], [2, 3, 0, 1], [3, 3, 1, 0]], np.uint8).repeat(2, axis=0)
    history = History(
        seeds=(0, 1, 2),
        rounds=6,
        evaluated=np.array([0, 3, 6]),
        metrics={"distance": np.array([[4.0, 2.0, d] for d in distance]), "train_loss": np.full((3, 3), 1.5)},
        records={"uploads": np.full((3, 6), 2.0), "local_steps": np.full((3, 6), 4.0)},
        clients={
            "available": np.tile(6 * PI, (3, 1)),
            "weight": np.tile(np.asarray(weight, float), (3, 1)),
            "stalest": np.tile([1, 1, 6, 5], (3, 1)),
        },
        params=np.full((3, 1), model),
        attendance=Attendance(0, np.arange(1, 7), np.arange(4), states),
        seconds=3.0,
        target=np.full(4, 0.25),
        pi=PI,
        lam=LAM,
    )
    return Outcome.of(point, history)


def made_up(document):
    """A run of this experiment without a simulation."""
    experiment = Experiment.read(document)
    made = (
        ([1.0, 1.1, 0.9], [3, 3, 1, 1], 0.7),
        ([0.2, 0.4, 0.0], [1, 1, 1, 1], 0.9),
        ([0.9, 1.1, 1.0], [3, 3, 1, 1], 0.8),
    )
    outcomes = [outcome(point, *numbers) for point, numbers in zip(points(experiment), made, strict=True)]
    return Run(experiment, tuple(outcomes), 1.5)


@pytest.fixture(scope="module")
def run():
    return made_up(DOCUMENT)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return save(run, tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="module")
def html(folder):
    return RunReport.of_runs([Source.read(folder)]).page()


def test_the_page_is_whole_and_stands_alone(html):
    assert walked(html).headings == [
        "Results",
        "How well the models do",
        "Who was there",
        "Whom the models are trained for",
        "Whom they serve",
        "Optimisation or bias",
        "How to get the same again",
        "Cite",
    ]
    assert not re.search(r"https?:|src=|@import|url\((?!#)", re.sub(r"(?s)<pre.*?</pre>", "", html))


def test_labels_are_text_not_markup(html):
    assert "<b>" not in html
    assert "Made &lt;up&gt;" in html
    assert "fair &lt;b&gt;" in html


def test_the_table_has_spreads_the_best_and_paired_intervals(html):
    """Differences -0.8, -0.7, -0.9: mean -0.8, half width of two comparisons 6.205 · 0.1 / √3 = 0.358."""
    assert "<strong>0.20 ± 0.20</strong>" in html
    assert '-0.80<span class="interval">-1.16 to -0.44</span>' in html
    assert '+0.00<span class="interval">-0.36 to +0.36</span><span class="interval">may be chance</span>' in html
    assert re.search(r"turnout run \S+/first/experiment\.toml", html)
    assert "@inproceedings" in html


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.S).group(1))


def test_curves_know_what_was_spent(html):
    curve = data_of(html)["curve-distance"]
    first = curve["series"][0]
    assert first["over"] == {
        "round": [0, 3, 6],
        "uploads": [0, 6, 12],
        "local_steps": [0, 12, 24],
        "seconds": [0, 1.5, 3],
    }
    assert first["y"] == [4, 2, 1]
    assert first["high"][-1] == pytest.approx(1.1)
    assert curve["y"]["log"] is True


def test_the_mean_of_curves_leaves_out_what_diverged():
    mean, spread = curves.mean_and_spread(np.array([[1.0, np.inf, np.nan], [3.0, 2.0, np.nan]]))
    np.testing.assert_allclose(mean, [2.0, 2.0, np.nan])
    np.testing.assert_allclose(spread[:2], [np.sqrt(2), 0.0])


def test_the_picture_goes_from_rare_to_frequent(run):
    picture = attendance_picture(run)
    first = picture.series[0]
    assert first.clients == ("3", "2", "1", "0")
    assert first.edges == (1, 2, 3)
    assert first.cells[:, 2].tolist() == [1, 0, 3, 2]
    assert "From the top: 10 % available, uncorrelated, then 10 % available, correlated, then" in picture.note


@pytest.mark.parametrize(("name", "tell"), [("fedbuff", True), ("fedasync", False), ("area", False)])
def test_whether_weights_tell_whom_it_trains_for_is_known_also_of_what_is_told_the_starts(name, tell):
    assert curves.sums_fresh_updates(ONE_EACH[name], 7) == tell


def test_cells_are_packed_four_a_byte():
    cells = base64.b64decode(pack(np.array([[1, 2, 3], [0, 3, 1]], np.uint8), 4))
    assert list(cells) == [1 | 2 << 2 | 3 << 4, 3 | 1 << 2]


def test_cells_of_more_states_are_packed_two_a_byte():
    cells = base64.b64decode(pack(np.array([[1, 4, 3]], np.uint8), 5))
    assert list(cells) == [1 | 4 << 4, 3]


def test_an_attendance_is_read_back_as_it_was_written(run, folder):
    before, after = run.points[1].history.attendance, load(folder).points[1].history.attendance
    assert after.seed == 0
    for name in ("rounds", "clients", "states"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert load(folder).points[0].history.seconds == 3.0


def test_folders_that_do_not_tell_who_was_there_have_a_report(folder, tmp_path):
    older = shutil.copytree(folder, tmp_path / "older")
    for name in ("attendance.parquet", "manifest.json"):
        (older / name).unlink()
    about = json.loads((older / "run.json").read_text())
    del about["seconds_of_a_run"]
    (older / "run.json").write_text(json.dumps(about))
    text = RunReport.of_runs([Source.read(older)]).page()
    assert "<h2>Who was there</h2>" not in text
    assert '"seconds"' not in text


def test_a_run_on_real_nodes_tells_who_was_there_by_its_log(folder, tmp_path):
    real = shutil.copytree(folder, tmp_path / "real")
    for name in ("attendance.parquet", "manifest.json"):
        (real / name).unlink()
    clients = pl.read_parquet(real / "clients.parquet")
    clients.with_columns(name="node " + pl.col("client").cast(pl.String)).write_parquet(real / "clients.parquet")
    events = [("0", "", "round"), ("0", "node 1", "available"), ("0", "node 1", "asked"), ("0", "node 1", "failed")]
    events += [("0", "node 3", "available"), ("1", "", "round"), ("1", "node 0", "available"), ("2", "", "round")]
    events += [("1", "node 0", "asked"), ("1", "node 0", "arrived"), ("1", "stranger", "available")]
    rows = [f"2026-01-01,{t},{client},{event}" for t, client, event in events]
    (real / "participation.csv").write_text("timestamp,round,client,event\n" + "\n".join(rows))
    seen = load(real).points[0].history.attendance
    assert seen.states.tolist() == [[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 0]]
    assert seen.rounds.tolist() == [1, 2, 3]


def test_runs_without_a_common_metric_still_show_who_took_part(run, folder):
    told = ("train_loss", "distance", "distance")
    outcomes = [
        replace(point, history=replace(point.history, metrics={name: np.ones((3, 3))}))
        for point, name in zip(run.points, told, strict=True)
    ]
    source = replace(Source.read(folder), run=replace(run, points=tuple(outcomes)))
    text = RunReport.of_runs([source]).page()
    assert "<h2>How well the models do</h2>" not in text
    assert set(data_of(text)) == {"availability", "weights", "groups", "staleness"}


def test_clients_and_rounds_are_counted_in_whole_numbers(run):
    """With two clients the axis once had half a client."""
    picture = for_script(attendance_picture(run))
    assert (picture["x"]["whole"], picture["y"]["whole"]) == (True, True)
    (panel, *_) = plots.plot(run, "availability").to_dict()["concat"]
    assert panel["encoding"]["x"]["axis"]["tickMinStep"] == 1


def test_the_error_is_split_where_the_optimum_is_known(run):
    """Centres 0, 0, 0, 4: the optimum is 1; with weights 3, 3, 1, 1 of 8 the model is drawn to 0.5."""
    found = error_splits(run)
    assert set(found) == {"fedavg", "fair <b>"}  # of mifa, sums by client tell fresh updates only
    np.testing.assert_allclose(found["fedavg"].bias, 0.5, rtol=1e-6)
    np.testing.assert_allclose(found["fedavg"].optimisation, 0.2, rtol=1e-6)
    np.testing.assert_allclose(found["fedavg"].total, 0.3, rtol=1e-6)
    np.testing.assert_allclose(found["fair <b>"].bias, 0.0, atol=1e-6)


def test_unequal_work_is_not_split():
    unequal = DOCUMENT | {"compute": {"name": "redrawn", "low": 1, "high": 3}, "local": {}}
    assert error_splits(made_up(unequal)) == {}


def test_a_bias_that_is_not_a_number_is_no_line():
    """That of a strategy whose updates have never counted; JSON could not hold it."""
    whole, nothing = np.ones(2), np.full(2, np.nan)
    lines = tuple(Series(label, colours.Style("#000", "#fff"), whole) for label in ("A", "B"))
    chart = Chart("lines", "Distance", Axis("Round"), Axis("Distance"), lines)
    splits = {"A": ErrorSplit(whole, whole, whole), "B": ErrorSplit(nothing, nothing, nothing)}
    assert [rule.label for rule in with_floors(chart, splits).rules] == ["A"]


def test_several_runs_side_by_side(run, folder, tmp_path):
    other = save(run, tmp_path / "second")
    page = write_report([folder, other], tmp_path / "both.html").read_text()
    assert "From 2 runs: first, second." in page
    assert "second: fair &lt;b&gt;" in page
    assert {series["label"] for series in data_of(page)["groups"]["series"]} == {
        f"{name}: {label}" for name in ("first", "second") for label in ("FedAvg", "fair <b>", "MIFA")
    }
    with pytest.raises(ExperimentError, match="named twice"):
        write_report([folder, folder], tmp_path / "twice.html")


def test_runs_with_other_seeds_are_not_paired(run, folder):
    """The best is of the other run, which has two seeds only."""

    def shorter(point):
        past = point.history
        cut = {name: 0.5 * values[:2] for name, values in past.metrics.items()}
        clients = {name: values[:2] for name, values in past.clients.items()}
        records = {name: values[:2] for name, values in past.records.items()}
        few = replace(past, seeds=(0, 1), metrics=cut, clients=clients, records=records, params=past.params[:2])
        return replace(point, history=few)

    source = Source.read(folder)
    other = replace(source, folder=Path("other"), run=replace(run, points=tuple(map(shorter, run.points))))
    text = RunReport.of_runs([source, other]).page()
    assert "no strategy is clearly ahead. other: fair &lt;b&gt; ends best, at 0.150 ± 0.071, but its lead over" in text
    assert len(re.findall(r'<tr data-label="other: .*<td>–</td>', text)) == 3


def test_page_figures_and_terminal_are_made_from_one_description(run, folder, tmp_path, monkeypatch):
    made = Counter()

    def count(owner, name):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *parts: made.update([name]) or plain(*parts))

    count(run_charts_module, "learning_curves")
    monkeypatch.setattr(run_charts_module, "CHARTS", {"groups": (weight_by_group, "")})
    for name in ("attention", "groups_chart"):
        count(run_charts_module, name)
    for name in ("run_table", "run_words", "join_runs", "error_splits"):
        count(run_page_module, name)
    report = RunReport.of_runs([Source(folder, run)])
    report.write(tmp_path)
    assert (report.table.row_count, len(report.words)) == (3, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "learning.png", "attention.png"}
    assert made.pop("learning_curves") == 2  # one for each metric
    assert set(made.values()) == {1}
    assert len(made) == 6


def test_labels_that_differ_stay_short(run):
    renamed = replace(run, points=tuple(replace(point, label=f"{point.label} 2") for point in run.points))
    labels = [point.label for point in join_runs([("a", run), ("b", renamed)]).points]
    assert labels == ["FedAvg", "fair <b>", "MIFA", "FedAvg 2", "fair <b> 2", "MIFA 2"]


def test_the_command_writes_the_page_or_says_why_not(folder, tmp_path):
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "page.html"), "-q"])
    assert done.output.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    lost = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert lost.exit_code == 2
    assert "not a run folder" in lost.output
    nowhere = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "no" / "page.html")])
    assert nowhere.exit_code == 2
    assert "there is no folder" in nowhere.output
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_every_figure_is_a_chart(run):
    for kind in set(plots.FIGURE_KINDS) - {"clients", "at_work", "ages"}:
        assert plots.plot(run, kind).to_dict()["$schema"]
        assert getattr(turnout.plots(run.points[0].history), kind)().to_dict()["$schema"]
    with pytest.raises(ExperimentError, match="does not tell test_accuracy by client"):
        plots.plot(run, "clients")
    for kind in ("at_work", "ages"):
        with pytest.raises(ExperimentError, match="work took no time"):
            plots.plot(run, kind)
    with pytest.raises(ExperimentError, match="did you mean 'curves'"):
        plots.plot(run, "curve")
    with pytest.raises(ExperimentError, match="no metric 'accuracy': known: distance, train_loss"):
        plots.plot(run, "curves", "accuracy")


def test_a_history_without_target_is_drawn_as_if_all_counted_alike(run):
    history = replace(run.points[0].history, target=None, pi=None, lam=None)
    chart = weight_by_group(of_history(history, "one"))
    assert chart.x.names == ("10 % available", "90 % available")
    assert chart.targets.tolist() == [50, 50]


def test_a_figure_is_written_for_a_paper(folder, tmp_path):
    out = tmp_path / "groups.svg"
    done = CliRunner().invoke(app, ["plot", str(folder), "groups", "--out", str(out)])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert "Who the model is trained for" not in text
    assert "serif" in text
    wrong = CliRunner().invoke(app, ["plot", str(folder), "groups", "--out", str(tmp_path / "a.gif")])
    assert "ends in png, svg, pdf" in wrong.output


def test_colours_can_be_seen_on_dark_paper():
    for shade in {*colours.USUAL.values(), *colours.PALETTE}:
        assert colours.contrast(colours.on_dark(shade), colours.DARK_PAPER) >= colours.LEAST_CONTRAST
    assert colours.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert colours.on_dark(colours.ORANGE) == colours.ORANGE


@pytest.mark.parametrize(
    ("metrics", "drawn"), [({"worst_decile_accuracy"}, {"learning", "attention"}), ((), {"attention"})]
)
def test_a_run_has_its_figures_whatever_was_measured(run, metrics, drawn):
    """With the worst tenth alone there was once no curve to draw, after hours of computing."""
    own = {name: np.full((3, 3), 0.5) for name in metrics}
    outcomes = tuple(replace(point, history=replace(point.history, metrics=own)) for point in run.points)
    report = RunReport.of_runs([Source(Path("here"), replace(run, points=outcomes))])
    assert set(report.figures()) == drawn
    assert "<h1>" in report.page()


def test_metrics_of_ones_own_have_a_page(run):
    own = {"hits_accuracy": np.full((3, 3), 0.5)}
    outcomes = tuple(replace(point, history=replace(point.history, metrics=own)) for point in run.points)
    curve = for_script(curve_charts(replace(run, points=outcomes))["curve-hits_accuracy"])
    assert curve["y"] == {"title": "Hits accuracy", "unit": "%"}
    assert curve["series"][0]["y"] == [50, 50, 50]
