"""Reading never imports; files that are run import only if they are the user's own, or trusted."""

import shutil
import sys
from dataclasses import replace

import pytest

from turnout.workbench import Experiment, ExperimentError, load, read_experiment, save
from turnout.workbench.experiment import toml
from turnout.workbench.experiment.citations import cite
from turnout.workbench.experiment.registry import is_code
from turnout.workbench.experiment.run import run
from turnout.workbench.experiment.trust import Code
from turnout.workbench.report.run.run_page import write_report
from turnout.workbench.reproduction.claim import read_claim

SPY = """
import pathlib
pathlib.Path({mark!r}).write_text("imported")
from turnout.strategies import FedAvg as Mine
from optax import sgd as rate
"""


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """A file that appears as soon as the module `spy` is imported, which is beside everything and on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "spy", raising=False)
    (tmp_path / "spy.py").write_text(SPY.format(mark=str(tmp_path / "mark")))
    yield tmp_path / "mark"
    sys.modules.pop("spy", None)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The working folder is another one than that of the files."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


PLACES = {
    "task": {"task": {"name": "spy:Mine", "num_clients": 5}},
    "a task alone": {"task": "spy:Mine"},
    "strategy": {"strategies": [{"name": "spy:Mine"}]},
    "a strategy alone": {"strategies": ["spy:Mine"]},
    "server of a strategy": {"strategies": [{"name": "fedavg", "server": {"optimizer": "spy:rate"}}]},
    "facts of a strategy": {"strategies": [{"name": "fedavg", "facts": "spy:Mine"}]},
    "facts": {"facts": "spy:Mine"},
    "optimizer": {"server": {"optimizer": "spy:rate"}},
    "schedule": {"local": {"learning_rate": {"name": "spy:rate"}}},
    "schedules": {"local": {"learning_rate": [0.1, {"name": "spy:rate"}]}},
    "by a module of ours": {"facts": {"name": "turnout.optimizers:jax.os.system"}},
    "a shell": {"task": {"name": "subprocess:getoutput", "cmd": "touch mark"}},
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_is_only_read_is_imported(tiny, mark, place):
    document = tiny | PLACES[place]
    experiment = Experiment.read(document, Code.UNREAD)
    assert Experiment.read(experiment.document(), Code.UNREAD).document() == experiment.document()
    assert not mark.exists()
    with pytest.raises(ExperimentError, match="is code, which is not imported"):
        run(experiment)
    assert not mark.exists()


@pytest.mark.parametrize("place", PLACES)
def test_a_file_from_elsewhere_needs_trust_to_run_code(tiny, mark, elsewhere, tmp_path, monkeypatch, place):
    path = tmp_path / "foreign.toml"
    path.write_text(toml.write(tiny | PLACES[place]))
    with pytest.raises(ExperimentError, match=r"is not in your working folder: read both, then run it with --trust"):
        read_experiment(path)
    assert not mark.exists()
    link = tmp_path / "work" / "link.toml"
    link.symlink_to(path)
    with pytest.raises(ExperimentError, match="not in your working folder"):
        read_experiment(link)
    assert not mark.exists()


def test_trust_lets_a_file_import(tiny, mark, elsewhere, tmp_path, monkeypatch):
    path = tmp_path / "foreign.toml"
    path.write_text(toml.write(tiny | PLACES["strategy"]))
    monkeypatch.setenv("TURNOUT_TRUST", "0")
    with pytest.raises(ExperimentError, match="--trust"):
        read_experiment(path)
    monkeypatch.setenv("TURNOUT_TRUST", "1")
    assert read_experiment(path).strategies[0].strategy.name == "spy:Mine"
    assert mark.exists()
    monkeypatch.delenv("TURNOUT_TRUST")
    assert read_experiment(path, trust=True) == read_experiment(shutil.copy(path, tmp_path / "work"))


def test_what_the_user_types_is_the_users_own(tiny, mark, elsewhere):
    experiment = read_experiment("demo", ("strategies.0.name=spy:Mine",))
    assert experiment.strategies[0].strategy.name == "spy:Mine"


def test_a_claim_from_elsewhere_needs_trust_too(tiny, mark, elsewhere, tmp_path):
    check = {"name": "ahead", "label": "a", "measure": {"name": "final", "metric": "train_loss"}}
    words = {"title": "T", "claim": "C", "figure": {"name": "curves", "metric": "train_loss"}, "checks": [check]}
    path = tmp_path / "claim.toml"
    path.write_text(toml.write(words | {"experiment": tiny | PLACES["strategy"]}))
    own = tmp_path / "work" / "own.toml"
    own.write_text(toml.write(words | {"same_runs_as": str(path)}))
    for source in (path, own):
        with pytest.raises(ExperimentError, match="--trust"):
            read_claim(source)
        read_claim(source, code=Code.UNREAD)
    assert not mark.exists()
    read_claim(path, code=Code.IMPORTED)
    assert mark.exists()


def test_a_run_of_own_code_is_read_without_it(tiny, mark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny["strategies"] = [{"name": "spy:Mine", "cohort": [2, 3]}, "unbiased"]
    finished = run(Experiment.read(tiny))
    folder = save(finished, tmp_path / "run")
    mark.unlink()
    (tmp_path / "spy.py").write_text("raise AssertionError('imported')")
    del sys.modules["spy"]
    again = load(folder)
    assert [(one.label, one.strategy, one.settings) for one in again.points] == [
        (one.label, one.strategy, one.settings) for one in finished.points
    ]
    assert again.experiment.document() == finished.experiment.document()
    page = write_report([folder], tmp_path / "page.html").read_text()
    assert "spy:Mine cohort=2" in page
    assert cite(str(folder))[1] == ["spy:Mine"]
    assert "spy" not in sys.modules
    second = save(replace(again), tmp_path / "second")
    assert (second / "experiment.toml").read_text() == (folder / "experiment.toml").read_text()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("fedavg", False),
        ("turnout.optimizers:heavy_ball", False),
        ("turnout.optimizers:jax.os.system", True),
        ("turnout.optimizers:jax", True),
        ("turnout.workbench.cli:main", True),
        ("subprocess:getoutput", True),
        (":", True),
    ],
)
def test_builders_of_ours_are_no_code(name, code):
    assert is_code(name) == code
