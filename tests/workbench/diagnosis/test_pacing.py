"""What paces cost is told as it is, from a log to the experiment that plays it."""

import json
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from timed_fleets import lines, lognormal, rows_of_rounds

from page_walker import walked
from turnout.workbench.diagnosis.diagnose import diagnose
from turnout.workbench.diagnosis.world.fitted_durations import tick_of
from turnout.workbench.diagnosis.world.pacing import PacedStrategy
from turnout.workbench.experiment.experiment_file import read_experiment
from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_page, save_diagnosis
from turnout.workbench.report.diagnosis.diagnosis_words import diagnosis_words
from turnout.workbench.report.diagnosis.work_words import pace_advice

COUNT, SLOW = 40, 14
MEDIAN = np.where(np.arange(COUNT) < COUNT - SLOW, 60.0, 480.0)
THERE = np.where(np.arange(COUNT) < COUNT - SLOW, 0.9, 0.6)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A fleet with slow clients that are rarer, as a server saw it that waits for all."""
    path = tmp_path_factory.mktemp("slow") / "log.csv"
    path.write_text("\n".join(lines(rows_of_rounds(lognormal(MEDIAN, 0.4), 80, pi=THERE))) + "\n")
    return diagnose(str(path), seeds=1, rounds=0)


def played(quorum):
    """Mean length of a round of the fleet itself."""
    rows = rows_of_rounds(lognormal(MEDIAN, 0.4), 600, pi=THERE, quorum=quorum, seed=1)
    starts = sorted({start for _, _, start, _ in rows})
    return np.diff(starts).mean(), rows


def test_rounds_last_as_long_as_they_do(slow):
    """Also where the log comes from a server that waited for all, and the quorum is another."""
    for quorum in (0.5, 0.8, 0.9, 0.95, 1.0):
        length, rows = played(quorum)
        cost = slow.pacing.of(quorum)
        assert cost.step_seconds == pytest.approx(length, rel=0.12, abs=slow.pacing.tick_seconds)
        heard = np.bincount([k for _, k, _, end in rows if np.isfinite(end)], minlength=COUNT)
        order = np.argsort(slow.log.names.astype(int))
        assert (heard[cost.unheard_clients[order]] <= 0.02 * heard.mean()).all()
        assert (heard[~cost.unheard_clients[order]] > 0).all()


def test_a_buffer_is_recommended_where_a_quorum_leaves_out_the_slow(slow):
    pacing = slow.pacing
    assert pacing.recommended.pace == "buffered"
    assert pacing.of(0.5).unheard == SLOW == pacing.of(0.5).unheard_clients.sum()
    assert pacing.of(0.5).useful_per_hour == 0 < pacing.of(1.0).useful_per_hour
    assert pacing.of(0.5, "keep").unheard == 0
    audited = (
        PacedStrategy("fedavg", 0.31, 0.3, False),
        PacedStrategy("fedau", 0.1, None, False),
        PacedStrategy("last_word", 0.004, None, True),
    )
    advice = pace_advice(replace(pacing, audited=audited), COUNT)[0]
    assert re.fullmatch(
        r"A round that waits for 90 % takes [\d.]+ times as long as one that waits for half\. With the first half "
        r"alone 14 of 40 clients would never be heard\. Buffer 3 with LastWord trains for all: 0\.4 % of the weight is "
        r"misplaced \(FedAvg would misplace 31 %\), with [\d.]+ times the useful updates per hour of waiting for all\.",
        advice,
    )
    assert advice in " ".join(diagnosis_words(replace(slow, pacing=replace(pacing, audited=audited)))["summary"])


def test_nobody_need_hurry_where_nobody_is_slow(file):
    for seed in range(3):
        found = diagnose(
            file(*lines(rows_of_rounds(lognormal(np.full(30, 60.0), 0.15), 40, pi=0.8, seed=seed))), seeds=1, rounds=0
        )
        assert found.pacing.waits_for_all
        assert not any(cost.unheard for cost in found.pacing.costs)
        assert not found.findings.work.slow.any()
        advice = " ".join(diagnosis_words(found)["pace"])
        assert "Keep rounds that wait for all answers" in advice


def test_the_page_the_numbers_and_the_experiment(slow, tmp_path):
    page = diagnosis_page(slow)
    assert {"How long work takes", "Waiting, or not"} <= set(walked(page).headings)
    assert "14 of 40 clients are slow" in page
    folder = save_diagnosis(slow, tmp_path / "out")
    numbers = json.loads((folder / "diagnosis.json").read_text())
    assert numbers["findings"]["work"]["slow"].count(True) == SLOW
    assert numbers["pacing"]["recommended"]["pace"] == "buffered"
    assert len(numbers["pacing"]["costs"][0]["unheard_clients"]) == COUNT
    assert "Slow clients also come less often" in " ".join(numbers["sentences"]["work"])
    experiment = tomllib.loads((folder / "world.toml").read_text())
    assert experiment["durations"]["name"] == "lognormal"
    assert experiment["durations"]["leaving"] == "answer"
    assert experiment["pace"] == {"name": "buffered", "size": 3}
    seconds = np.array(experiment["durations"]["median"]) * experiment["durations"]["tick_seconds"]
    order = np.argsort(slow.log.names.astype(int))
    np.testing.assert_allclose(seconds[order], MEDIAN, rtol=0.25)
    assert read_experiment(str(folder / "world.toml")).timed


def test_without_rounds_everybody_idle_is_taken_to_be_there(file):
    """A server that asks who is idle: 20 clients at work all the time, 8 of them ten times slower."""
    draw, rows = np.random.default_rng(0), []
    for k in range(20):
        clock = 0.0
        while clock < 4000:
            end = clock + (20.0 if k < 12 else 200.0) * np.exp(0.3 * draw.standard_normal())
            rows.append((k, clock, end))
            clock = end
    found = diagnose(file(*lines(rows, "client,started,ended")), seeds=1, rounds=0)
    assert found.findings.work.slow.sum() == 8
    assert found.pacing.kind == "bernoulli"
    assert any("everybody idle were there" in line for line in diagnosis_words(found)["pace"])
    # Shares of arrivals: 12 / 20 against 8 / 200 per second, so the fast have 0.94 of the weight and not 0.6.
    buffered = next(cost for cost in found.pacing.costs if cost.pace == "buffered")
    assert buffered.off_target == pytest.approx(0.6 / 0.64 - 0.6, abs=0.03)
    assert found.findings.weights.plain_distance == pytest.approx(0.6 / 0.64 - 0.6, abs=0.06)


def test_a_tick_is_a_usual_length(slow):
    """A fourth of 57 seconds is 14: ten seconds; where some work is very long, a tick is longer."""
    work, times = slow.log.work, slow.findings.work
    assert tick_of(work, times) == 10
    assert tick_of(work, replace(times, median=times.median / 100)) == pytest.approx(6.0, rel=0.7)
    assert tick_of(replace(work, seconds=work.seconds * 50), times) == 300
    assert tick_of(replace(work, seconds=work.seconds / 1e4), replace(times, median=times.median / 1e4)) == 0.001


def test_a_log_without_times_has_no_paces(diagnosis):
    assert diagnosis.pacing is None
    assert diagnosis.findings.work is None
    assert {"work", "pace"}.isdisjoint(diagnosis_words(diagnosis))
    assert "Waiting, or not" not in diagnosis_page(diagnosis)
