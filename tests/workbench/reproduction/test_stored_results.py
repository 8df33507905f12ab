"""The stored results of the claims are those of the claims as they are shipped now."""

import shutil
from pathlib import Path

import pytest

from turnout.workbench.experiment import toml
from turnout.workbench.experiment.experiment_file import Experiment
from turnout.workbench.experiment.trust import Code
from turnout.workbench.reproduction.claim import FORMAT, read_claim
from turnout.workbench.reproduction.stored import current_claim, is_done, read_result, read_stored_claim, refresh

RESULTS = Path(__file__).parents[3] / "experiments" / "results" / "full"
OF_VARIANTS = ("last_word_memory", "last_word_variants")  # name modules by their homes of before


@pytest.mark.parametrize("name", sorted(folder.name for folder in RESULTS.iterdir()))
def test_stored_runs_are_those_of_the_shipped_claim(name):
    stored = read_stored_claim(RESULTS / name)
    shipped = read_claim(stored.name, "full", tuple(stored.settings), tuple(stored.panels_alone), Code.UNREAD)
    assert shipped.runs == stored.runs


@pytest.mark.parametrize("name", OF_VARIANTS)
def test_claims_that_name_modules_of_before_count_as_run(name):
    assert "turnout.reproduction.variants" in (RESULTS / name / "claim.toml").read_text()
    assert is_done(current_claim(RESULTS / name), RESULTS / name)
    for file in (RESULTS / name).glob("experiment*.toml"):
        Experiment.read(toml.read(file), Code.REFUSED)


@pytest.mark.parametrize("name", [*OF_VARIANTS, "fedlaavg_example1"])
def test_a_refresh_changes_nothing_but_the_form(name, tmp_path):
    folder = Path(shutil.copytree(RESULTS / name, tmp_path / name))
    result, claim = read_result(folder), toml.read(folder / "claim.toml")
    refresh(folder)
    assert (read_result(folder), toml.read(folder / "claim.toml")) == (result, claim | {"format": FORMAT})
