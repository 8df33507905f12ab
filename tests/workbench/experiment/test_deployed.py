import jax.numpy as jnp
import optax
import pytest

from turnout.server.facts import Online
from turnout.server.settings import ServerSettings
from turnout.simulator.client_optimizer import Local
from turnout.strategies import CAFed, FedAU, FedAvg, Strategy, Unbiased
from turnout.workbench import Experiment, ExperimentError
from turnout.workbench.experiment.deployed import describe_training
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.sweep import points


class Own(Strategy[None]):
    """A user's."""


def experiment_of(strategy, **changes):
    told = {"local": Local(learning_rate=0.2), "server": ServerSettings(facts=Online(prior_on=2.0))} | changes
    return describe_training(strategy, num_clients=3, rounds=9, seed=4, evaluate_every=2, **told)


@pytest.mark.parametrize(
    ("strategy", "table"),
    [
        (FedAU(cutoff=4.0), {"name": "fedau", "cutoff": 4.0}),
        (FedAvg(cohort=2), {"name": "fedavg", "cohort": 2, "normaliser": "received"}),
        (Unbiased(), {"name": "unbiased"}),
    ],
)
def test_a_training_is_described_as_an_experiment(strategy, table):
    experiment = experiment_of(strategy)
    assert experiment.strategies[0].strategy.table() == table
    assert Experiment.read(experiment.document()) == experiment
    assert (experiment.rounds, experiment.seeds) == (9, (4,))
    assert experiment.facts.arguments["prior_on"] == 2.0
    assert len(points(experiment)) == 1


@pytest.mark.parametrize("strategy", [Own(), CAFed(optimum=jnp.full(3, 0.5))])
def test_what_a_file_cannot_name_is_told_by_its_class(strategy):
    (point,) = points(experiment_of(strategy))
    assert point.label == type(strategy).__name__


def test_a_rest_is_told_with_the_server():
    experiment = experiment_of(FedAvg(), server=ServerSettings(rest=3))
    assert experiment.server.arguments["rest"] == 3


def test_functions_are_marked_as_untold():
    experiment = experiment_of(
        FedAvg(), local=Local(learning_rate=lambda t: 0.1), server=ServerSettings(optimizer=optax.adam(0.1))
    )
    assert experiment.local.arguments["learning_rate"]["name"].endswith(":untold")
    assert experiment.server.arguments["optimizer"]["name"].endswith(":untold")


def test_real_clients_are_not_simulated():
    with pytest.raises(ExperimentError, match="task: these were the data of 3 real clients"):
        run(experiment_of(FedAvg()))
