"""Metrics and records are defined in one place, and names that are not listed there are understood."""

import ast
from pathlib import Path

import numpy as np
import pytest

import turnout
from turnout import metrics
from turnout.metrics import BYTES_UPLOADED, METRICS, RECORDS, match_digits, metric_named, record_named, usual_name

SOURCE = Path(turnout.__file__).parent


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_listed_metric_is_what_its_name_says(metric, monkeypatch):
    assert metric_named(metric.name) is metric
    monkeypatch.setattr(metrics, "_BY_NAME", {})
    guessed = metric_named(metric.name)
    for trait in ("split", "percent", "higher_is_better", "on_test_data", "factor", "words"):
        assert getattr(guessed, trait) == getattr(metric, trait), trait


@pytest.mark.parametrize(
    ("name", "title", "split", "percent", "higher_is_better"),
    [
        ("hits_accuracy", "Hits accuracy", "none", True, True),
        ("test_f1", "Test f1", "test", False, True),
        ("worst_client_loss", "Worst client loss", "worst", False, False),
        ("validation_rmse", "Validation rmse", "validation", False, False),
        ("perplexity", "Perplexity", "none", False, False),
    ],
)
def test_a_name_of_ones_own_is_understood_by_its_ends(name, title, split, percent, higher_is_better):
    metric = metric_named(name)
    assert (metric.title, metric.split) == (title, split)
    assert (metric.percent, metric.higher_is_better) == (percent, higher_is_better)
    assert not metric.in_report


def test_what_is_taken_on_test_data_must_not_choose():
    chosen_by = {metric.name for metric in METRICS if not metric.on_test_data}
    assert chosen_by == {"distance", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy"}


def test_numbers_are_shown_in_their_unit():
    share, plain = metric_named("test_accuracy"), metric_named("train_loss")
    assert (share.axis_title, share.number(0.123)) == ("Test accuracy (%)", "12.3")
    assert (plain.axis_title, plain.number(0.1234, signed=True)) == ("Training loss", "+0.123")
    assert share.spread(np.array([0.5, 0.6])) == "55.0 ± 7.1"
    assert plain.spread(np.array([0.5])) == "0.5"


def test_single_and_double_precision_are_shown_alike():
    single = np.array([0.56, 0.591], np.float32)
    share = metric_named("test_accuracy")
    assert share.spread(single) == share.spread(single.astype(np.float64))


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (2.0213, 0.0087, "2.0213 ± 0.0087"),
        (2.0213, 0.52, "2.02 ± 0.52"),
        (12.34, 5.1, "12.3 ± 5.1"),
        (0.5, 0.0, "0.500 ± 0.000"),
        (123456.0, 700.0, "123456 ± 700"),
        (3.21e-5, 1.2e-6, "3.21e-05 ± 0.12e-05"),
        (2.0, 1e-9, "2.0000 ± 0.0000"),
        (0.0, 0.0, "0 ± 0"),
    ],
)
def test_a_mean_and_its_spread_have_the_same_decimals(mean, deviation, text):
    half = deviation / np.sqrt(2)
    assert metric_named("train_loss").spread(np.array([mean - half, mean + half])) == text


def test_the_ends_of_an_interval_have_the_same_decimals():
    assert metric_named("train_loss").ends(-0.01234, 1.2) == "-0.01 to +1.20"
    assert metric_named("test_accuracy").ends(-0.01234, 0.2) == "-1.2 to +20.0"


def test_what_is_not_finite_is_shown_as_it_is():
    assert match_digits((np.inf, np.nan), 0.0) == ["inf", "nan"]


def test_apps_may_call_a_metric_otherwise():
    assert [usual_name(name) for name in ("acc", "eval_loss", "recall")] == ["test_accuracy", "test_loss", "recall"]


def test_a_record_has_a_title_listed_or_not():
    assert record_named("local_steps") in RECORDS
    assert record_named("bytes_sent").title == "Bytes sent"


def test_no_other_file_spells_a_metric_or_reads_its_name():
    spelt = {metric.name for metric in METRICS} - {metrics.DISTANCE}  # a word that has other uses, too
    pieces = {piece for name in spelt for piece in name.split("_")}
    offences = []
    for path in set(SOURCE.rglob("*.py")) - {SOURCE / "metrics.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            name = str(node.value) if isinstance(node, ast.Constant) else ""
            reads = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith")
            if name in spelt or (reads and pieces.intersection(_constants(node))):
                offences.append(f"{path.relative_to(SOURCE)}, line {node.lineno}: {ast.unparse(node)}")
    assert not offences, "metrics.py has a constant for each name, and says what a name means"


def _constants(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (24325336, "24.3 MB"), (6.1e15, "6.1e+03 TB")]
)
def test_bytes_are_shown_in_their_unit(value, text):
    assert record_named(BYTES_UPLOADED).number(value) == text
    assert record_named("uploads").number(9969.4) == "9,969"
