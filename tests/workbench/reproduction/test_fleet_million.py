import numpy as np
import pytest

from turnout.workbench.reproduction.curve_table import Measured
from turnout.workbench.reproduction.procedures.fleet_million import OWN_HALF, fleet_million, fleet_task, frequent


def test_the_kind_of_a_client_decides_its_classes():
    task = fleet_task(num_clients=2_000, samples_per_client=8)
    labels, owners = np.asarray(task.train.labels), np.asarray(task.train.owners)
    own = (labels < 5) == frequent(2_000)[owners]
    assert own.mean() == pytest.approx(OWN_HALF, abs=0.01)
    assert np.bincount(labels) == pytest.approx(np.full(10, 1_600), abs=200)


def test_rows_have_the_class_that_they_are_labelled_with():
    task = fleet_task(num_clients=50, samples_per_client=8)
    assert np.asarray(task.train.rows % 10).tolist() == np.asarray(task.train.labels).tolist()
    assert task.test is not None
    assert np.bincount(np.asarray(task.test.labels)).tolist() == [500] * 10
    assert int(task.test.sizes[0]) == 5_000


@pytest.mark.slow
def test_a_small_fleet_shows_what_the_large_one_does():
    measured = Measured(fleet_million(num_clients=4_000, a_round=100, rounds=60, num_seeds=2))
    accuracy = {label: measured.curve("", label, "test_accuracy").values[:, -1].mean() for label in measured.labels("")}
    assert accuracy["Unbiased"] > accuracy["FedAvg"] + 0.01
    assert measured.curve("", "FedAvg", "uploads_a_round").values.mean() == pytest.approx(100, rel=0.1)
    for cost in ("seconds_a_round", "peak_memory_gib"):
        assert measured.curve("", "Unbiased", cost).values > 0
