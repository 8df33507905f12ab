"""Audits and searches as tables, and as JSON for other people's programs: keys stay."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from turnout import World, audit, availability
from turnout.strategies import MIFA, FedAvg, Unbiased
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import Run
from turnout.workbench.experiment.sweep import points
from turnout.workbench.experiment.tuning import Choice, Tuned
from turnout.workbench.report.audit import audit_charts, audit_summary, audit_table, effective_weights_figure
from turnout.workbench.report.run.tuning_table import choices_summary, choices_table, choices_words, relabel_choices


def printed(table):
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


@pytest.fixture(scope="module")
def audited():
    rates = [0.1, 0.5, 0.5, 0.9]
    strategies = {"plain": FedAvg(), "fair <b>": Unbiased(), "mifa": MIFA()}
    return audit(World(availability.bernoulli(4, rates)), strategies, rounds=100)


def test_an_audit_keeps_its_keys(audited):
    summary = json.loads(json.dumps(audit_summary(audited), allow_nan=False))
    assert set(summary) == {"rounds", "seeds", "strategies", "ranking"}
    for entry in summary["strategies"]:
        assert set(entry) == {
            *("label", "strategy", "consistent", "exact", "total_variation", "total_variation_by_chance", "kl"),
            *("chi_square", "mean_total_weight", "variance_of_total_weight", "staleness", "stalest"),
            *("asked_a_round", "uploads_a_round", "arrivals_a_round", "most_over", "most_under", "notes", "clients"),
        }
        assert set(entry["clients"]) == {"target", "weight", "played", "low", "high", "available"}
    plain, fair, _ = summary["strategies"]
    assert (plain["label"], plain["strategy"], plain["consistent"]) == ("plain", "FedAvg", False)
    assert (fair["label"], fair["strategy"], fair["consistent"]) == ("fair <b>", "Unbiased", True)
    assert plain["clients"]["target"] == [0.25] * 4


def test_an_audit_in_a_terminal_and_on_a_page_says_the_same(audited):
    table = audit_table(audited, "Four clients")
    text, html = printed(table), table.html()
    off = f"{100 * audited.entries[0].total_variation:.2f} %"
    for words in (off, "consistent", "unsteady", "yes", "Asked, uploads: clients per round."):
        assert words in text.replace("\n", " ")
    assert "Four clients (100 rounds, decisions only)" in text
    assert f">{off}</td>" in html
    assert 'data-label="fair &lt;b&gt;"' in html


def test_page_and_paper_have_the_weights_of_the_same_clients(audited):
    first = audit_charts(audited)["weights"].series[0]
    made = effective_weights_figure(audited, "Four clients").to_dict()
    assert [panel["title"] for panel in made["concat"]] == ["plain", "fair <b>", "mifa"]
    rows = [row for rows in made["datasets"].values() for row in rows if row.get("label") == "plain"]
    assert [row["y"] for row in rows] == pytest.approx(first.y.tolist())
    assert [row["x"] for row in rows] == pytest.approx(first.more[0].values.tolist())


@pytest.fixture
def tuned():
    document = {
        "task": {"name": "quadratics", "num_clients": 2},
        "rounds": 2,
        "availability": {"name": "two_classes"},
        "local": {"learning_rate": [0.1, 0.2, 0.4]},
        "strategies": ["fedavg"],
    }
    experiment = Experiment.read(document)
    grid = tuple(points(experiment))
    values = np.array([[0.5, 0.7], [0.8, 0.9], [0.2, np.nan]])
    chosen = {"local.learning_rate": 0.2}
    return Tuned(
        Run(experiment, (), 1.0), "validation_accuracy", (Choice("fedavg", grid[1], chosen, grid, (0, 1), values),)
    )


def test_a_choice_is_shown_beside_the_second_best(tuned):
    text = printed(choices_table(tuned))
    for words in ("local.learning_rate = 0.2", "85.0 ± 7.1", "60.0 ± 14.1", "3", "fedavg"):
        assert words in text
    assert "FedAvg" in printed(choices_table(relabel_choices(tuned)))
    assert choices_words(tuned) == ["1 point of the grids diverged in some run, and none such was chosen."]


def test_a_search_keeps_its_keys(tuned):
    assert choices_summary(tuned) == {
        "metric": "validation_accuracy",
        "chosen": {"fedavg": {"local.learning_rate": 0.2}},
        "at_edge": {"fedavg": {}},
    }
