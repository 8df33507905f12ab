import numpy as np
import pytest
from scipy import stats

from turnout.statistics import Interval
from turnout.workbench import ExperimentError
from turnout.workbench.reproduction.checks import (
    ahead,
    all_findings,
    best_is,
    best_moves,
    equals,
    ordered,
    ordered_measures,
    table,
    within_bound,
)
from turnout.workbench.reproduction.curve_table import Curve, Measured
from turnout.workbench.reproduction.verdicts import Finding, by_step, in_words, overall, verdict_of_lead

FINAL = {"name": "final", "metric": "test_accuracy"}
TO = {"name": "rounds_to", "metric": "test_accuracy", "target": 0.5}


def measured(panel="", **finals):
    """Strategies by their final accuracies, one per seed; 0 before."""
    curves = []
    for label, values in finals.items():
        seeds = tuple(range(len(values)))
        both = np.stack([np.zeros(len(values)), np.asarray(values, float)], axis=1)
        curves.append(Curve(panel, label, "test_accuracy", np.array([0, 100]), seeds, both))
    return Measured(curves)


def verdict(findings):
    (only,) = findings
    return only.verdict


def test_intervals_are_those_of_student():
    values = np.array([1.0, 2.0, 4.0])
    found = Interval.of(values)
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_intervals_of_many_comparisons_hold_together():
    """Eight equal strategies and five seeds, each against the first: that anything looks sure is as rare as it says."""
    draw = np.random.default_rng(0)
    wrong = {1: 0, 7: 0}
    for _ in range(1000):
        ends = draw.normal(size=(8, 5))
        for comparisons in wrong:
            intervals = [Interval.of(row - ends[0], comparisons) for row in ends[1:]]
            wrong[comparisons] += any(interval.low > 0 or interval.high < 0 for interval in intervals)
    assert wrong[7] <= 50
    assert wrong[1] > 150  # what one by one would do


def test_a_lead_is_paired_by_seed():
    spread = np.array([0.2, 0.5, 0.8])  # the seeds differ far more than the strategies
    found = measured(A=spread + np.array([0.010, 0.011, 0.012]), B=spread)
    (finding,) = ahead(found, FINAL, "A", paper=1.5, unit="pp")
    assert (finding.verdict, finding.paper) == ("holds", "+1.50 pp")
    assert finding.ours.startswith("+1.10 pp [")
    assert verdict(ahead(found, FINAL, "B")) == "does not hold"


def test_a_lead_may_have_to_be_large_or_be_allowed_to_be_negative():
    spread = np.array([0.2, 0.5, 0.8])
    found = measured(A=spread + np.array([0.010, 0.011, 0.012]), B=spread)
    (large,) = ahead(found, FINAL, "A", by=0.5, unit="pp")
    assert (large.verdict, large.says) == ("holds", "A more than 0.50 pp ahead of B in test accuracy")
    assert verdict(ahead(found, FINAL, "A", by=2.0, unit="pp")) == "does not hold"
    (level,) = ahead(found, FINAL, "B", by=-1.5, unit="pp")
    assert (level.verdict, level.says) == ("holds", "B less than 1.50 pp behind A in test accuracy")
    assert verdict(ahead(found, FINAL, "B", by=-0.5, unit="pp")) == "does not hold"


def test_the_nearest_rival_counts():
    found = measured(A=[0.5, 0.6, 0.7], B=[0.1, 0.1, 0.1], C=[0.45, 0.65, 0.69])
    (finding,) = ahead(found, FINAL, "A")
    assert finding.verdict == "undecided"
    assert finding.ours.endswith("over C")
    assert verdict(ahead(found, FINAL, "A", of=["B"])) == "holds"


def test_every_panel_must_show_it():
    first, second = measured(A=[2.0, 2.1], B=[1.0, 1.1]), measured(panel="p", A=[0.0, 0.1], B=[1.0, 1.1])
    both = Measured([*first.curves, *second.curves])
    check = {"name": "ahead", "measure": FINAL, "label": "A"}
    assert [one.verdict for one in all_findings([check], both.curves, {})] == ["holds", "does not hold"]
    (finding,) = all_findings([check | {"panel": "p", "says": "A leads"}], both.curves, {}, {"p": "tuned"})
    assert (finding.says, finding.verdict, finding.panel, finding.step) == ("A leads", "does not hold", "p", "tuned")
    (skipped,) = all_findings([check | {"panel": "q"}], both.curves, {"q": "no data"})
    assert (skipped.ours, skipped.verdict) == ("no data", "not run")


def test_one_seed_decides_nothing_unless_numbers_are_exact():
    found = measured(A=[0.9], B=[0.5])
    checks = [
        {"name": "ahead", "measure": FINAL, "label": "A"},
        {"name": "table", "measure": FINAL, "numbers": {"A": 2, "B": 1}},
    ]
    assert [one.verdict for one in all_findings(checks, found.curves, {})] == ["undecided"] * 2
    assert [one.verdict for one in all_findings(checks, found.curves, {}, exact=True)] == ["holds"] * 2


def test_targets_that_are_never_reached():
    found = measured(A=[0.6, 0.7], B=[0.1, 0.2], C=[0.3, 0.3])
    assert verdict(ahead(found, TO, "A", smaller_is_better=True)) == "undecided"  # two seeds are no sign test
    six = measured(A=[0.6] * 6, B=[0.1] * 6)
    assert verdict(ahead(six, TO, "A", smaller_is_better=True)) == "holds"
    assert verdict(ahead(six, TO, "B", smaller_is_better=True)) == "does not hold"
    assert verdict(ahead(found, TO, "B", of=["C"], smaller_is_better=True)) == "undecided"
    mixed = measured(A=[0.6, 0.1], B=[0.1, 0.6])
    assert verdict(ahead(mixed, TO, "A", smaller_is_better=True)) == "undecided"


def test_equal_within_a_margin():
    found = measured(A=[0.50, 0.52], B=[0.51, 0.53])
    assert verdict(equals(found, FINAL, "A", within=1.1, to="B", unit="pp")) == "holds"
    assert verdict(equals(found, FINAL, "A", within=0.5, to="B", unit="pp")) == "does not hold"
    assert verdict(equals(found, FINAL, "A", within=1.0, value=51.0, unit="%")) == "undecided"
    assert verdict(equals(found, FINAL, "A", within=14.0, value=51.0, unit="%")) == "holds"


def test_noise_does_not_make_things_equal():
    """-1.03 [-1.17, -0.89] against ± 1.00: the mean is outside, the interval is partly inside."""
    draws = np.array([-1.03, -1.15, -0.91, -1.17, -0.89]) / 100
    found = measured(A=0.5 + draws, B=np.full(5, 0.5))
    assert verdict(equals(found, FINAL, "A", within=1.0, to="B", unit="pp")) == "undecided"
    noisy = measured(A=[0.2, 0.9, 0.4, 0.7], B=[0.5, 0.6, 0.5, 0.5])
    assert verdict(equals(noisy, FINAL, "A", within=5.0, to="B", unit="pp")) == "undecided"
    never = measured(A=[0.6, 0.1], B=[0.6, 0.6])
    assert verdict(equals(never, TO, "A", within=1.0, to="B")) == "does not hold"


def test_margins_of_numbers_and_of_labels_exclude_each_other():
    found = measured(A=[0.50, 0.52])
    with pytest.raises(ExperimentError, match="either to"):
        list(equals(found, FINAL, "A", within=1.0))


def test_orders():
    found = measured(A=[0.1, 0.1], B=[0.2, 0.2], C=[0.3, 0.3])
    assert verdict(ordered(found, FINAL)) == "holds"
    assert verdict(ordered(found, FINAL, rising=False)) == "does not hold"
    assert verdict(ordered(found, FINAL, labels=["A", "C", "B"])) == "does not hold"
    assert verdict(ordered(found, FINAL, labels=["A", "C", "B"], slack=0.11)) == "holds"
    noisy = measured(A=[0.1, 0.3], B=[0.2, 0.1], C=[0.3, 0.35])
    assert verdict(ordered(noisy, FINAL)) == "undecided"


def test_bounds_hold_for_every_seed():
    found = measured(A=[0.1, 0.3])
    assert verdict(within_bound(found, FINAL, "A", most=0.3)) == "holds"
    assert verdict(within_bound(found, FINAL, "A", most=0.29)) == "does not hold"


def test_tables_stand_beside_the_papers():
    found = measured(A=[0.9, 0.92], B=[0.5, 0.52], C=[0.1, 0.12])
    (finding,) = best_is(found, FINAL, "A", numbers={"A": 90.0, "B": 50.0}, unit="%")
    assert finding.verdict == "holds"
    assert finding.paper == "A 90.00 %; B 50.00 %"
    assert "C 11.00 % ± 1.41" in finding.ours
    assert verdict(best_is(found, FINAL, "C", unit="%")) == "does not hold"
    assert verdict(table(found, FINAL, numbers={"A": 3, "B": 2, "C": 1})) == "holds"
    assert verdict(table(found, FINAL, numbers={"A": 1, "B": 2, "C": 3})) == "does not hold"
    shaky = measured(A=[0.5, 0.9, 0.5], B=[0.6, 0.6, 0.6])
    assert verdict(table(shaky, FINAL, numbers={"A": 2, "B": 1})) == "undecided"  # only the second seed says so


def test_a_table_names_strategies_that_were_left_out():
    found = measured(A=[0.9, 0.92], B=[0.5, 0.52])
    (finding,) = table(found, FINAL, numbers={"A": 3, "C": 2, "B": 1})
    assert finding.verdict == "holds"
    assert "; C not run; B" in finding.ours
    assert verdict(table(found, FINAL, numbers={"A": 3, "C": 2})) == "not run"


def test_never_is_the_largest_number_of_rounds():
    found = measured(A=[0.6, 0.6], B=[0.1, 0.2])
    (finding,) = table(found, TO, numbers={"A": 68, "B": "never"}, unit="rounds")
    assert finding.verdict == "holds"
    assert finding.paper == "A 68; B never"
    assert finding.ours.startswith("A 100 ± 0; B never")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["holds", "holds"], "reproduced"),
        (["holds", "not run"], "reproduced"),
        (["holds", "undecided"], "reproduced in part"),
        (["holds", "does not hold"], "reproduced in part"),
        (["undecided", "undecided"], "undecided"),
        (["undecided", "does not hold"], "not reproduced"),
        (["not run"], "not run"),
    ],
)
def test_one_word_for_all(verdicts, expected):
    findings = [Finding("", "", "", verdict) for verdict in verdicts]
    assert overall(findings) == in_words(findings) == expected
    assert by_step(findings) == {}


@pytest.mark.parametrize(
    ("code", "printed", "tuned", "kind", "words"),
    [
        ("holds", "holds", "undecided", "reproduced", "public code and as printed; undecided under equal tuning"),
        ("does not hold", "holds", "holds", "reproduced", "reproduced as printed and under equal tuning"),
        ("not run", "undecided", "holds", "reproduced in part", "only under equal tuning; undecided as printed"),
        ("holds", "does not hold", "does not hold", "reproduced in part", "only with the settings of the public code"),
        ("does not hold", "does not hold", "does not hold", "not reproduced", "not reproduced by any public setting"),
        ("undecided", "does not hold", "does not hold", "not reproduced", "not reproduced"),
        ("undecided", "undecided", "undecided", "undecided", "undecided"),
        ("not run", "not run", "not run", "not run", "not run"),
    ],
)
def test_a_claim_with_steps_says_in_which_it_is_reproduced(code, printed, tuned, kind, words):
    steps = {"public code": code, "printed": printed, "tuned": tuned}
    findings = [Finding("", "", "", verdict, step=step) for step, verdict in steps.items()]
    assert overall(findings) == kind
    assert words in in_words(findings)


def test_half_of_a_step_is_a_part():
    findings = [Finding("", "", "", verdict, step="tuned") for verdict in ("holds", "does not hold")]
    assert (overall(findings), in_words(findings)) == ("reproduced in part", "reproduced in part under equal tuning")


def test_a_panel_aside_does_not_enter_the_verdict():
    aside, tuned = (Finding("", "", "", "holds", step="aside"), Finding("", "", "", "does not hold", step="tuned"))
    assert overall([aside, tuned]) == overall([tuned]) == "not reproduced"
    assert (overall([aside]), in_words([aside])) == ("undecided", "no verdict, since panels aside do not enter it")


def test_a_lead_that_is_decided_by_chance_is_as_rare_as_it_says():
    draw = np.random.default_rng(0)
    wrong = sum(verdict_of_lead(draw.normal(size=5)) != "undecided" for _ in range(2000))
    assert wrong / 2000 == pytest.approx(0.05, abs=0.015)


def test_measures_of_one_strategy_in_order():
    curve = Curve(
        "", "A", "test_accuracy", np.array([0, 10, 20]), (0, 1), np.array([[0.1, 0.5, 0.4], [0.1, 0.51, 0.41]])
    )
    found = Measured([curve])
    rows = [{"name": "at", "metric": "test_accuracy", "x": x} for x in (0, 20, 10)]
    assert verdict(ordered_measures(found, "A", rows)) == "holds"
    assert verdict(ordered_measures(found, "A", rows[::-1])) == "does not hold"
    assert verdict(ordered_measures(found, "A", rows[::-1], rising=False)) == "holds"


def test_seeds_that_lack_a_measure_do_not_count():
    values = np.array([[0.1, 0.5, np.nan], [0.1, 0.6, 0.7]])
    rows = [{"name": "at", "metric": "test_accuracy", "x": x} for x in (0, 10, 20)]
    found = Measured([Curve("", "A", "test_accuracy", np.array([0, 10, 20]), (0, 1), values)])
    (finding,) = ordered_measures(found, "A", rows)
    assert (finding.verdict, finding.ours) == ("undecided", "0.1, 0.6, 0.7 (1 runs lack one)")
    twice = Measured([Curve("", "A", "test_accuracy", np.array([0, 10, 20]), (0, 1, 2), values[[0, 1, 1]])])
    assert verdict(ordered_measures(twice, "A", rows)) == "holds"
    nobody = Measured([Curve("", "A", "test_accuracy", np.array([0, 10, 20]), (0,), values[:1])])
    assert verdict(ordered_measures(nobody, "A", rows)) == "undecided"


def test_the_best_of_a_row_moves_with_time():
    x = np.array([0, 10, 20])
    rows = {"few": [0.1, 0.5, 0.5], "some": [0.1, 0.4, 0.6], "many": [0.1, 0.2, 0.7]}
    found = Measured([Curve("", label, "test_accuracy", x, (0,), np.array([row])) for label, row in rows.items()])
    (finding,) = best_moves(found, "test_accuracy", ["few", "some", "many"], xs=[9, 500])
    assert (finding.verdict, finding.ours) == ("holds", "10: few; 20: many")
    assert verdict(best_moves(found, "test_accuracy", ["many", "some", "few"], xs=[10, 20])) == "does not hold"
    assert verdict(best_moves(found, "test_accuracy", ["few", "some", "many"], xs=[20])) == "does not hold"


def test_strategies_of_other_panels():
    both = Measured([*measured("first", A=[0.5, 0.6]).curves, *measured("second", A=[0.7, 0.8]).curves])
    assert verdict(ordered(both, FINAL, ["first: A", "second: A"], panel="")) == "holds"
    assert verdict(equals(both, FINAL, "A", within=0.1, to="second: A", panel="first")) == "does not hold"
    assert verdict(equals(both, FINAL, "A", within=0.3, to="second: A", panel="first")) == "holds"
