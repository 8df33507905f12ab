"""A claim on a task that takes no time."""

import copy

import pytest

TINY_CLAIM = {
    "title": "Slower is worse",
    "claim": "The larger of two learning rates gets nearer in few rounds.",
    "where": "nowhere",
    "experiment": {
        "rounds": 4,
        "task": {"name": "quadratics", "num_clients": 5, "dimension": 2},
        "availability": {"name": "two_classes"},
        "local": {"steps": 2, "learning_rate": 0.1},
        "strategies": [
            {"name": "fedavg", "cohort": 2, "label": "fast"},
            {"name": "fedavg", "cohort": 2, "label": "slow", "local": {"learning_rate": 0.001}},
        ],
    },
    "profiles": {"quick": {"experiment": {"seeds": 2}}, "full": {"experiment": {"seeds": 3, "rounds": 40}}},
    "clients": ["weight", "asked"],
    "costs": ["uploads"],
    "checks": [
        {
            "name": "ahead",
            "measure": {"name": "final", "metric": "train_loss"},
            "label": "fast",
            "smaller_is_better": True,
        }
    ],
    "figure": {"name": "curves", "metric": "train_loss"},
}


@pytest.fixture
def tiny_claim():
    """A document to be changed at will."""
    return copy.deepcopy(TINY_CLAIM)


@pytest.fixture
def write_claim(tmp_path):
    """Leave a document as a file and say where."""
    from turnout.workbench.experiment import toml

    def write(document, name="tiny"):
        path = tmp_path / f"{name}.toml"
        path.write_text(toml.write(document), encoding="utf-8")
        return path

    return write
