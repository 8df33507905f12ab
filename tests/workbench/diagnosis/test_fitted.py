"""A fitted world is an experiment that runs."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from turnout.workbench.diagnosis.world.fit import Fitted
from turnout.workbench.experiment.build import build
from turnout.workbench.experiment.experiment_file import read_experiment
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.sweep import points
from turnout.workbench.report.diagnosis.world_file import STRATEGIES, world_toml

WORLDS = [
    Fitted("bernoulli", 7, {"pi": [0.5] * 7}),
    Fitted("markov", 7, {"pi": [0.5] * 7, "lam": [0.3] * 7}),
    Fitted("clustered", 7, {"clusters": [0, 0, 0, 1, 1, 2, 3], "pi": [0.5] * 4, "lam": [0.3] * 4}),
    Fitted("minimum_separation", 7, {"weights": [1.0] * 7, "batch": 2, "separation": 1}),
    Fitted(
        "diurnal",
        7,
        {
            "rounds_per_day": 24,
            "mean": [0.5] * 7,
            "amplitude": [0.2] * 7,
            "shape": np.cos(2 * np.pi * np.arange(24) / 24).round(6).tolist(),
            "zones": [0.5] * 7,
            "lam": [0.1] * 7,
        },
    ),
]


@pytest.fixture
def experiment(tmp_path):
    def read(diagnosis, *settings):
        path = tmp_path / "world.toml"
        path.write_text(world_toml(diagnosis))
        return read_experiment(str(path), settings)

    return read


def test_the_world_of_a_log_is_played(diagnosis, experiment):
    """Over many rounds clients come as often as in the log."""
    found = run(experiment(diagnosis, "rounds=400", "seeds=2", "evaluate_every=400", "strategies=['fedavg']"))
    there = found.points[0].history.clients["available"].mean(axis=0) / 400
    np.testing.assert_allclose(there[:6], np.repeat([0.9, 0.1], 3), atol=0.1)


@pytest.mark.parametrize("fitted", WORLDS, ids=lambda fitted: fitted.kind)
def test_every_kind_of_world_is_accepted(diagnosis, experiment, fitted):
    read = experiment(replace(diagnosis, fitted=fitted))
    places = points(read)
    assert [place.label for place in places] == list(STRATEGIES)
    (batch,) = build(places)
    assert batch.setups[0].trials[0].world.availability.num_clients == 7


def test_links_steps_and_target_are_those_of_the_log(diagnosis):
    log = replace(
        diagnosis.log, arrived=np.array([1, 0.5, 1, 1, 1, 1, np.nan]), steps=np.array([5, 2.4, 5, 5, 5, 5, np.nan])
    )
    weights = replace(diagnosis.findings.weights, target=np.array([0.4, *[0.1] * 6]))
    made = replace(diagnosis, log=log, findings=replace(diagnosis.findings, weights=weights))
    document = tomllib.loads(world_toml(made))
    assert document["links"] == {"name": "bernoulli", "success": [1, 0.5, 1, 1, 1, 1, 0.916667]}
    assert document["compute"] == {"name": "per_client", "steps": [5, 2, 5, 5, 5, 5, 5]}
    assert document["task"]["importance"] == [2.8, *[0.7] * 6]
    plain = tomllib.loads(world_toml(diagnosis))
    assert not {"links", "compute"} & set(plain)
    assert "importance" not in plain["task"]


def test_what_the_world_lacks_is_said(diagnosis):
    text = world_toml(replace(diagnosis, fitted=replace(diagnosis.fitted, notes=("the weekly cycle is left out",))))
    assert "# Note: the weekly cycle is left out.\n" in text
