import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from turnout.errors import FolderError
from turnout.workbench import Experiment, ExperimentError, load, save
from turnout.workbench.experiment.run import run


@pytest.fixture(scope="module")
def shares():
    return []


@pytest.fixture(scope="module")
def finished(shares):
    document = {
        "title": "Tiny",
        "rounds": 4,
        "seeds": [3, 1],
        "task": {"name": "quadratics", "num_clients": 5, "dimension": 2},
        "availability": {"name": "two_classes"},
        "local": {"steps": 2, "learning_rate": 0.1},
        "strategies": [{"name": "fedavg", "cohort": [2, 3]}],
    }
    return run(Experiment.read(document), progress=shares.append)


def test_every_point_has_a_labelled_history(finished):
    assert [outcome.label for outcome in finished.points] == ["fedavg cohort=2", "fedavg cohort=3"]
    assert finished["fedavg cohort=3"].settings == {"strategy.cohort": 3}
    assert finished.points[0].history.seeds == (3, 1)
    assert finished.points[0].history.evaluated.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="this run has fedavg cohort=2"):
        finished["fedau"]


def test_progress_goes_from_a_little_to_all(finished, shares):
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_frames_are_tidy_and_labelled(finished):
    frame = finished.frame()
    assert frame.columns == ["label", "strategy", "strategy.cohort", "seed", "round", "kind", "name", "value"]
    asked = frame.filter((pl.col("name") == "cohort") & (pl.col("label") == "fedavg cohort=2"))
    assert asked.height == 2 * 4
    assert asked["value"].max() <= 2
    clients = finished.clients_frame()
    assert clients.height == 2 * 2 * 5
    assert clients["target"].to_list() == pytest.approx([0.2] * 20)
    assert set(clients["pi"].round(3)) == {0.9, 0.1}


def test_a_folder_reads_back_as_the_run(finished, tmp_path):
    folder = save(
        finished, tmp_path / "runs" / "a", extra=lambda run, work: (work / "note.txt").write_text(run.experiment.title)
    )
    names = {
        "experiment.toml",
        "history.parquet",
        "attendance.parquet",
        "clients.parquet",
        "models.npz",
        "run.json",
        "note.txt",
        "manifest.json",
    }
    assert {file.name for file in folder.iterdir()} == names
    again = load(folder)
    assert again.experiment == finished.experiment
    for before, after in zip(finished.points, again.points, strict=True):
        assert (before.label, before.settings) == (after.label, after.settings)
        np.testing.assert_array_equal(before.history.evaluated, after.history.evaluated)
        np.testing.assert_allclose(before.history.pi, after.history.pi)
        np.testing.assert_array_equal(before.history.params, after.history.params["params"])
        for kind in ("metrics", "records", "clients"):
            old, new = getattr(before.history, kind), getattr(after.history, kind)
            assert set(old) == set(new)
            for name in old:
                np.testing.assert_array_equal(old[name], new[name])


def test_a_folder_without_kinds_reads_back_alike(finished, tmp_path):
    folder = save(finished, tmp_path / "a")
    rows = pl.read_parquet(folder / "history.parquet")
    rows.drop("kind").write_parquet(folder / "history.parquet")
    (folder / "manifest.json").unlink()  # folders without kinds are older than manifests
    for before, after in zip(finished.points, load(folder).points, strict=True):
        np.testing.assert_array_equal(before.history.evaluated, after.history.evaluated)
        assert set(before.history.metrics) == set(after.history.metrics)
        assert set(before.history.records) == set(after.history.records)


def test_a_metric_and_a_record_may_share_a_name_and_miss_round_0(finished, tmp_path):
    def renamed(outcome):
        history = outcome.history
        later = {"uploads": history.metrics["distance"][:, 1:]}
        return replace(outcome, history=replace(history, evaluated=history.evaluated[1:], metrics=later))

    own = replace(finished, points=tuple(map(renamed, finished.points)))
    again = load(save(own, tmp_path / "a")).points[0].history
    np.testing.assert_array_equal(again.metrics["uploads"], own.points[0].history.metrics["uploads"])
    np.testing.assert_array_equal(again.records["uploads"], own.points[0].history.records["uploads"])
    assert again.evaluated.tolist() == [1, 2, 3, 4]


def test_a_folder_says_how_it_came_about(finished, tmp_path):
    about = json.loads((save(finished, tmp_path / "a") / "run.json").read_text())
    assert about["seeds"] == [3, 1]
    assert about["labels"] == ["fedavg cohort=2", "fedavg cohort=3"]
    assert about["versions"]["jax"]
    assert about["device"]["platform"] == "cpu"
    assert {"command", "commit", "platform", "seconds"} <= set(about)


def test_notes_and_origin_are_kept_when_a_run_is_read_and_written_again(finished, tmp_path):
    origin = {"command": "turnout run elsewhere.toml", "device": {"kind": "another"}, "commit": None}
    first = save(replace(finished, notes={"deployed": True, "run": "5eed"}, origin=origin), tmp_path / "first")
    again = load(first)
    assert again.notes == {"deployed": True, "run": "5eed"}
    assert again.origin == origin
    second = save(again, tmp_path / "second")
    assert (second / "run.json").read_text() == (first / "run.json").read_text()


def test_a_crash_in_the_middle_leaves_nothing(finished, tmp_path):
    def crash(run, work):
        assert (work / "history.parquet").exists()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save(finished, tmp_path / "runs" / "a", extra=crash)
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_refused_before_anything_runs(finished, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(FolderError, match="exists already"):
        run(finished.experiment, out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_used(finished, tmp_path):
    assert load(save(finished, tmp_path)).experiment == finished.experiment


def test_what_is_no_run_folder_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="not a run folder"):
        load(tmp_path)


def test_what_the_simulator_refuses_is_one_clear_error(finished):
    document = finished.experiment.document()
    document["availability"] = {"name": "diurnal", "rounds_per_day": 4}
    document["strategies"] = ["unbiased"]
    with pytest.raises(ExperimentError, match="no stationary law"):
        run(Experiment.read(document))


def test_devices_that_share_the_clients_give_the_same_numbers(finished):
    """Here it is one device; `tests/simulator/test_mesh.py` has eight."""
    shared = run(replace(finished.experiment, spread="clients"))
    for ours, theirs in zip(finished.points, shared.points, strict=True):
        np.testing.assert_allclose(ours.history.params, theirs.history.params, rtol=1e-5)
