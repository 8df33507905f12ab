import json

import numpy as np
import pytest

from turnout.report.run.label_counts import label_counts_figure
from turnout.tasks import digits, from_arrays, linear, robust_regression


def discs_of(chart):
    """The rows that are drawn as discs."""
    made = json.loads(chart.to_json())
    return made["datasets"][made["vconcat"][0]["data"]["name"]]


def test_discs_are_the_counts():
    inputs, labels = np.zeros((6, 2), np.float32), np.array([0, 2, 2, 1, 0, 2])
    task = from_arrays((inputs, labels, np.array([0, 0, 0, 1, 1, 0])), model=linear(2, 3), validation_share=0.0)
    rows = {(row["client"], row["class"]): row["samples"] for row in discs_of(label_counts_figure(task))}
    assert rows == {(0, 0): 1, (0, 2): 3, (1, 0): 1, (1, 1): 1}


def test_it_is_drawn(tmp_path):
    path = tmp_path / "labels.png"
    label_counts_figure(digits(30, alpha=0.1), "test", "Digits").save(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_large_fleets_are_cut():
    chart = label_counts_figure(digits(300, partition="iid"))
    assert max(row["client"] for row in discs_of(chart)) == 99
    assert "The first 100 of 300 clients." in chart.to_json()


def test_what_cannot_be_counted_is_told():
    with pytest.raises(ValueError, match="numbers, not classes"):
        label_counts_figure(robust_regression(num_clients=2))
    with pytest.raises(ValueError, match="no test samples"):
        label_counts_figure(robust_regression(num_clients=2), "test")
