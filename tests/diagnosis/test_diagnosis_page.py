"""What people read of a diagnosis: the sentences, the page, the terminal, the folder."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from page_walker import walked
from turnout.diagnosis.diagnose import diagnose
from turnout.diagnosis.findings.fedavg_weights import FedAvgWeights, total_variation
from turnout.diagnosis.world.ranking import Rank, Ranking
from turnout.errors import FolderError
from turnout.experiment.config import read_experiment
from turnout.report.diagnosis import diagnosis_folder, diagnosis_tables, diagnosis_words
from turnout.report.diagnosis.diagnosis_page import page

RANKING = Ranking(
    (
        Rank("unbiased", 0.004, 0.01, True, 0.3, "O(1)", "needs π"),
        Rank("fedavg <plain>", 0.41, 0.0, False, 0.0, "O(1)"),
    ),
    rounds=4000,
    clients=7,
)


@pytest.fixture(scope="module")
def html(diagnosis):
    return page(replace(diagnosis, ranking=RANKING))


def test_the_page_is_whole_and_stands_alone(html):
    walker = walked(html)
    assert walker.headings == [
        "Availability",
        "Who moves together",
        "Cycles",
        "Rest between participations",
        "Change over time",
        "Whom FedAvg trains for",
        "How long the fleet remembers",
        "Strategies",
        "The fitted world beside the log",
    ]
    assert walker.tags.count("canvas") >= 6
    assert not re.search(r"https?:|src=|@import|url\(", html)


def test_names_are_text_not_markup(html):
    assert "<ann>" not in html
    assert "&lt;ann&gt;" in html
    assert "fedavg &lt;plain&gt;" in html


def test_warnings_are_shown_where_there_are_any(diagnosis, html):
    assert "mended or doubtful" not in html
    log = replace(diagnosis.log, warnings=("3 duplicate rows were dropped, the first at line 7",))
    assert "<li>3 duplicate rows were dropped, the first at line 7</li>" in page(replace(diagnosis, log=log))


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


def test_sentences_state_what_was_found(diagnosis):
    told = {name: " ".join(lines) for name, lines in diagnosis_words.sentences(diagnosis).items()}
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
    ("share", "text"), [(0.0, "0 %"), (3e-15, "0 %"), (0.0012, "0.12 %"), (0.055, "5.5 %"), (0.123, "12 %")]
)
def test_shares(share, text):
    assert diagnosis_words.percent(share) == text


def test_the_terminal_tells_the_same(diagnosis):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(diagnosis_tables.overview(replace(diagnosis, ranking=RANKING)))
    text = console.export_text()
    assert text.startswith(diagnosis_words.headline(diagnosis)[:60])
    for expected in ("availability", "fitted world", "unbiased", "fedavg <plain>", "steadiest first: unbiased"):
        assert expected in text


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (
            [("fedavg", True, "O(1)"), ("last_word", True, "O(N · model)")],
            "Recommended: fedavg. It is fair to this fleet",
        ),
        ([("last_word", True, "O(N · model)"), ("fedavg", False, "O(1)")], "without that: nothing fair was found."),
        ([("last_word", True, "O(N · model)"), ("fedau", True, "O(N)")], "without that: fedau, steps vary by 30 %."),
        ([("fedau", True, "O(N)")], "Recommended: fedau. It is fair to this fleet, and its steps vary by 30 %."),
        ([("fedau", False, "O(N)")], "Recommended: fedau, which is 10 % off target."),
    ],
)
def test_it_ends_with_a_recommendation(diagnosis, ranks, words):
    ranking = Ranking(tuple(Rank(name, 0.1, 0.0, fair, 0.3, memory) for name, fair, memory in ranks), 4000, 7)
    assert words in diagnosis_words.ranking_words(replace(diagnosis, ranking=ranking))[-1]


def test_the_folder_is_whole_or_absent(diagnosis, tmp_path, monkeypatch):
    folder = diagnosis_folder.save(diagnosis, tmp_path / "new" / "folder")
    files = {"diagnosis.html", "diagnosis.json", "world.toml", "manifest.json"}
    assert {file.name for file in folder.iterdir()} == files
    numbers = json.loads((folder / "diagnosis.json").read_text())
    assert numbers["sentences"]["summary"][0] == diagnosis_words.headline(diagnosis)
    with pytest.raises(FolderError, match="exists already"):
        diagnosis_folder.save(diagnosis, folder)

    def broken(_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(diagnosis_folder, "world_toml", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        diagnosis_folder.save(diagnosis, tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


@pytest.mark.integration
@pytest.mark.parametrize(("name", "autocorrelation"), [("flash1000", "0.83"), ("stunner_100", "0.89")])
def test_recorded_phones_are_diagnosed_end_to_end(name, autocorrelation, recorded_phones, tmp_path):
    found = diagnose(recorded_phones(name))
    text = (diagnosis_folder.save(found, tmp_path / name) / "diagnosis.html").read_text()
    assert f"autocorrelation from one slot of 10 minutes to the next is {autocorrelation}." in text
    assert "There is a daily cycle" in text
    read_experiment(str(tmp_path / name / "world.toml"))
