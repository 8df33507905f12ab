"""Typing mistakes are answered from the source alone, with the words of those who import."""

import subprocess
import sys

import pytest

from turnout.workbench.experiment import registry, signatures
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.experiment_file import Experiment, Tables
from turnout.workbench.experiment.registry import COMMON_TABLES, check_experiment, check_names

GOOD = {
    "rounds": 4,
    "task": {"name": "quadratics", "num_clients": 5},
    "availability": "two_classes",
    "strategies": ["fedavg", {"name": "fedau", "cutoff": 5, "label": "mine", "local": {}}],
}


@pytest.mark.parametrize("kind", registry.PACKAGES)
def test_the_source_says_which_arguments_there_are(kind):
    for name, entry in registry.entries(kind).items():
        builder = registry.find(kind, name, "")
        known = set(entry.parameters)
        assert set(signatures.parameters(builder)) - set(registry.FILLED) <= known | set(registry.FILLED), name


def test_the_tables_of_an_experiment_are_known():
    assert tuple(Tables.__dataclass_fields__) == COMMON_TABLES


@pytest.mark.parametrize("name", sorted(registry.entries("experiments")))
def test_shipped_experiments_are_spelt_right(name):
    from turnout.workbench.experiment import toml

    document = toml.read(registry.experiment_path(name))
    check_experiment(document)
    check_names(document)


@pytest.mark.parametrize(
    "change",
    [
        {"roundz": 3},
        {"strategies": ["fedavgg"]},
        {"strategies": [{"name": "fedavg", "cohrt": 3}]},
        {"availability": {"name": "markow"}},
        {"availability": {"name": "markov", "pie": 0.5}},
        {"task": {"name": "quadratic"}},
        {"links": {"name": "perfekt"}},
        {"facts": "onlin"},
        {"uploads": "topk"},
    ],
)
def test_a_mistake_is_told_as_by_those_who_import(change):
    document = GOOD | change
    with pytest.raises(ExperimentError) as slow:
        Experiment.read(document)
    with pytest.raises(ExperimentError) as fast:
        checked(document)
    said, meant = (str(caught.value).partition(" known:")[0] for caught in (fast, slow))
    assert said == meant  # who imports also knows what an experiment fills in


def checked(document):
    check_experiment(document)
    check_names(document)


def test_what_is_right_or_not_ours_is_let_through():
    check_names(GOOD)
    check_names(GOOD | {"strategies": [{"name": "mine:Strategy", "any": 1}, 7], "task": 3})


@pytest.mark.parametrize(
    "command",
    [
        ("run", "absent.toml"),
        ("run", "demo", "--set", "roundz=3"),
        ("run", "demo", "--set", "availability.name=markow"),
        ("audit", "demmo"),
        ("diagnose", "absent.csv"),
        ("report", "absent"),
        ("plot", "absent", "curves"),
        ("reproduce", "absent"),
    ],
)
def test_a_typing_mistake_does_not_wait_for_jax(command, tmp_path):
    program = (
        "import sys; from turnout.workbench.cli import app\n"
        f"try: app({list(command)!r})\nexcept SystemExit as end: print(end.code, 'jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=3600
    )
    assert done.stdout == "2 False\n", done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
