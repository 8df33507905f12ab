import functools
import json

import numpy as np
import pytest

from turnout.errors import FolderError
from turnout.files.whole import whole_file
from turnout.workbench import ExperimentError
from turnout.workbench.experiment import run as running
from turnout.workbench.reproduction import reproduce as reproducing
from turnout.workbench.reproduction import stored
from turnout.workbench.reproduction.claim import read_claim
from turnout.workbench.reproduction.curve_table import read_curves
from turnout.workbench.reproduction.reproduce import reproduce
from turnout.workbench.reproduction.stored import folder_of_same_runs, is_done, read_result, refresh, reproduce_from


@pytest.fixture
def claim(tiny_claim, write_claim):
    return read_claim(write_claim(tiny_claim))


@pytest.fixture
def folder(claim, tmp_path):
    reproduce(claim, tmp_path / "out")
    return tmp_path / "out"


def test_a_folder_is_enough_to_get_the_same_numbers(claim, folder, tmp_path):
    files = {"claim.toml", "experiment.toml", "curves.csv.gz", "result.json", "manifest.json"}
    assert {path.name for path in folder.iterdir()} == files
    again = reproduce(read_claim(folder / "claim.toml"), tmp_path / "again")
    assert (tmp_path / "again" / "curves.csv.gz").read_bytes() == (folder / "curves.csv.gz").read_bytes()
    assert again.verdict == read_result(folder)["verdict"] == "reproduced"


def test_the_result_tells_what_was_run(folder):
    result = read_result(folder)
    assert (result["name"], result["profile"], result["seeds"]) == ("tiny", "quick", 2)
    assert result["checks"][0]["says"] == "fast ahead of slow in train loss"
    assert result["device"]["platform"] == "cpu"
    assert {"jax", "turnout"} <= result["versions"].keys()


def test_curves_hold_metrics_costs_and_clients(folder):
    curves = {(one.label, one.metric): one for one in read_curves(folder / "curves.csv.gz")}
    assert curves["fast", "train_loss"].values.shape == (2, 5)
    uploads = curves["fast", "uploads"].values
    assert np.all(np.diff(uploads, axis=1) >= 0)
    assert np.all(uploads[:, 0] == 0)
    assert uploads[:, -1].sum() == curves["fast", "asked"].values.sum()
    assert curves["fast", "pi"].values.shape == (1, 5)


def test_what_is_done_is_known(claim, folder, tiny_claim, write_claim):
    assert is_done(claim, folder)
    assert not is_done(read_claim(write_claim(tiny_claim), settings=("experiment.rounds=5",)), folder)
    assert is_done(read_claim(write_claim(tiny_claim | {"title": "Other words"})), folder)


def test_checks_can_be_made_anew_from_the_curves(folder):
    before = read_claim(folder / "claim.toml")
    text = (folder / "claim.toml").read_text().replace('label = "fast", smaller', 'label = "slow", smaller')
    with whole_file(folder / "claim.toml") as draft:  # so that the manifest follows
        draft.write_text(text)
    drawn = []
    assert refresh(folder, lambda work: drawn.append(read_curves(work / "curves.csv.gz")))["verdict"] == (
        "not reproduced"
    )
    assert read_result(folder)["verdict"] == "not reproduced"
    assert len(drawn) == 1
    assert read_claim(folder / "claim.toml").runs == before.runs


def test_a_changed_claim_is_checked_by_the_words_of_now(tiny_claim, write_claim, tmp_path, monkeypatch):
    settings = ("experiment.rounds=3",)
    reproduce(read_claim(write_claim(tiny_claim), settings=settings), tmp_path / "out")
    shipped = write_claim(tiny_claim | {"notes": "Seen since."})

    def read(name, *rest, **more):
        return read_claim(shipped if name == "tiny" else name, *rest, **more)

    monkeypatch.setattr(stored, "read_claim", read)
    assert refresh(tmp_path / "out")["notes"] == "Seen since."
    assert read_claim(tmp_path / "out" / "claim.toml").settings == list(settings)


def test_runs_of_another_claim_are_looked_at_and_not_made_again(folder, tiny_claim, write_claim, tmp_path):
    other = read_claim(write_claim(tiny_claim | {"title": "Otherwise"}, "other"))
    assert folder_of_same_runs(other, folder.parent) == folder
    found = reproduce_from(other, folder, tmp_path / "other")
    assert read_result(tmp_path / "other")["command"] == other.command != read_result(folder)["command"]
    assert (found["name"], found["title"], found["verdict"]) == ("other", "Otherwise", "reproduced")
    assert is_done(other, tmp_path / "other")
    assert (tmp_path / "other" / "curves.csv.gz").read_bytes() == (folder / "curves.csv.gz").read_bytes()
    tiny_claim["experiment"]["rounds"] = 5
    assert folder_of_same_runs(read_claim(write_claim(tiny_claim, "third")), folder.parent) is None


def test_rates_are_chosen_and_told(tiny_claim, write_claim, tmp_path):
    tiny_claim["experiment"]["local"]["learning_rate"] = [0.001, 0.1]
    tiny_claim["tuning"] = {"metric": "train_loss"}
    found = reproduce(read_claim(write_claim(tiny_claim)), tmp_path / "tuned")
    assert {curve.label for curve in found.curves} == {"fast", "slow"}
    result = read_result(tmp_path / "tuned")
    assert result["chosen"][""]["fast"] == {"local.learning_rate": 0.1}
    assert result["at_edge"][""] == {"fast": {"local.learning_rate": 0.1}}
    assert len((tmp_path / "tuned" / "tuning.csv").read_text().splitlines()) == 1 + 2 * 2 + 2


def test_a_search_of_its_own_has_its_own_seeds(tiny_claim, write_claim):
    tiny_claim["experiment"]["local"]["learning_rate"] = [0.001, 0.1]
    tiny_claim["tuning"] = {"metric": "train_loss", "seeds": [50], "rounds": 3}
    found = reproduce(read_claim(write_claim(tiny_claim)))
    (panel,) = found.panels.values()
    assert {row["seed"] for row in panel.grid} == {50}
    assert all(curve.seeds in ((0, 1), (0,)) for curve in found.curves)
    assert panel.chosen is not None
    rate = panel.chosen["fast"]["local.learning_rate"]
    assert f"learning_rate = {rate}" in panel.experiment


def test_a_panel_without_data_is_left_out(tiny_claim, write_claim, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path))
    elsewhere = tiny_claim["checks"][0] | {"panel": "elsewhere"}
    tiny_claim["checks"] = [tiny_claim["checks"][0] | {"panel": "here"}, elsewhere]
    tiny_claim["panels"] = {"here": {}, "elsewhere": {"task": {"name": "quadratics", "centres": [[1.0], [2.0]]}}}
    tiny_claim["panels"]["elsewhere"]["availability"] = {"name": "trace", "path": "absent.csv", "slot": 600.0}
    found = reproduce(read_claim(write_claim(tiny_claim)))
    assert [finding.verdict for finding in found.findings] == ["holds", "not run"]
    assert list(found.skipped) == ["elsewhere"]
    reproduce(read_claim(write_claim(tiny_claim)), tmp_path / "in part")
    assert not is_done(read_claim(write_claim(tiny_claim)), tmp_path / "in part")  # the data may be there next time
    del tiny_claim["panels"]["here"]
    tiny_claim["checks"] = [elsewhere]
    with pytest.raises(ExperimentError, match="absent"):
        reproduce(read_claim(write_claim(tiny_claim)))


def test_a_folder_in_the_way_is_refused_before_anything_runs(claim, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(FolderError, match="exists already"):
        reproduce(claim, tmp_path / "full")


def test_a_stored_result_stays_until_the_new_one_is_whole(claim, folder):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        reproduce(claim, folder, draw=fail, again=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (folder / "tuning.csv").write_text("left by another version\n")
    (folder / "manifest.json").unlink()
    reproduce(claim, folder, draw=lambda work: (work / "figure.png").write_bytes(b"drawn"), again=True)
    assert {file.name for file in folder.iterdir()} == {*before, "figure.png"}


def test_a_refresh_that_fails_changes_nothing(folder):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        refresh(folder, fail)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_folder_that_is_being_written_is_no_result(claim, folder, tmp_path):
    hidden = tmp_path / ".out-0123abcd"
    folder.rename(hidden)
    assert folder_of_same_runs(claim, tmp_path) is None
    assert stored.reproductions(tmp_path, "**") == []


def test_a_full_disk_is_no_reason_to_leave_a_panel_out(claim, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "point.npz")

    monkeypatch.setattr("turnout.workbench.experiment.kept.write_archive", full)
    with pytest.raises(OSError, match="No space left"):
        reproduce(claim, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_processes_do_not_run_one_panel(claim, tmp_path):
    kept = reproducing.KeptPanels(tmp_path / "out")
    with kept.at_work(reproducing._asked(claim, "")), pytest.raises(FolderError, match="another process"):
        reproduce(claim, tmp_path / "out")


def test_a_drawing_that_fails_leaves_nothing(claim, tmp_path):
    def fail(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        reproduce(claim, tmp_path / "out", draw=fail)
    assert not (tmp_path / "out").exists()


def test_another_folder_is_told(tmp_path):
    with pytest.raises(ExperimentError, match=r"no result\.json"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({}))


def test_a_claims_own_words_keep_the_panel_that_each_had_to_show(tiny_claim, write_claim):
    tiny_claim["panels"] = {"few": {"rounds": 2}, "more": {"rounds": 3}}
    tiny_claim["checks"] = [{**tiny_claim["checks"][0], "says": "faster is nearer"}]
    found = reproduce(read_claim(write_claim(tiny_claim)))
    assert [finding.says for finding in found.findings] == ["few: faster is nearer", "more: faster is nearer"]


def test_a_check_may_have_words_of_its_own(tiny_claim, write_claim):
    tiny_claim["checks"][0]["says"] = "the fast one is nearer"
    found = reproduce(read_claim(write_claim(tiny_claim)))
    assert [finding.says for finding in found.findings] == ["the fast one is nearer"]


@pytest.fixture
def two_panels(tiny_claim, write_claim):
    panels = {"short": {"rounds": 3}, "long": {"rounds": 4}}
    checks = [check | {"panel": name} for check in tiny_claim["checks"] for name in panels]
    document = tiny_claim | {"panels": panels, "checks": checks}
    return lambda only=(), **changes: read_claim(write_claim(document | changes), only_panels=only)


def interrupted_at(number, monkeypatch):
    """Make the run of a panel of this number, counted from 0, end as by Ctrl-C; the panels begun are collected."""
    begun, run_panel = [], reproducing._run_panel

    def run(claim, name, *rest):
        begun.append(name)
        if len(begun) > number:
            raise KeyboardInterrupt
        return run_panel(claim, name, *rest)

    monkeypatch.setattr(reproducing, "_run_panel", run)
    return begun


def test_an_interrupted_claim_goes_on_after_its_finished_panels(two_panels, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(1, patch)
        with pytest.raises(KeyboardInterrupt):
            reproduce(two_panels(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    begun = interrupted_at(9, monkeypatch)
    reproduce(two_panels(), tmp_path / "out")
    assert begun == ["long"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["out"]
    reproduce(two_panels(), tmp_path / "whole")
    for file in ("curves.csv.gz", "experiment-short.toml", "experiment-long.toml"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize("tuned", [False, True])
def test_an_interrupted_panel_goes_on_after_its_finished_strategies(
    tuned, tiny_claim, write_claim, tmp_path, monkeypatch
):
    tiny_claim["experiment"]["strategies"][1]["name"] = "fedlaavg"  # a program of its own
    if tuned:
        tiny_claim["experiment"]["local"]["learning_rate"] = [0.1, 0.2]
        tiny_claim["tuning"] = {"metric": "train_loss", "seeds": [50], "rounds": 2}
    claim, run, begun = read_claim(write_claim(tiny_claim)), running.run_group, []
    programs = 4 if tuned else 2  # of the search, and of the runs

    def run_group(tasks, group, *rest, until):
        begun.append(type(group.all_trials[0].strategy).__name__)
        if len(begun) > until:
            raise KeyboardInterrupt
        return run(tasks, group, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_group", functools.partial(run_group, until=programs - 1))
        with pytest.raises(KeyboardInterrupt):
            reproduce(claim, tmp_path / "out")
    monkeypatch.setattr(running, "run_group", functools.partial(run_group, until=99))
    reproduce(claim, tmp_path / "out")
    assert begun == [*["FedAvg", "FedLaAvg"] * (programs // 2), "FedLaAvg"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["out"]
    reproduce(claim, tmp_path / "whole")
    assert begun[programs + 1 :] == ["FedAvg", "FedLaAvg"] * (programs // 2)
    assert (tmp_path / "out" / "curves.csv.gz").read_bytes() == (tmp_path / "whole" / "curves.csv.gz").read_bytes()


def test_panels_that_would_run_otherwise_now_are_run_again(two_panels, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(1, patch)
        with pytest.raises(KeyboardInterrupt):
            reproduce(two_panels(), tmp_path / "out")
    begun = interrupted_at(9, monkeypatch)
    reproduce(two_panels(costs=[]), tmp_path / "out")
    assert begun == ["short", "long"]


def test_a_panel_that_was_run_alone_serves_the_whole_claim(two_panels, tmp_path, monkeypatch):
    begun = interrupted_at(9, monkeypatch)
    reproduce(two_panels(only=("short",)), tmp_path / "alone")
    reproduce(two_panels(), tmp_path / "whole")
    assert begun == ["short", "long"]
    assert not (tmp_path / ".panels").exists()
    reproduce(two_panels(only=("short",)), tmp_path / "other")
    reproduce(two_panels(), tmp_path / "again", again=True)
    assert begun == ["short", "long", "short", "short", "long"]
