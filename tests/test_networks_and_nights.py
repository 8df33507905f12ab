"""What pages say of LastWord with networks and at night is what came out."""

import functools
import importlib
import sys
from pathlib import Path

from turnout.statistics import Interval
from turnout.workbench.reproduction.curve_table import CURVES, Measured, read_curves
from turnout.workbench.reproduction.measures import StrategyCurves, at, final, largest_fall, lost_between

ROOT = Path(__file__).parent.parent
MATRIX, README = (" ".join((ROOT / page).read_text().split()) for page in ("docs/matrix.md", "README.md"))
FASHION, DIGITS = "Fashion-MNIST, nights", "MNIST, nights"
RIVALS = ("MIFA", "FedVARP")


@functools.cache
def measured(claim):
    docs = str(ROOT / "docs")
    sys.path.insert(0, docs)
    try:
        return Measured(read_curves(importlib.import_module("tables").folder_of(claim) / CURVES))
    finally:
        sys.path.remove(docs)


def percent(claim, panel, label, measure, **arguments):
    return 100 * measure(StrategyCurves(measured(claim), panel, label), "test_accuracy", **arguments)


def lead(claim, panel, over, measure=final, **arguments):
    ours = percent(claim, panel, "LastWord", measure, **arguments)
    return Interval.of(ours - percent(claim, panel, over, measure, **arguments))


night = functools.partial(percent, "last_word_nights")


def test_nights_cost_last_word_least():
    falls = {panel: night(panel, "LastWord", largest_fall, last=8) for panel in (FASHION, DIGITS)}
    others = [night(panel, "MIFA", largest_fall, last=8).mean() for panel in (FASHION, DIGITS)]
    assert (
        f"in the mean it falls by {falls[FASHION].mean():.1f} and {falls[DIGITS].mean():.1f} points where MIFA falls by "
        f"{others[0]:.1f} and {others[1]:.1f}; the worst fall of one run was {max(map(max, falls.values())):.1f}"
    ) in MATRIX
    assert max(fall.mean() for fall in falls.values()) < 1.5
    for panel in (FASHION, DIGITS):
        rivals = [label for label in measured("last_word_nights").labels(panel) if label != "LastWord"]
        assert all(lead("last_word_nights", panel, rival, last=8).low > 0 for rival in rivals)
        assert round(lead("last_word_nights", panel, "MIFA", last=8).mean, 1) == 0.4
    noon = lead("last_word_nights", FASHION, "MIFA")
    assert f"at noon MIFA is {-noon.mean:.1f} points ahead on F" in MATRIX
    assert f"on Fashion-MNIST ({-noon.high:.1f} to {-noon.low:.1f})" in MATRIX


def test_thin_and_empty_rounds_cost_it_little():
    lost = {
        label: night("Fashion-MNIST, one of a hundred", label, lost_between, since=150.0, until=250.0)
        for label in ("LastWord", "MIFA")
    }
    ours, theirs = lost["LastWord"], lost["MIFA"].mean()
    assert (
        f"cost it {ours.mean():.1f} points in the mean and {ours.max():.1f} in the worst run, MIFA {theirs:.0f}."
    ) in MATRIX
    assert f"cost it [{ours.mean():.1f} points in the mean, and MIFA {theirs:.0f}]" in README
    assert ours.mean() < 1.0
    empty = [night("Fashion-MNIST, nobody", "LastWord", at, x=x) for x in (150.0, 250.0)]
    assert (empty[0] == empty[1]).all()
    for label in ("plain", "MIFA that moves alone"):
        assert night("Fashion-MNIST, nobody", label, at, x=250.0).mean() < 25.0


def test_networks_where_work_is_equal_or_redrawn():
    leads = {
        (panel, rival): lead("last_word_networks", panel, rival)
        for panel in measured("last_word_networks").panels
        for rival in RIVALS
    }
    assert all(each.low > 0 for (panel, _), each in leads.items() if panel.endswith("two classes"))
    assert all(each.low > -0.3 for (panel, _), each in leads.items() if not panel.endswith("by client"))
    behind = {key: -each.mean for key, each in leads.items() if key[0].endswith("by client")}
    fashion, digits = ("Fashion-MNIST, joint, steps by client", "MNIST, joint, steps by client")
    assert f"{behind[fashion, 'MIFA']:.1f} and {behind[digits, 'MIFA']:.1f} points behind MIFA" in MATRIX
    assert f"on MNIST {behind[digits, 'FedVARP']:.1f} behind FedVARP" in MATRIX
    assert f"{max(behind.values()):.1f} points behind at most" in README
    assert leads[digits, "FedVARP"].high < 0 < min(leads[fashion, "MIFA"].high, leads[digits, "MIFA"].high)
    fedvarp = [each.mean for (panel, rival), each in leads.items() if panel.startswith("Fashion") and rival != "MIFA"]
    assert f"FedVARP is {min(fedvarp):.1f} to {max(fedvarp):.1f} points behind LastWord" in MATRIX


def test_linear_worlds_keep_their_accuracy():
    claim = "last_word_blend"
    leads = {panel: lead(claim, panel, "plain") for panel in measured(claim).panels}
    assert len(leads) == 9
    assert all(abs(each.mean) < 0.2 for each in leads.values())


def test_networks_with_convolutions():
    panel = "Fashion-MNIST, joint"
    means = {
        label: percent("last_word_convolutions", panel, label, final).mean()
        for label in ("LastWord", "MIFA", "FedVARP", "plain")
    }
    assert (
        f"LastWord ends at {means['LastWord']:.1f} %, MIFA at {means['MIFA']:.1f}, FedVARP at {means['FedVARP']:.1f}, "
        f"and LastWord by its former rule at {means['plain']:.1f}"
    ) in MATRIX
    assert lead("last_word_convolutions", panel, "plain").low > 0
    for other in ("MIFA", "FedVARP"):
        assert lead("last_word_convolutions", panel, other).low < 0 < lead("last_word_convolutions", panel, other).high


def test_quiet_rounds_with_a_linear_model():
    quiet = functools.partial(percent, "last_word_quiet")
    late = {rival: lead("last_word_quiet", "late starts", rival) for rival in ("MIFA", "FedVARP", "FedAvg")}
    assert all(each.low > 0 for each in late.values())
    assert f"{min(each.mean for each in late.values()):.1f} points ahead of MIFA and FedVARP" in MATRIX
    lost = {
        label: quiet("one of a hundred", label, lost_between, since=150.0, until=250.0).mean()
        for label in ("LastWord", "FedAvg", "FedVARP")
    }
    assert lost["LastWord"] < 0
    assert f"FedAvg and FedVARP lose {lost['FedVARP']:.0f} to {lost['FedAvg']:.0f} points" in MATRIX
    thin = lead("last_word_quiet", "one of a hundred", "MIFA")
    assert f"ends that world {-thin.mean:.1f} points ahead ({-thin.high:.1f} to {-thin.low:.1f})" in MATRIX
    falls = {label: quiet("nights", label, largest_fall, last=8) for label in ("LastWord", "MIFA")}
    assert f"falls by {falls['LastWord'].mean():.1f} points in the mean and by {falls['LastWord'].max():.1f}" in MATRIX
    assert falls["MIFA"].mean() < falls["LastWord"].mean() < 1.5
    day = lead("last_word_quiet", "nights", "MIFA", last=8)
    assert f"over the last day it is {-day.mean:.1f} points behind MIFA" in MATRIX
    empty = [quiet("nobody", "LastWord", at, x=x) for x in (150.0, 250.0)]
    assert (empty[0] == empty[1]).all()


def test_on_fresh_partitions_and_with_a_wider_grid_steps_by_client_cost_nothing():
    claim = "last_word_by_client"
    leads = {(panel, rival): lead(claim, panel, rival) for panel in measured(claim).panels for rival in RIVALS}
    assert len(leads) == 4
    assert all(each.low > -0.3 for each in leads.values())
    assert all(leads[panel, "MIFA"].low < 0 < leads[panel, "MIFA"].high for panel in measured(claim).panels)
    assert (
        "level with MIFA on both data sets and less than 0.3 points behind either, and ahead of FedVARP on F" in MATRIX
    )
    assert leads["Fashion-MNIST", "FedVARP"].low > 0 > leads["MNIST", "FedVARP"].low
