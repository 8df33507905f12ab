"""A page that renews itself while a run goes on, of the run itself and of a process that looks on."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest

from turnout.errors import FolderError, UserError
from turnout.files.whole import FileLock
from turnout.simulator.history import History
from turnout.workbench.experiment import progress as standing
from turnout.workbench.experiment.kept import KeptPoint, KeptPoints
from turnout.workbench.experiment.progress import PROGRESS, ProgressNotes, Standing
from turnout.workbench.report.run import live_page as live_server
from turnout.workbench.report.run.live_page import live_page, version, words


def history(seed):
    rng = np.random.default_rng(seed)
    return History(
        seeds=(0, 1),
        rounds=4,
        evaluated=np.arange(5),
        metrics={"train_loss": rng.uniform(0.1, 1.0, (2, 5))},
        records={"uploads": np.full((2, 4), 3.0)},
        clients={"available": np.full((2, 5), 4.0), "weight": np.full((2, 5), 0.2)},
        params=[],
        target=np.full(5, 0.2),
    )


@pytest.fixture
def folder(tmp_path):
    """A run folder whose run is under way."""
    unfinished = tmp_path / "run" / "unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "start.json").write_text(json.dumps({"experiment": {"title": "Under <way>"}}))
    return tmp_path / "run"


def keep(folder, label, seed=0):
    KeptPoints(folder / "unfinished", "asked").keep(label, KeptPoint(history(seed), 1.0, 2.0))


def note(folder, **content):
    (folder / "unfinished" / PROGRESS).write_text(json.dumps({"share": 0.25, "left": 90.0, "latest": {}} | content))


def test_progress_is_passed_on_and_noted_with_the_time_left(folder, monkeypatch):
    clock = iter([0.0, 10.0, 10.1, 20.0])
    monkeypatch.setattr("turnout.workbench.experiment.progress.time.monotonic", lambda: next(clock))
    shares, latest = [], []
    noted = ProgressNotes(folder / "unfinished" / PROGRESS, shares.append, latest.append)
    left = []
    for share in (0.2, 0.4, 0.45, 0.6):
        noted.watch({"train_loss": share, "distance": np.nan})
        noted.progress(share)
        left.append(Standing.of(folder).left)
    assert shares == [0.2, 0.4, 0.45, 0.6]
    assert [value["train_loss"] for value in latest] == shares
    assert left == [None, pytest.approx(30.0), pytest.approx(30.0), pytest.approx(20.0)]  # the third came too soon
    assert Standing.of(folder).latest == {"train_loss": 0.6, "distance": None}


def test_a_run_goes_on_though_its_progress_cannot_be_written(tmp_path):
    shares = []
    ProgressNotes(tmp_path / PROGRESS / "below", shares.append, None).progress(0.5)
    (tmp_path / "there").mkdir()
    ProgressNotes(tmp_path / "there", shares.append, None).progress(0.6)
    assert shares == [0.5, 0.6]


def test_how_a_run_stands(folder, monkeypatch):
    assert Standing.of(folder) == Standing("running", "Under <way>")
    note(folder, latest={"train_loss": 0.5})
    keep(folder, "fedavg")
    now = Standing.of(folder)
    assert (now.state, now.share, now.left, [o.label for o in now.outcomes]) == ("running", 0.25, 90.0, ["fedavg"])
    assert words(now, folder) == "25 % done, about 90 seconds left. Newest values: train loss 0.5."
    for left, text in ((70.6, "about 71 seconds left"), (262.0, "about 4 minutes left"), (0.2, "about 2 seconds left")):
        assert f"25 % done, {text}." in words(replace(now, left=left), folder)
    monkeypatch.setattr(standing, "QUIET", -1.0)
    with FileLock(folder / "unfinished" / "lock"):
        assert Standing.of(folder).state == "running"
    assert words(Standing.of(folder), folder) == f"Stopped at 25 %: go on with turnout run --resume {folder}"


def test_a_damaged_note_or_point_is_left_out(folder):
    (folder / "unfinished" / PROGRESS).write_text('{"share": 0.')
    (folder / "unfinished" / "point-0.npz").write_bytes(b"half of it")
    assert Standing.of(folder) == Standing("running", "Under <way>")


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(FolderError, match="neither finished nor under way"):
        Standing.of(tmp_path)


def test_the_page_has_what_is_finished_and_asks_its_server_for_the_rest(folder):
    first = live_page(Standing.of(folder), folder)
    assert "Under &lt;way&gt;" in first
    assert "No strategy is finished yet" in first
    keep(folder, "fedavg")
    keep(folder, "last_word", seed=1)
    now = Standing.of(folder)
    page = live_page(now, folder)
    assert f'data-version="{version(now)}"' in page
    assert "connect-src 'self'" in page
    assert 'fetch("progress"' in page
    assert "LastWord" in page
    assert version(now) != version(Standing("running"))


def test_a_page_of_a_finished_run_is_its_report(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "report.html").write_text("the report")
    assert live_page(Standing.of(tmp_path), tmp_path) == "the report"


def answer(address, **headers):
    """Status and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=3600) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def test_a_process_that_looks_on_serves_one_page_to_this_machine_and_stops_at_ctrl_c(folder):
    keep(folder, "fedavg")
    note(folder)
    command = [sys.executable, "-m", "turnout", "report", "--watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
            code, progress = answer(f"{address}progress")
            assert (code, json.loads(progress)["share"]) == (200, 0.25)
            code, page = answer(address)
            assert code == 200
            assert "Under &lt;way&gt;" in page
            assert answer(f"{address}start.json")[0] == 404
            assert answer(f"{address}../run/unfinished/start.json")[0] == 404
            assert answer(address, Host="elsewhere.example:80")[0] == 403
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=3600)
        finally:
            process.kill()  # or the wait for its end would last for ever if something above fails
    assert (process.returncode, said) == (130, "stopped: nothing half-done is left\n")


def test_a_run_serves_its_page_while_it_goes_on(turnout, monkeypatch):
    servers, answers = [], []

    class Noticed(live_server.LiveServer):
        def __init__(self, *given):
            super().__init__(*given)
            servers.append(self)

    def simulate(*_, **__):
        answers.append(answer(f"{servers[0].address}progress"))
        raise UserError("enough was seen")

    monkeypatch.setattr(live_server, "LiveServer", Noticed)
    monkeypatch.setattr("turnout.workbench.cli.run._simulate", simulate)
    result = turnout("run", "tiny.toml", "--live", "--out", "there")
    assert result.exit_code == 2
    assert servers[0].address in result.stderr
    ((code, progress),) = answers
    assert (code, json.loads(progress)["version"]) == (200, "running 0")
    with pytest.raises(urllib.error.URLError):
        answer(f"{servers[0].address}progress")


def test_a_port_that_is_taken_or_none(folder):
    with live_server.LiveServer(folder, 0) as server:
        for port in (server.server_port, 100_000):
            with pytest.raises(UserError, match=f"--port {port}: .*give another one"):
                live_server.LiveServer(folder, port)


def test_watching_is_of_one_run(turnout, folder):
    result = turnout("report", "--watch", str(folder), str(folder))
    assert result.exit_code == 2
    assert "name one run folder" in result.stderr
    assert "neither finished nor under way" in turnout("report", "--watch", ".").stderr
