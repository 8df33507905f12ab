"""Run with `pytest`: the contracts of the strategy and the process, and a few rounds of the experiment."""

from pathlib import Path

import numpy as np
from my_process import shared_network
from my_strategy import Patience

from turnout.testing import check_process, check_strategy
from turnout.workbench import read_experiment, run

EXPERIMENT = Path(__file__).parent / "experiment.toml"


def test_the_strategy_keeps_its_contract():
    check_strategy(Patience(limit=5.0))


def test_the_process_keeps_its_contract():
    check_process(shared_network(8, low=0.1, high=0.8, repair=0.5, failure=0.1))


def test_the_experiment_runs():
    finished = run(read_experiment(EXPERIMENT, ("rounds=3", "seeds=1"), trust=True))
    metrics = finished["patience"].history.metrics
    assert all(np.isfinite(values).all() for values in metrics.values())
