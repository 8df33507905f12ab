import numpy as np
import pytest

from turnout.tasks import digits, from_arrays, linear, robust_regression
from turnout.workbench.report.run.plots import label_counts_charts, label_counts_figure


def test_discs_are_the_counts():
    inputs, labels = np.zeros((6, 2), np.float32), np.array([0, 2, 2, 1, 0, 2])
    task = from_arrays((inputs, labels, np.array([0, 0, 0, 1, 1, 0])), model=linear(2, 3), validation_share=0.0)
    rows = [row for rows in label_counts_figure(task).to_dict()["datasets"].values() for row in rows]
    discs = {(row["x"], row["y"]): row["size"] for row in rows if "size" in row}
    assert discs == {("0", "0"): 1, ("0", "2"): 3, ("1", "0"): 1, ("1", "1"): 1}


def test_sums_stand_below_the_discs():
    discs, sums = label_counts_charts(np.array([[1, 0, 3], [1, 1, 0]]))
    assert (discs.kind, sums.kind) == ("discs", "bars")
    assert sums.series[0].y.tolist() == [4, 2]
    assert discs.x.names == sums.x.names == ("0", "1")


def test_it_is_drawn(tmp_path):
    path = tmp_path / "labels.png"
    label_counts_figure(digits(30, alpha=0.1), "test", "Digits").save(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_large_fleets_are_cut():
    chart = label_counts_figure(digits(300, partition="iid")).to_dict()
    assert max(int(row["x"]) for rows in chart["datasets"].values() for row in rows) == 99
    assert chart["title"]["subtitle"] == ["The first 100 of 300 clients."]


def test_what_cannot_be_counted_is_told():
    with pytest.raises(ValueError, match="numbers, not classes"):
        label_counts_figure(robust_regression(num_clients=2))
    with pytest.raises(ValueError, match="no test samples"):
        label_counts_figure(robust_regression(num_clients=2), "test")
