import pytest

from turnout.workbench import Experiment, ExperimentError
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.sweep import points


def labels(document):
    return [point.label for point in points(Experiment.read(document))]


def test_a_list_where_a_number_is_due_is_a_sweep(tiny):
    assert labels(tiny) == ["fedavg cohort=2", "fedavg cohort=3", "unbiased"]


def test_the_grid_is_the_product(tiny):
    tiny["availability"]["gap"] = [0.1, 0.4]
    found = points(Experiment.read(tiny))
    assert len(found) == 6
    assert found[1].settings == {"strategy.cohort": 2, "availability.gap": 0.4}
    assert found[1].availability.arguments["gap"] == 0.4
    assert found[-1].label == "unbiased gap=0.4"


def test_words_that_two_keys_share_are_told_apart(tiny):
    tiny["local"]["learning_rate"] = [0.1, 0.2]
    tiny["server"] = {"learning_rate": [1.0, 2.0]}
    assert labels(tiny)[-1] == "unbiased local.learning_rate=0.2 server.learning_rate=2"


def test_a_list_for_an_argument_that_takes_lists_is_one_value(tiny):
    tiny["availability"] = {"name": "bernoulli", "pi": [0.1, 0.2, 0.3, 0.4, 0.5]}
    assert len(labels(tiny)) == 3


def test_such_an_argument_is_swept_by_saying_so(tiny):
    tiny["availability"] = {"name": "bernoulli", "pi": {"sweep": [0.1, [0.1, 0.2, 0.3, 0.4, 0.5]]}}
    found = points(Experiment.read(tiny))
    assert [point.settings["availability.pi"] for point in found[:2]] == [0.1, [0.1, 0.2, 0.3, 0.4, 0.5]]
    assert len(build(found)[0].setups[0].trials) == 6


def test_a_strategy_overrides_for_itself_alone(tiny):
    tiny["server"] = {"learning_rate": [1.0, 2.0], "optimizer": {"name": "adam"}}
    tiny["strategies"][1]["server"] = {"learning_rate": 0.5}
    tiny["strategies"][1]["facts"] = "online"
    found = {point.label: point for point in points(Experiment.read(tiny))}
    assert len(found) == 5
    alone = found["unbiased"]
    assert alone.server.arguments["learning_rate"] == 0.5
    assert alone.server.arguments["optimizer"]["name"] == "adam"
    assert alone.facts.name == "online"
    assert found["fedavg cohort=2 learning_rate=1"].facts.name == "oracle"


def test_optimizers_can_be_swept(tiny):
    tiny["local"]["optimizer"] = [{"name": "sgd", "momentum": 0.9}, {"name": "adam"}]
    assert labels(tiny)[-2:] == ["unbiased optimizer=sgd", "unbiased optimizer=adam"]
    assert len(build(points(Experiment.read(tiny)))[0].setups[0].trials) == 6


def test_equal_values_are_refused(tiny):
    tiny["strategies"][0]["cohort"] = [2, 2]
    with pytest.raises(ExperimentError, match="two runs would be called 'fedavg cohort=2'"):
        labels(tiny)


def test_numbers_of_a_sweep_are_of_one_type(tiny):
    tiny["strategies"][0]["cohort"] = [2, 3.0]
    found = points(Experiment.read(tiny))
    assert [type(point.settings["strategy.cohort"]) for point in found[:2]] == [float, float]


def test_points_of_one_task_and_world_share_them(tiny):
    tiny["task"]["spread"] = [1.0, 2.0]
    batches = build(points(Experiment.read(tiny)))
    assert [len(batch.setups[0].trials) for batch in batches] == [3, 3]
    assert batches[0].setups[0].trials[0].world is batches[0].setups[0].trials[2].world


def test_equal_optimizers_are_one_object(tiny):
    tiny["local"]["optimizer"] = {"name": "sgd", "momentum": 0.9}
    trials = build(points(Experiment.read(tiny)))[0].setups[0].trials
    assert trials[0].local.optimizer is trials[1].local.optimizer


def test_epochs_know_sizes_and_batch_size(tiny):
    tiny["task"] |= {"noise": 1.0, "num_samples": 20}
    tiny["local"] = {"batch_size": 8}
    tiny["compute"] = {"name": "fixed", "steps": 2, "unit": "epochs"}
    trial = build(points(Experiment.read(tiny)))[0].setups[0].trials[0]
    assert trial.world.compute.most == 6  # two passes of three batches
