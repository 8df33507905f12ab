"""What people read of a diagnosis: the sentences, the page, the terminal, the folder."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from page_walker import walked
from turnout.errors import FolderError
from turnout.workbench.diagnosis.diagnose import diagnose
from turnout.workbench.diagnosis.findings.all_findings import examine
from turnout.workbench.diagnosis.findings.cycles import Cycle, Cycles
from turnout.workbench.diagnosis.findings.fedavg_weights import FedAvgWeights, total_variation
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.ranking import Rank, Ranking
from turnout.workbench.experiment.experiment_file import read_experiment
from turnout.workbench.report.diagnosis import cycle_words, diagnosis_words, readable
from turnout.workbench.report.diagnosis import diagnosis_page as pages
from turnout.workbench.report.diagnosis.diagnosis_charts import _profile, diagnosis_charts
from turnout.workbench.report.diagnosis.diagnosis_page import diagnosis_page
from turnout.workbench.report.diagnosis.world_file import document

RANKING = Ranking(
    (
        Rank("unbiased", 0.004, 0.01, True, 0.3, "O(1)", "needs π"),
        Rank("fedavg", 0.41, 0.0, False, 0.0, "O(1)"),
        Rank("<mine>", 0.5, 0.0, False, 0.0, "O(1)"),
    ),
    rounds=4000,
    clients=7,
)


@pytest.fixture(scope="module")
def html(diagnosis):
    return diagnosis_page(replace(diagnosis, ranking=RANKING))


def test_the_page_is_whole_and_stands_alone(html):
    walker = walked(html)
    assert walker.headings == [
        "Availability",
        "Who moves together",
        "Cycles",
        "Rest between participations",
        "Change over time",
        "Whom FedAvg trains for",
        "Lost uploads",
        "How long the fleet remembers",
        "Strategies",
        "The fitted world beside the log",
    ]
    assert walker.tags.count("canvas") >= 6
    assert not re.search(r"https?:|src=|@import|url\((?!#)", html)


def test_names_are_text_not_markup(html):
    assert "<ann>" not in html
    assert "&lt;ann&gt;" in html
    assert "&lt;mine&gt;" in html


def test_warnings_are_shown_where_there_are_any(diagnosis, html):
    assert "mended or doubtful" not in html
    log = replace(diagnosis.log, warnings=("3 duplicate rows were dropped, the first at line 7",))
    assert "<li>3 duplicate rows were dropped, the first at line 7</li>" in diagnosis_page(replace(diagnosis, log=log))


def weighted(diagnosis, weights, target):
    weights, target = np.array(weights), np.array(target)
    distance = total_variation(weights, target)
    found = FedAvgWeights(target, weights, weights, distance, distance, 0, np.argsort(-np.abs(weights - target)))
    return replace(diagnosis, findings=replace(diagnosis.findings, weights=found))


def test_the_first_sentence_says_whom_the_model_is_trained_for(diagnosis):
    """Two of seven clients get 0.6, and should get 0.2; ½(0.2 + 0.2 + 5 · 0.08) = 0.4."""
    skewed = weighted(diagnosis, [0.3, 0.3, *[0.08] * 5], [0.1, 0.1, *[0.16] * 5])
    assert diagnosis_words.favoured(skewed) == (2 / 7, pytest.approx(0.2))
    assert diagnosis_words.headline(skewed) == (
        "FedAvg on this fleet trains mostly for 29 % of the clients: they get half of the weight, where 20 % was asked"
        "; in all, 40 % of the weight goes to the wrong clients."
    )
    assert "about as asked: 0 %" in diagnosis_words.headline(weighted(diagnosis, [1 / 7] * 7, [1 / 7] * 7))


def test_the_longest_cycle_is_the_window_of_those_that_amplify(diagnosis):
    nobody = np.zeros(diagnosis.log.num_clients)
    day = Cycle("daily", 23.8, 1e-6, 0.5, 0.3, 0.2, 12.0, np.linspace(0.2, 0.8, 24), nobody, nobody, nobody, nobody > 0)
    week = replace(day, name="weekly", period=168.2)

    def words(*cycles, seconds):
        log = replace(diagnosis.log, slot_seconds=seconds)
        return diagnosis_words.diagnosis_words(
            replace(diagnosis, log=log, findings=replace(diagnosis.findings, cycles=Cycles(*cycles)))
        )["cycles"]

    assert words(day, week, None, seconds=3600.0)[-1].endswith("per cycle: window = 168, if a round lasts 60 minutes.")
    assert words(day, replace(week, p_value=0.9), None, seconds=3600.0)[-1].endswith(
        "window = 24, if a round lasts 60 minutes."
    )
    assert words(None, None, replace(day, name="unnamed"), seconds=None)[-1].endswith("window = 24.")
    assert "window" not in words(replace(day, p_value=0.9), None, None, seconds=3600.0)[-1]


def test_the_recommendation_comes_first(diagnosis, html):
    audited = replace(diagnosis, ranking=RANKING)
    advice = "Use Unbiased: in a world like this log FedAvg misplaces 41 % of the weight; with Unbiased it is 0.4 %."
    assert diagnosis_words.diagnosis_words(audited)["summary"][0] == advice
    assert html.index(advice) < html.index("FlowerStrategy(Unbiased())") < html.index("trains mostly for")
    assert {"name": "unbiased"} in document(audited)["strategies"]

    def with_ranks(*ranks):
        return diagnosis_words.recommendation(replace(diagnosis, ranking=replace(RANKING, ranks=ranks)))[0]

    plain, far = RANKING.ranks[1], Rank("fedau", 0.3, 0.01, False, 0.1, "O(N)")
    assert with_ranks(replace(plain, distance=0.002, consistent=True)).startswith("FedAvg will do: in a world like")
    assert with_ranks(far, plain) == (
        "No strategy that was tried is fair here. FedAU comes nearest: it misplaces 30 % of the weight, FedAvg 41 %."
    )
    assert diagnosis_words.recommendation(diagnosis) == []


def test_fedavg_is_recommended_where_it_is_about_right_else_last_word_else_the_best():
    best, last_word, plain = (Rank(name, 0.2, 0.0, True, 0.1, "O(N)") for name in ("mifa", "last_word", "fedavg"))
    off = replace(plain, consistent=False)
    assert Ranking((best, last_word, plain), 10, 7).recommended is plain
    near = replace(off, distance=0.02)
    assert Ranking((best, last_word, near), 10, 7).recommended is near
    assert Ranking((best, last_word, off), 10, 7).recommended is last_word
    assert Ranking((best, replace(last_word, consistent=False), off), 10, 7).recommended is best


def test_lost_uploads_are_told(diagnosis):
    uploads = np.array([200] * 6 + [0])
    arrived = np.array([0.97, 0.97, 0.96, 0.97, 0.98, 0.6, np.nan])
    lossy = examine(replace(diagnosis.log, uploads=uploads, arrived=arrived))
    text = diagnosis_words.diagnosis_words(replace(diagnosis, findings=lossy))["uploads"]
    assert text[0] == "9.2 % of the uploads are lost: that much work is done for nothing."
    # Jeffreys' interval of 80 lost of 200.
    assert (
        text[1]
        == "1 client loses more than the fleet beyond chance, most of all fay (40 %; 95 % interval 33 % to 47 %)."
    )
    assert re.search(r"With the losses FedAvg misplaces \d+ % of the weight, \d+ % if every upload arrived", text[2])
    assert "<td>33 % to 47 %</td>" in diagnosis_page(replace(diagnosis, findings=lossy))
    whole = examine(replace(diagnosis.log, uploads=uploads, arrived=np.where(uploads > 0, 1.0, np.nan)))
    assert diagnosis_words.diagnosis_words(replace(diagnosis, findings=whole))["uploads"] == ["Every upload arrived."]
    assert diagnosis_words.diagnosis_words(diagnosis)["uploads"] == ["The log does not say which uploads arrived."]


def test_outages_and_the_basis_of_the_weights_are_told():
    present = np.random.default_rng(0).random((30, 300)) < 0.5
    present[:, 100:140] = False
    found = diagnose(replace(Log.from_matrix(present), first_round=1), seeds=1, rounds=0)
    assert "Rounds 101–140: nobody, which the clients do not explain" in " ".join(
        diagnosis_words.diagnosis_words(found)["log"]
    )
    assert "Counted over: every slot." in diagnosis_page(found)
    assert (found.studied.watched_matrix().sum(axis=1) == 260).all()


def test_moments_have_a_date_where_the_log_has_dates():
    day, hour = 1772409600.0, 3600.0  # 2026-03-02 UTC, a Monday
    log = replace(Log.from_matrix(np.ones((2, 72), bool), slot_seconds=hour), first_round=1)
    assert (readable.moment(log, 5), readable.stretch(log, 5, 8)) == (
        "6 (5 hours after the beginning)",
        "6–8 (5 hours to 8 hours after the beginning)",
    )
    log = replace(log, dated=True, zone="UTC", begins=day + hour * np.arange(72))
    assert readable.moment(log, 30) == "31 (2026-03-03 06:00 UTC)"
    assert readable.stretch(log, 5, 8) == "6–8 (2026-03-02 05:00 to 08:00 UTC)"
    assert readable.stretch(log, 70, 72) == "71–72 (2026-03-04 22:00 to 2026-03-05 00:00 UTC)"
    assert readable.moment(replace(log, zone="America/New_York"), 0) == "1 (2026-03-01 19:00 America/New_York)"
    assert readable.moment(replace(log, zone=""), 0) == "1 (2026-03-02 00:00)"
    assert readable.moment(replace(log, slot_seconds=None), 0) == "1"


def test_a_change_is_located(diagnosis):
    drift = replace(diagnosis.findings.drift, fleet_p_value=0.0, change_slot=144, level_before=0.5, level_after=0.25)
    findings = replace(diagnosis.findings, drift=drift)
    text = diagnosis_words.diagnosis_words(replace(diagnosis, findings=findings))["drift"][0]
    assert "that is there went from 50 % to 25 % at slot 144 (24 hours after the beginning)." in text
    rounds = replace(diagnosis, findings=findings, log=replace(diagnosis.log, slot_seconds=None, first_round=1))
    assert "to 25 % at round 145." in diagnosis_words.diagnosis_words(rounds)["drift"][0]


@pytest.mark.parametrize(
    ("peak", "name", "dated", "text"),
    [
        (23.99, "daily", False, "00:00"),
        (3.5, "daily", True, "03:30"),
        (5 * 24 + 20.0, "weekly", True, "Saturday, 20:00"),
        (30.0, "weekly", False, "06:00 of day 2 of the week"),
    ],
)
def test_peaks_are_times_of_day(peak, name, dated, text):
    present = np.random.default_rng(0).random((12, 800)) < 0.5
    log = replace(Log.from_matrix(present, slot_seconds=3600.0), dated=dated)
    cycle = replace(examine(log).cycles.daily, name=name, peak=peak)
    assert cycle_words._peak(cycle, log) == text
    in_utc = replace(log, zone="UTC")
    assert ("(UTC)" in cycle_words._peak(cycle, in_utc)) == (dated or name == "daily")
    assert ("(UTC)" in _profile(cycle, in_utc).x.title) == (dated or name == "daily")


def test_of_no_cycle_the_likeliest_is_named():
    log = Log.from_matrix(np.random.default_rng(0).random((12, 800)) < 0.5)
    (cycle,) = examine(log).cycles.tested
    text = cycle_words._cycle(replace(cycle, p_value=1.0, period=37.0), log)
    assert text == "No cycle is seen; the likeliest has 37 rounds (p = 1)."


def test_a_slowest_client_is_named_only_if_it_is_slower_than_the_median(diagnosis):
    mixing = diagnosis.findings.mixing
    for low, words in ((0.5, "surely longer for none"), (900.0, "at least 6.25 days for client")):
        changed = replace(mixing, relaxation_low=np.full_like(mixing.relaxation_low, low))
        text = diagnosis_words.diagnosis_words(replace(diagnosis, findings=replace(diagnosis.findings, mixing=changed)))
        assert words in text["mixing"][0]


def test_lags_are_lags_on_the_axis(diagnosis):
    beside = diagnosis_charts(diagnosis)["like-autocorrelation"]
    assert beside.x.title == "Lag in hours"
    assert beside.series[0].x[:3] == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_sentences_state_what_was_found(diagnosis):
    told = {name: " ".join(lines) for name, lines in diagnosis_words.diagnosis_words(diagnosis).items()}
    assert "get less than a tenth of the weight that they should get, 1 of which never came." in told["summary"]
    assert "7 clients over 600 slots of 10 minutes (4.17 days)." in told["log"]
    assert "surely have memory" in told["availability"]
    assert re.search(r"autocorrelation from one slot of 10 minutes to the next is 0\.[56]", told["availability"])
    assert "need no rest" in told["separation"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 seconds"), (600, "10 minutes"), (7200, "2 hours"), (864_000, "10 days")]
)
def test_durations(seconds, text):
    assert diagnosis_words.duration(float(seconds)) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (-1e-17, "0 %"), (3e-15, "0 %"), (0.0012, "0.12 %"), (0.055, "5.5 %"), (0.123, "12 %")],
)
def test_shares(share, text):
    assert diagnosis_words.percent(share) == text


def test_the_terminal_tells_the_same(diagnosis):
    longest = Rank("debiased", 0.0000555, 0.0000444, True, 0.11, "O(N · model)")
    ranking = replace(RANKING, ranks=(*RANKING.ranks, longest))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(pages.overview(replace(diagnosis, ranking=ranking)), crop=False)
    text = console.export_text()
    assert max(map(cell_len, text.splitlines())) <= 80
    assert text.startswith("Use Unbiased: in a world like this log FedAvg misplaces 41 % of the weight;")
    for expected in ("availability", "fitted world", "Unbiased", "<mine>", "steadiest first: Unbiased", "chance"):
        assert expected in text


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([], "LastWord needs a memory of one model per client; no strategy without one is fair here."),
        (
            [Rank("fedau", 0.0, 0.0, True, 0.3, "O(N)")],
            "LastWord needs a memory of one model per client; without one, take FedAU.",
        ),
    ],
)
def test_what_to_take_without_a_memory_is_told(diagnosis, others, words):
    ranks = (Rank("last_word", 0.0, 0.0, True, 0.3, "O(N · model)", remembers_models=True), *others, RANKING.ranks[1])
    told = diagnosis_words.recommendation(replace(diagnosis, ranking=replace(RANKING, ranks=ranks)))
    assert told[0].startswith("Use LastWord: in a world like this log FedAvg misplaces 41 % of the weight")
    assert told[1] == words


def test_the_folder_is_whole_or_absent(diagnosis, tmp_path, monkeypatch):
    folder = pages.save_diagnosis(diagnosis, tmp_path / "new" / "folder")
    files = {"diagnosis.html", "diagnosis.json", "world.toml", "manifest.json"}
    assert {file.name for file in folder.iterdir()} == files
    numbers = json.loads((folder / "diagnosis.json").read_text())
    assert numbers["sentences"]["summary"][0] == diagnosis_words.headline(diagnosis)
    with pytest.raises(FolderError, match="exists already"):
        pages.save_diagnosis(diagnosis, folder)

    def broken(_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(pages, "world_toml", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        pages.save_diagnosis(diagnosis, tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


@pytest.mark.integration
@pytest.mark.parametrize(("name", "autocorrelation"), [("flash1000", "0.83"), ("stunner_100", "0.89")])
def test_recorded_phones_are_diagnosed_end_to_end(name, autocorrelation, recorded_phones, tmp_path):
    found = diagnose(recorded_phones(name))
    text = (pages.save_diagnosis(found, tmp_path / name) / "diagnosis.html").read_text()
    assert f"autocorrelation from one slot of 10 minutes to the next is {autocorrelation}." in text
    assert "There is a daily cycle" in text
    read_experiment(str(tmp_path / name / "world.toml"))
