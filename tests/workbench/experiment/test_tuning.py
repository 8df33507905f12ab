import csv
import tomllib

import numpy as np
import pytest

from turnout.workbench import Experiment, ExperimentError
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.tuning import save_tuned, tune

RATES = [0.001, 0.1, 3.0]  # too slow, good, and divergent on quadratics of curvature 1


@pytest.fixture(scope="module")
def document():
    return {
        "rounds": 30,
        "seeds": [7, 8],
        "task": {"name": "quadratics", "num_clients": 4, "dimension": 2},
        "availability": {"name": "bernoulli", "pi": 1.0},
        "local": {"steps": 2, "learning_rate": RATES},
        "strategies": [
            {"name": "fedavg", "label": "all"},
            {"name": "fedavg", "label": "some", "cohort": [2, 3], "local": {"proximal": 0.5}},
        ],
    }


@pytest.fixture(scope="module")
def tuned(document):
    return tune(Experiment.read(document), "train_loss", keep=["strategy.cohort"])


def test_each_strategy_gets_its_best(tuned):
    assert [choice.label for choice in tuned.choices] == ["all", "some cohort=2", "some cohort=3"]
    assert all(choice.chosen == {"local.learning_rate": 0.1} for choice in tuned.choices)
    assert all(choice.at_edge() == {} for choice in tuned.choices)


def test_a_point_that_diverged_is_not_chosen(tuned):
    slow, good, divergent = tuned.choices[0].values.mean(axis=1)
    assert good < slow
    assert not divergent < 1e6


@pytest.mark.parametrize(
    ("task", "rates", "metric"),
    [
        ({"name": "quadratics", "num_clients": 4}, [3.0, 4.0], "train_loss"),  # finite, and above the first model's
        ({"name": "digits", "num_clients": 4}, [1e29, 1e30], "validation_accuracy"),  # finite, of a model that is not
    ],
)
def test_nothing_is_chosen_where_everything_diverged(document, task, rates, metric):
    local = {"steps": 2, "learning_rate": rates}
    divergent = document | {"rounds": 10, "task": task, "local": local, "strategies": ["fedavg"]}
    with pytest.raises(ExperimentError, match="tuning: fedavg: no point of its grid converged"):
        tune(Experiment.read(divergent), metric)


def test_the_edge_of_a_grid_is_told(document):
    narrow = document | {"local": {"steps": 2, "learning_rate": [0.001, 0.01]}, "strategies": [{"name": "fedavg"}]}
    (choice,) = tune(Experiment.read(narrow), "train_loss").choices
    assert choice.at_edge() == {"local.learning_rate": 0.01}


def test_the_tuned_experiment_gives_the_chosen_numbers(tuned):
    experiment = tuned.experiment()
    assert Experiment.read(experiment.document()) == experiment
    again = run(experiment)
    assert [point.label for point in again.points] == [outcome.label for outcome in tuned.outcomes()]
    for mine, before in zip(again.points, tuned.outcomes(), strict=True):
        np.testing.assert_allclose(mine.history.final("distance"), before.history.final("distance"), rtol=1e-4)


def test_what_a_strategy_had_to_itself_stays_its_own(tuned):
    alone, with_proximal, _ = tuned.experiment().strategies
    assert alone.local is None or "proximal" not in alone.local.arguments
    assert with_proximal.local.arguments["proximal"] == 0.5


def test_the_folder_holds_the_grid_and_the_experiment_that_was_asked_for(tuned, document, tmp_path):
    asked = Experiment.read(document | {"seeds": 3, "rounds": 50})
    folder = save_tuned(tuned, asked, tmp_path / "tuned")
    stored = Experiment.read(tomllib.loads((folder / "experiment.toml").read_text()))
    assert (stored.seeds, stored.rounds) == ((0, 1, 2), 50)
    with (folder / "tuning.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(RATES) * 2
    assert {row["seed"] for row in rows} == {"7", "8"}
    assert sum(row["chosen"] == "True" for row in rows) == 3 * 2


@pytest.mark.parametrize("metric", ["test_accuracy", "worst_decile_accuracy"])
def test_test_data_choose_nothing(document, metric):
    with pytest.raises(ExperimentError, match="test data"):
        tune(Experiment.read(document), metric)


def test_a_metric_that_is_not_taken_is_refused(document):
    with pytest.raises(ExperimentError, match="train_loss"):
        tune(Experiment.read(document), "validation_accuracy")


def test_a_swept_world_is_refused(document):
    swept = document | {"availability": {"name": "two_classes", "gap": [0.1, 0.2]}}
    with pytest.raises(ExperimentError, match=r"availability\.gap"):
        tune(Experiment.read(swept), "train_loss")


def test_nothing_to_choose_is_an_error(document):
    plain = document | {"local": {"steps": 2}, "strategies": ["fedavg"]}
    with pytest.raises(ExperimentError, match="nothing to choose"):
        tune(Experiment.read(plain), "train_loss")
    with pytest.raises(ExperimentError, match="is not swept"):
        tune(Experiment.read(document), "train_loss", keep=["strategy.cohrt"])


def test_a_choice_among_tables_that_are_none_is_an_error(document):
    with pytest.raises(ExperimentError, match="'locl' of a strategy's own: did you mean 'local'"):
        tune(Experiment.read(document), "train_loss", among=["locl"])
