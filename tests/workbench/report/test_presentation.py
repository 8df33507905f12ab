"""What a notebook shows of a result, and what pandas and other programs get of it."""

import base64
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import turnout
from page_walker import walked
from turnout.strategies import FedAvg, Unbiased
from turnout.workbench.diagnosis.reading.log import Log
from turnout.workbench.diagnosis.world.ranking import Rank, Ranking
from turnout.workbench.report.audit import save_audit
from turnout.workbench.report.diagnosis.diagnosis_page import save_diagnosis

CLIENTS = 6


@pytest.fixture(scope="module")
def comparison():
    task = turnout.tasks.quadratics(num_clients=CLIENTS, dimension=2)
    world = turnout.World(turnout.availability.two_classes(CLIENTS))
    return turnout.compare(task, world, [FedAvg(), Unbiased()], rounds=8, seeds=2, local=turnout.Local(0.1))


@pytest.fixture(scope="module")
def audit():
    world = turnout.World(turnout.availability.two_classes(CLIENTS))
    return turnout.audit(world, FedAvg(), rounds=100)


@pytest.fixture(scope="module")
def diagnosis():
    present = np.random.default_rng(0).random((5, 80)) < np.linspace(0.1, 0.9, 5)[:, None]
    return turnout.diagnose(Log.from_matrix(present), seeds=2, rounds=0)


def shown(result):
    """The text of the HTML form and the SVG in it, once both are found to be whole."""
    html = result._repr_html_()
    walker = walked(html)
    assert walker.tags.count("table") == 1
    assert "script" not in walker.tags
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    return html, base64.b64decode(picture).decode()


def test_a_comparison_shows_words_table_and_curves(comparison):
    html, picture = shown(comparison)
    assert "FedAvg" in html
    assert "joint 95 %" in html or "95 % interval" in html
    assert "Distance to the optimum" in picture


def test_a_history_shows_its_ends_and_curves(comparison):
    html, picture = shown(comparison["FedAvg"])
    assert "Distance to the optimum" in html
    assert "Round" in picture


def test_an_audit_shows_words_table_and_weights(audit):
    html, picture = shown(audit)
    assert "of the weight in the wrong place" in html
    assert "Weight ÷ target" in picture


def test_a_diagnosis_shows_words_table_and_a_chart(diagnosis):
    html, picture = shown(diagnosis)
    assert "gets ÷ asked" in html
    assert picture.startswith("<svg")


def test_a_text_form_is_one_short_line(comparison, audit, diagnosis):
    for result in (comparison["FedAvg"], audit, diagnosis):
        assert len(repr(result)) < 300
        assert "\n" not in repr(result)


def test_the_text_form_of_a_diagnosis_names_a_class(diagnosis):
    advised = replace(diagnosis, ranking=Ranking((Rank("last_word", 0.0, 0.0, True, 0.0, "O(N)"),), 10, 5))
    assert re.search(r"FedAvg misplaces \d+ %; use LastWord$", repr(advised))


def test_json_says_all_that_the_file_says(comparison, audit, diagnosis, tmp_path):
    audited = json.loads((save_audit(audit, tmp_path / "audit", "") / "audit.json").read_text())
    assert json.loads(json.dumps(audit.to_json())) == audited
    diagnosed = json.loads((save_diagnosis(diagnosis, tmp_path / "diagnosis") / "diagnosis.json").read_text())
    assert json.loads(json.dumps(diagnosis.to_json())) == diagnosed
    assert diagnosed["sentences"]["summary"]
    compared = comparison.to_json()
    assert [point["label"] for point in compared["points"]] == ["FedAvg", "Unbiased"]
    assert json.loads(json.dumps(compared, allow_nan=False)) == compared


def test_pandas_needs_no_pyarrow(comparison, audit, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for result in (comparison, comparison["FedAvg"], audit):
        columns, frame = result.to_pandas(), result.frame()
        assert columns == frame.to_dict(as_series=False)


def test_without_pandas_it_says_what_to_install(audit, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas needs pandas: pip install pandas, or take frame\(\)"):
        audit.to_pandas()
