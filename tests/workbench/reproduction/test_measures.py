import gzip

import numpy as np
import pytest

from turnout.workbench import ExperimentError
from turnout.workbench.reproduction.curve_table import Curve, Measured, read_curves, write_curves
from turnout.workbench.reproduction.measures import (
    StrategyCurves,
    asked_share,
    at,
    best,
    cost_to,
    final,
    largest,
    largest_rise,
    late_deviation,
    measure_words,
    rounds_to,
    slope,
    time_average,
    weight_over_target,
    weight_share,
)

X = np.array([0, 10, 20, 30])
ACCURACY = np.array([[0.1, 0.5, 0.9, 0.7], [0.1, 0.2, 0.3, 0.4]])


def curve(metric, values, x=X, seeds=(0, 1), panel="", label="A"):
    return Curve(panel, label, metric, np.asarray(x), seeds, np.asarray(values, float))


@pytest.fixture
def entry():
    curves = [
        curve("test_accuracy", ACCURACY),
        curve("test_loss", 1 - ACCURACY),
        curve("local_steps", [[0, 100, 200, 300]] * 2),
        curve("weight", [[1, 1, 2], [0, 0, 4]], x=range(3)),
        curve("asked", [[5, 0, 10], [5, 0, 10]], x=range(3)),
        curve("available", [[10, 10, 10], [10, 10, 10]], x=range(3)),
        curve("pi", [[0.1, 0.1, 0.9]], x=range(3), seeds=(0,)),
        curve("lam", [[0.9, 0.0, 0.0]], x=range(3), seeds=(0,)),
        curve("target", [[0.5, 0.3, 0.2]], x=range(3), seeds=(0,)),
    ]
    return StrategyCurves(Measured(curves), "", "A")


def test_ends_and_middles(entry):
    np.testing.assert_allclose(final(entry, "test_accuracy"), [0.7, 0.4])
    np.testing.assert_allclose(final(entry, "test_accuracy", last=2), [0.8, 0.35])
    np.testing.assert_allclose(at(entry, "test_accuracy", 12.0), [0.5, 0.2])


def test_best_goes_down_for_losses(entry):
    np.testing.assert_allclose(best(entry, "test_accuracy"), [0.9, 0.4])
    np.testing.assert_allclose(best(entry, "test_loss"), [0.1, 0.6])


def test_averages_leave_out_the_untrained_model(entry):
    np.testing.assert_allclose(time_average(entry, "test_accuracy"), [0.7, 0.3])
    np.testing.assert_allclose(
        late_deviation(entry, "test_accuracy"), [np.std([0.9, 0.7], ddof=1), np.std([0.3, 0.4], ddof=1)]
    )


def test_targets_reached_and_never_reached(entry):
    np.testing.assert_allclose(rounds_to(entry, "test_accuracy", 0.5), [10, np.inf])
    np.testing.assert_allclose(rounds_to(entry, "test_loss", 0.5), [10, np.inf])
    np.testing.assert_allclose(rounds_to(entry, "test_accuracy", 0.65, average=2), [20, np.inf])
    np.testing.assert_allclose(cost_to(entry, "test_accuracy", 0.5), [100, np.inf])


def test_classes_of_clients(entry):
    np.testing.assert_allclose(weight_share(entry, pi=[0.0, 0.5]), [0.5, 0])
    np.testing.assert_allclose(weight_share(entry, pi=[0.0, 0.5], lam=[0.5, 1.0]), [0.25, 0])
    np.testing.assert_allclose(weight_over_target(entry, pi=[0.5, 1.0]), [0.5 / 0.2, 1 / 0.2])
    np.testing.assert_allclose(asked_share(entry, pi=[0.0, 0.5]), [0.25, 0.25])
    np.testing.assert_allclose(asked_share(entry, pi=[0.3, 0.4]), [np.nan, np.nan])


def test_what_was_not_taken_is_named(entry):
    with pytest.raises(ExperimentError, match="did you mean 'test_accuracy'"):
        final(entry, "test_acuracy")
    with pytest.raises(ExperimentError, match="no strategy is called 'B'"):
        final(StrategyCurves(entry.measured, "", "B"), "test_accuracy")


def test_values_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="shape"):
        curve("test_accuracy", ACCURACY, seeds=(0,))


def test_curves_survive_their_table(entry, tmp_path):
    curves = [*entry.measured.curves, curve("test_accuracy", [[np.nan, np.inf, 1, 2e-9]], seeds=(5,), panel="a,b")]
    write_curves(curves, tmp_path / "curves.csv.gz")
    again = read_curves(tmp_path / "curves.csv.gz")
    assert [(one.panel, one.label, one.metric, one.seeds) for one in again] == [
        (one.panel, one.label, one.metric, one.seeds) for one in curves
    ]
    for one, before in zip(again, curves, strict=True):
        np.testing.assert_allclose(one.values, before.values, rtol=1e-6)
        np.testing.assert_allclose(one.x, before.x)


def test_another_table_is_refused(tmp_path):
    with gzip.open(tmp_path / "other.csv.gz", "wt") as file:
        file.write("a,b\n1,2\n")
    with pytest.raises(ExperimentError, match=r"other\.csv\.gz: not a table of curves"):
        read_curves(tmp_path / "other.csv.gz")


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ({"name": "final", "metric": "test_accuracy"}, "test accuracy"),
        ({"name": "at", "metric": "test_accuracy", "x": 40}, "test accuracy at 40"),
        ({"name": "late_deviation", "metric": "test_loss"}, "late deviation of test loss"),
        ({"name": "rounds_to", "metric": "test_accuracy", "target": 0.7}, "rounds to test accuracy 0.7"),
        ({"name": "cost_to", "metric": "test_loss", "target": 2}, "local steps to test loss 2"),
        ({"name": "weight_share"}, "weight share"),
    ],
)
def test_measures_in_words(measure, words):
    assert measure_words(measure) == words


def test_extremes_steps_and_powers():
    x = np.array([1.0, 10.0, 100.0])
    power = np.stack([3 * x**-0.25, 5 * x**0.5])
    measured = Measured([Curve("", "A", "error", x, (0, 1), power)])
    entry = StrategyCurves(measured, "", "A")
    np.testing.assert_allclose(slope(entry, "error"), [-0.25, 0.5])
    np.testing.assert_allclose(largest(entry, "error"), [3.0, 50.0])
    rises = largest_rise(entry, "error")
    assert rises[0] < 0 < rises[1]
