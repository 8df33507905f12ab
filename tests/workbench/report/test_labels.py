"""Strategies are called what papers call them."""

from pathlib import Path

import pytest

from turnout.workbench.experiment import registry
from turnout.workbench.report.page.labels import join_labels, paper_labels

PAGES = Path(__file__).parents[3] / "docs" / "strategies"


@pytest.mark.parametrize("name", registry.entries("strategies"))
def test_a_label_is_the_title_of_the_page(name):
    title = (PAGES / f"{name}.md").read_text().splitlines()[0][2:]
    titles = [title, f"{title} cohort=2"]
    assert paper_labels([name, f"{name} cohort=2"], [name, name]) == titles
    assert paper_labels([registry.entries("strategies")[name].attribute], [name]) == [title]
    assert paper_labels(titles, [name, name]) == titles


def test_labels_that_somebody_chose_stay():
    assert paper_labels(["mine", "fedavg_2", "x"], ["fedavg", "fedavg", "their.module:Class"]) == [
        "mine",
        "fedavg_2",
        "x",
    ]
    assert paper_labels(["fedavg", "FedAvg"], ["fedavg", "fedavg"]) == ["fedavg", "FedAvg"]


def test_labels_in_a_sentence():
    assert (join_labels(["a"]), join_labels(["a", "b"])) == ("a", "a and b")
    assert join_labels(["a", "b", "c"], 2) == "a, b and c"
    assert join_labels(["a", "b", "c", "d"], 2) == "a, b and 2 more"
