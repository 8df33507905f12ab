"""`seed = "run"`: every seed has data and a world of its own."""

import jax
import numpy as np
import pytest

from turnout import availability, tasks
from turnout.workbench import ExperimentError, load
from turnout.workbench.experiment.build import audit_experiment
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.run import run
from turnout.workbench.report.run.run_page import write_report

SYNTHETIC = {"name": "synthetic_leaf", "num_clients": 6, "num_features": 8, "num_classes": 3, "seed": "run"}
SHUFFLED = {"name": "two_classes", "shuffle": True, "seed": "run"}


def experiment(**changes):
    document = {
        "rounds": 6,
        "seeds": [2, 5],
        "evaluate_every": 3,
        "task": SYNTHETIC,
        "availability": SHUFFLED,
        "local": {"steps": 2, "batch_size": 8, "learning_rate": [0.1, 0.03]},
        "strategies": ["fedavg", "ca_fed"],
    }
    return Experiment.read(document | changes)


def of_one_seed(seed, **changes):
    parts = {"task": SYNTHETIC | {"seed": seed}, "availability": SHUFFLED | {"seed": seed}}
    return run(experiment(seeds=[seed], **(parts | changes)))


def assert_same_run(outcome, row, alone):
    for name, values in alone.history.metrics.items():
        np.testing.assert_allclose(outcome.history.metrics[name][row], values[0], rtol=1e-5, atol=1e-6, err_msg=name)
    for name, values in alone.history.clients.items():
        np.testing.assert_allclose(outcome.history.clients[name][row], values[0], rtol=1e-4, atol=1e-5, err_msg=name)


def test_every_seed_is_the_run_of_that_seed_alone(tmp_path):
    drawn = run(experiment(), out=tmp_path / "run")
    assert drawn.experiment.drawn == ("data", "world")
    for row, seed in enumerate(drawn.experiment.seeds):
        alone = of_one_seed(seed)
        for outcome in drawn.points:
            assert_same_run(outcome, row, alone[outcome.label])
            np.testing.assert_array_equal(outcome.target[row], alone[outcome.label].target)
            np.testing.assert_array_equal(outcome.history.pi[row], alone[outcome.label].history.pi)
    stored = load(tmp_path / "run")
    for outcome in stored.points:
        np.testing.assert_allclose(outcome.target, drawn[outcome.label].target)
        assert outcome.history.drawn
        assert outcome.one_world.history.seeds == (2,)
        np.testing.assert_allclose(outcome.one_world.target, drawn[outcome.label].target[0])
    page = write_report([tmp_path / "run"], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "each with its own data and world" in page


def test_the_world_alone_may_be_drawn():
    drawn = run(experiment(task=SYNTHETIC | {"seed": 0}, strategies=["unbiased"]))
    assert drawn.experiment.drawn == ("world",)
    assert drawn.points[0].target.ndim == 1
    alone = of_one_seed(5, task=SYNTHETIC | {"seed": 0}, strategies=["unbiased"])
    assert_same_run(drawn.points[0], 1, alone.points[0])


def test_a_task_without_data_is_drawn_too():
    quadratics = {"name": "quadratics", "num_clients": 4, "seed": "run"}
    drawn = run(experiment(task=quadratics, strategies=["fedavg"]))
    alone = of_one_seed(5, task=quadratics | {"seed": 5}, strategies=["fedavg"])
    assert_same_run(drawn.points[0], 1, alone.points[0])


@pytest.mark.slow
def test_calibrated_steps_are_those_of_each_draw():
    pair = {"strategies": ["fedavg", "unbiased"], "calibrate": True}
    drawn = run(experiment(**pair))
    alone = [of_one_seed(seed, **pair) for seed in (2, 5)]
    for row, single in enumerate(alone):
        for outcome in drawn.points:
            assert_same_run(outcome, row, single[outcome.label])
    for outcome in drawn.points:
        factors = [single[outcome.label].rate_factor for single in alone]
        assert outcome.rate_factor == pytest.approx(np.mean(factors))


def test_the_audit_is_that_of_the_first_seed():
    audit = audit_experiment(experiment(strategies=["fedavg"]), rounds=50)
    own = audit_experiment(
        experiment(task=SYNTHETIC | {"seed": 2}, availability=SHUFFLED | {"seed": 2}, strategies=["fedavg"]), rounds=50
    )
    np.testing.assert_array_equal(audit.entries[0].weights, own.entries[0].weights)


def test_inputs_that_all_draws_share_are_held_once():
    deals = [tasks.digits(num_clients=5, seed=seed) for seed in range(3)]
    common, own = deals[0].beside(deals)
    pool = common.train.inputs
    assert pool.shape == deals[0].train.inputs.shape
    assert own.train.inputs is None
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(own))
    apart = [tasks.synthetic_leaf(num_clients=5, seed=seed) for seed in range(3)]
    common, own = apart[0].beside(apart)
    assert len(common.train.inputs) == sum(len(task.train.inputs) for task in apart)
    entries = own.train.rows[2][: apart[2].train.num_entries]
    np.testing.assert_array_equal(common.train.inputs[entries], apart[2].train.inputs[apart[2].train.rows])


def test_draws_that_differ_in_more_than_numbers_are_refused():
    own = {"name": "test_draws:growing", "seed": "run"}
    with pytest.raises(ExperimentError, match="equally many clients, not 3 and 6"):
        run(experiment(task=own))
    some, none = (tasks.synthetic_leaf(num_clients=3, test=share) for share in (0.1, 0.0))
    with pytest.raises(ValueError, match="some draws of the task have validation or test data"):
        some.beside([some, none])


def growing(seed: int = 0):
    return tasks.quadratics(num_clients=1 + seed)


def test_other_texts_and_other_places_are_refused():
    with pytest.raises(ExperimentError, match=r'task\.seed: given "runs", expected a whole number or "run"'):
        experiment(task=SYNTHETIC | {"seed": "runs"})
    with pytest.raises(ExperimentError, match=r"local: unknown key 'seed'"):
        experiment(local={"seed": "run"})
    assert "seed" not in availability.markov.__annotations__
    with pytest.raises(ExperimentError, match=r"availability: unknown key 'seed'"):
        experiment(availability={"name": "markov", "pi": 0.5, "lam": 0.0, "seed": "run"})
