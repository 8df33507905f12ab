"""Every interval that is printed holds the truth as often as it says, or docs/theory/intervals.md says why not."""

import importlib
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
STORED = json.loads((ROOT / "docs" / "results" / "coverage.json").read_text(encoding="utf-8"))["parts"]
ROWS = list(itertools.chain(*STORED.values()))
SMALL = [pytest.param(part, marks=pytest.mark.flower) if part == "on_nodes" else part for part in STORED]
OF_RUNS = ("audits", "audits_in_time")
SMALL = [part for part in SMALL if part not in OF_RUNS]
# What is too narrow, by what is printed and what was drawn; the page says why.
TOLD = {
    ("mean over the seeds", "exponential"),
    ("mean over the seeds", "log-normal"),
    ("difference of times to a target", "nearly equal speeds"),
    ("success of uploads, diagnosis", "99 % arrive"),
    ("π, diagnosis", "chains, π = 0.5, λ = 0.9"),
}


@pytest.fixture(scope="module")
def coverage():
    """The benchmark."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("interval_coverage")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def kind(row):
    return row["what"], row["draws"]


def check_anew(coverage, part, draws):
    """Numbers measured anew are those that are stored, up to chance."""
    stored = {(*kind(row), row["size"]): row["held"] for row in STORED[part]}
    for row in getattr(coverage, part)(draws):
        before = stored[row.what, row.draws, row.size]
        error = 4 * np.sqrt(max(before * (1 - before), 0.01) / draws) + 0.005
        assert row.held == pytest.approx(before, abs=error), row


@pytest.mark.parametrize("part", SMALL)
def test_intervals_hold_as_often_as_the_page_says(coverage, part):
    check_anew(coverage, part, 300)


@pytest.mark.slow
@pytest.mark.parametrize("part", SMALL)
def test_intervals_hold_as_often_as_the_page_says_in_many_draws(coverage, part):
    check_anew(coverage, part, coverage.DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize("part", OF_RUNS)
def test_audits_hold_as_often_as_the_page_says_in_many_runs(coverage, part):
    check_anew(coverage, part, coverage.RUNS)


def test_what_is_too_narrow_is_what_the_page_tells_of(coverage):
    narrow = {kind(row) for row in ROWS if coverage.Row(**row).too_narrow}
    assert narrow == TOLD
    assert min(row["held"] for row in ROWS) > 0.8


def test_a_row_is_judged_by_its_own_level(coverage):
    row = coverage.Row("a", "b", "c", 0.95, 0.929)
    assert row.too_narrow
    assert not row.holds
    assert not coverage.Row("a", "b", "c", 0.95, 0.929, is_run=True).too_narrow
    wide = coverage.Row("a", "b", "c", 0.95, 0.99)
    assert (wide.holds, wide.too_narrow) == (False, False)
    assert coverage.Row("a", "b", "c", 0.95, 0.99, one_sided=True).holds


@pytest.mark.flower
def test_estimates_on_real_nodes_hold(coverage):
    """Whoever is asked, and however long clients remember."""
    for row in coverage.on_nodes(2000):
        chance = 3 * np.sqrt(row.level * (1 - row.level) / 2000)
        assert row.held > row.level - row.within - chance, row
