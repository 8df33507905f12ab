"""Stored curves that are empty, short or of unequal seeds are refused in one line, whatever is measured on them."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.reproduction.checks import all_findings
from turnout.workbench.reproduction.curve_table import Curve, Measured, parse_curves, read_curves, write_curves
from turnout.workbench.reproduction.measures import measure_values
from turnout.workbench.reproduction.stored import read_stored_claim

STORED = Path(__file__).parents[3] / "experiments" / "results" / "full"
CLAIMS = sorted(folder.name for folder in STORED.iterdir() if folder.is_dir())


def curve(label="A", metric="test_loss", x=(1.0, 2.0, 3.0), seeds=(0, 1), values=None):
    numbers = np.arange(1.0, 1 + len(seeds) * len(x)).reshape(len(seeds), len(x)) if values is None else values
    return Curve("", label, metric, np.asarray(x), tuple(seeds), np.asarray(numbers, float))


def of_clients(**changed):
    shapes = {"pi": (2, 3), "lam": (2, 3), "weight": (2, 3)} | changed
    return [
        curve(metric=name, x=range(columns), seeds=range(rows), values=np.full((rows, columns), 0.5))
        for name, (rows, columns) in shapes.items()
    ]


@pytest.mark.parametrize(
    ("measure", "curves"),
    [
        ({"name": "slope", "metric": "test_loss"}, [curve(x=[1.0])]),
        ({"name": "slope", "metric": "test_loss"}, [curve(values=[[1, 2, 0], [1, 2, 3]])]),
        ({"name": "slope", "metric": "test_loss"}, [curve(values=[[1, 2, np.nan], [1, 2, 3]])]),
        ({"name": "slope", "metric": "test_loss"}, [curve(x=[0.0, 1.0, 2.0])]),
        ({"name": "time_average", "metric": "test_loss"}, [curve(x=[0.0])]),
        ({"name": "late_deviation", "metric": "test_loss"}, [curve(x=[5.0])]),
        ({"name": "largest_rise", "metric": "test_loss"}, [curve(x=[5.0])]),
        ({"name": "rounds_to", "metric": "test_loss", "target": 1.0, "average": 4}, [curve()]),
        ({"name": "rounds_to", "metric": "test_loss", "target": 1.0, "average": 0}, [curve()]),
        ({"name": "cost_to", "metric": "test_loss", "target": 1.0}, [curve(), curve(metric="local_steps", seeds=[0])]),
        ({"name": "weight_share"}, of_clients(weight=(2, 4))),
        ({"name": "weight_share"}, of_clients(lam=(3, 3))),
    ],
)
def test_a_curve_that_lacks_what_is_measured_is_named(measure, curves):
    with pytest.raises(ExperimentError, match=r"^A [a-z_]+: .* seeds × \d+ values$"):
        measure_values(Measured(curves), measure, "", "A")


FINAL = {"name": "final", "metric": "test_loss"}
AHEAD = {"name": "ahead", "measure": FINAL, "label": "A", "of": ["B"], "smaller_is_better": True}


def test_an_empty_curve_is_none():
    with pytest.raises(ValueError, match="A test_loss: a curve must have a value"):
        curve(x=[])


@pytest.mark.parametrize("name", ["ahead", "best_is"])
def test_who_is_alone_or_not_there_is_compared_with_nobody(name):
    check = {"name": name, "measure": FINAL, "label": "A"}
    with pytest.raises(ExperimentError, match="has no strategy to compare A with"):
        all_findings([check], [curve("A")], {})
    with pytest.raises(ExperimentError, match="no strategy is called 'A'"):
        all_findings([check], [curve("B")], {})


def test_seeds_that_differ_are_not_paired():
    curves = [curve("A", seeds=(0, 1)), curve("B", seeds=(0, 1, 2))]
    with pytest.raises(ExperimentError, match="the seeds must be the same for all, but A has 0, 1 and B has 0, 1, 2"):
        all_findings([AHEAD], curves, {})


def test_a_single_value_goes_with_all_seeds():
    worse = curve("A", seeds=(0, 1, 2), values=np.full((3, 3), 9.0))
    (finding,) = all_findings([AHEAD], [worse, curve("B", seeds=(0,))], {})
    assert finding.verdict == "does not hold"


def test_a_panel_without_curves_is_named():
    with pytest.raises(ExperimentError, match="panel 'thin' has no curves"):
        all_findings([AHEAD | {"panel": "thin"}], [], {})


def test_a_table_without_rows_and_seeds_with_other_rounds_are_refused(tmp_path):
    write_curves([], path := tmp_path / "curves.csv.gz")
    with pytest.raises(ExperimentError, match="it has no rows"):
        read_curves(path)
    write_curves([curve(seeds=(0,)), curve(seeds=(1,), x=(1.0, 2.0, 4.0))], path)
    with pytest.raises(ExperimentError, match="the seeds of A test_loss must have the same x"):
        parse_curves(path.read_bytes(), "mine")


def cut(one, draw):
    """The curve without some of its seeds or values, or with values that are no numbers."""
    kind = draw.choice(["seeds", "values", "first", "nan"])
    if kind == "nan":
        return replace(
            one,
            values=np.where(
                np.random.default_rng(draw.randrange(99)).random(one.values.shape) < 0.3, np.nan, one.values
            ),
        )
    if kind == "seeds":
        count = draw.randint(1, len(one.seeds))
        return replace(one, seeds=one.seeds[:count], values=one.values[:count])
    count = 1 if kind == "first" else draw.randint(1, len(one.x))
    return replace(one, x=one.x[:count], values=one.values[:, :count])


@pytest.mark.parametrize("name", CLAIMS)
def test_damaged_curves_of_every_stored_claim_give_findings_or_a_line(name):
    claim, curves = read_stored_claim(STORED / name), read_curves(STORED / name / "curves.csv.gz")
    draw = random.Random(name)
    for _ in range(8):
        damaged = [one if draw.random() < 0.7 else cut(one, draw) for one in curves]
        if draw.random() < 0.3:
            damaged = draw.sample(damaged, draw.randint(0, len(damaged)))
        try:
            claim.findings(damaged, {})
        except ExperimentError:
            continue
