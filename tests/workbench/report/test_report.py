# Long: all tests share one made-up run.
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from turnout.simulator.history import History
from turnout.workbench import Experiment
from turnout.workbench.experiment.run import Outcome, Run
from turnout.workbench.report.page import colours
from turnout.workbench.report.run import compared
from turnout.workbench.report.run import run_table as tables
from turnout.workbench.report.run import run_table as words
from turnout.workbench.report.run.compared import Compared
from turnout.workbench.report.run.run_page import RunReport, Source

DOCUMENT = {
    "title": "Made up",
    "rounds": 10,
    "seeds": 2,
    "task": {"name": "quadratics", "num_clients": 4},
    "availability": {"name": "two_classes"},
    "strategies": ["fedavg", "unbiased", {"name": "fedavg", "normaliser": "all", "label": "fixed divisor"}],
}
PI, LAM = np.array([0.9, 0.9, 0.1, 0.1]), np.array([0.9, 0.01, 0.9, -0.01])


def outcome(label, strategy, accuracy, weight, loss=1.0):
    end = np.asarray(accuracy)
    both = np.stack([np.full(2, 0.1), end], axis=1)
    history = History(
        seeds=(0, 1),
        rounds=10,
        evaluated=np.array([0, 10]),
        metrics={"test_accuracy": both, "train_loss": np.full((2, 2), loss)},
        records={"uploads": np.full((2, 10), 3.0), "local_steps": np.full((2, 10), 150.0)},
        clients={"weight": np.tile(np.asarray(weight, float), (2, 1)), "available": np.tile(10 * PI, (2, 1))},
        params=None,
        target=np.full(4, 0.25),
        pi=PI,
        lam=LAM,
    )
    return Outcome(label, strategy, {}, history)


@pytest.fixture
def run():
    made_up = (
        outcome("fedavg", "fedavg", [0.50, 0.60], [9, 9, 1, 1]),
        outcome("unbiased", "unbiased", [0.60, 0.68], [1, 1, 1, 1]),
        outcome("fixed divisor", "fedavg", [0.40, 0.44], [1, 1, 0, 0]),
    )
    return Run(Experiment.read(DOCUMENT), made_up, 1.5)


def shown(renderable):
    console = Console(width=200, record=True, force_terminal=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(renderable)
        return console.export_text(styles=True)


def test_the_table_has_means_and_spreads(run):
    text = shown(tables.run_table(run))
    assert "55.0 ± 7.1" in text
    assert "64.0 ± 5.7" in text
    assert "30" in text
    assert "1,500" in text
    assert "2 seeds" in text


def test_a_metric_that_is_the_same_everywhere_has_no_column(run):
    for point in run.points:
        point.history.metrics["worst_decile_accuracy"] = np.zeros((2, 2))
    assert "Worst" not in shown(tables.run_table(run))
    run.points[1].history.metrics["worst_decile_accuracy"][1, 1] = 0.1
    assert "Worst" in shown(tables.run_table(run))


def test_differences_are_paired(run):
    text = shown(tables.run_table(run))
    assert "+9.0 ± 1.4" in text  # 10 and 8 points
    assert "-13.0 ± 4.2" in text


def test_the_best_is_bold(run):
    text = shown(tables.run_table(run))
    assert re.search(r"\x1b\[1m *64.0 ± 5.7", text)
    assert not re.search(r"\x1b\[1m *55.0", text)


def test_divergence_is_said(run):
    lost = outcome("adafed", "adafed", [0.1, 0.1], [1, 1, 1, 1], loss=np.nan)
    broken = Run(run.experiment, (*run.points, lost), 1.0)
    assert "diverged in 2 of 2" in shown(tables.run_table(broken))
    assert words.run_words(broken)[0].startswith("Diverged, at least once: adafed")


def test_the_result_in_words(run):
    winner, attention = words.run_words(run)
    assert winner == (
        "Test accuracy: no strategy is clearly ahead. unbiased ends best, at 64.0 ± 5.7 %, but its lead over fedavg "
        "and fixed divisor may be chance."
    )
    assert "available 10 % of the time should count for 50 %" in attention
    assert "fedavg 10 %, unbiased 50 %, fixed divisor 0 %" in attention


def ending(**accuracies):
    """The headline of strategies that end with these accuracies, seed by seed."""
    made_up = [outcome(label, label, [0.0, 0.0], [1, 1, 1, 1]) for label in accuracies]
    points = []
    for point, values in zip(made_up, accuracies.values(), strict=True):
        ends, seeds = np.asarray(values), tuple(range(len(values)))
        metrics = {"test_accuracy": np.stack([0 * ends, ends], axis=1)}
        clients = {name: np.repeat(array[:1], len(seeds), axis=0) for name, array in point.history.clients.items()}
        params = np.zeros((len(seeds), 1))
        history = replace(point.history, seeds=seeds, metrics=metrics, clients=clients, params=params)
        points.append(replace(point, history=history))
    return words.run_words(Compared("", tuple(points)))[0]


CLOSE, FAR = [0.50, 0.52, 0.51, 0.53], [0.90, 0.91, 0.92, 0.93]


def test_the_headline_claims_no_more_than_the_seeds_show():
    assert ending(a=CLOSE, b=FAR) == (
        "Test accuracy: b ends best, at 91.5 ± 1.3 %; 40.0 ± 0.8 points above a, ahead in 4 of 4 seeds."
    )
    nearly = [value - 0.001 * sign for value, sign in zip(FAR, (1, -2, 2, 1), strict=True)]
    assert ending(a=CLOSE, b=FAR, c=nearly) == (
        "Test accuracy: no strategy is clearly ahead. b ends best, at 91.5 ± 1.3 %; 40.0 ± 0.8 points above a, "
        "ahead in 4 of 4 seeds, but its lead over c may be chance."
    )


def test_identical_runs_are_called_identical():
    assert ending(a=FAR, b=FAR) == "Test accuracy: all are identical, at 91.5 ± 1.3 %."
    assert ending(a=CLOSE, b=FAR, c=FAR).startswith(
        "Test accuracy: b and c are identical and end best, at 91.5 ± 1.3 %; "
    )


def test_one_seed_tells_nothing_about_chance():
    assert ending(a=[0.5], b=[0.75]) == (
        "Test accuracy: b ends best, at 75.0 %; 25.0 points above a. With one seed it may be chance."
    )


def test_of_many_only_some_are_named():
    many = {label: [0.1, 0.9, 0.5] for label in "abcdefg"} | {"h": [0.2, 0.9, 0.5]}
    assert ending(**many).endswith("its lead over a, b, c, d and 3 more may be chance.")


def swept(label, settings, validation, test):
    made_up = outcome(label, "fedavg", test, [1, 1, 1, 1])
    metrics = made_up.history.metrics | {"validation_accuracy": np.tile(np.asarray(validation)[:, None], (1, 2))}
    return replace(made_up, history=replace(made_up.history, metrics=metrics), settings=settings)


def leaky(with_validation=True):
    """Validation and test data disagree on which rate is the better one: only a leak of the test data names 0.9."""
    points = [
        swept("fedavg learning_rate=0.1", {"local.learning_rate": 0.1}, [0.8, 0.8], [0.50, 0.52]),
        swept("fedavg learning_rate=0.9", {"local.learning_rate": 0.9}, [0.3, 0.3], [0.90, 0.92]),
        swept("unbiased", {}, [0.1, 0.1], [0.40, 0.42]),
    ]
    if not with_validation:
        for point in points:
            del point.history.metrics["validation_accuracy"]
    return Run(Experiment.read(DOCUMENT), tuple(points), 1.5)


def test_the_point_of_a_sweep_is_chosen_by_validation_data_and_reported_by_test_data():
    run = leaky()
    assert words.run_words(run)[0].startswith(
        "Test accuracy: fedavg learning_rate=0.1 ends best, at 51.0 ± 1.4 % "
        "(of each sweep the best by validation accuracy)."
    )
    table = tables.run_table(run)
    accuracy = next(column for column in table.columns if column.title == "Test accuracy")
    assert [cell.best for cell in accuracy.cells] == [True, False, False]
    assert "Of a sweep, the point with the best validation accuracy counts." in table.note


def test_without_validation_data_no_point_of_a_sweep_is_called_best():
    run = leaky(with_validation=False)
    assert words.run_words(run)[0].startswith("Test accuracy: unbiased ends best, at 41.0 ± 1.4 %.")
    assert "Of a sweep, no point counts." in tables.run_table(run).note
    alone = replace(run, points=run.points[:2])
    assert words.run_words(alone)[0].startswith(
        "Test accuracy: nothing is called best, as a sweep needs validation data"
    )


def test_worlds_of_a_sweep_are_not_chosen_among():
    run = leaky()
    worlds = [replace(point, settings={"availability.gap": gap}) for gap, point in enumerate(run.points[:2])]
    relabelled = [replace(point, label=f"fedavg gap={gap}") for gap, point in enumerate(worlds)]
    assert "fedavg gap=1 ends best, at 91.0" in words.run_words(replace(run, points=tuple(relabelled)))[0]


def test_fresh_weights_say_nothing_of_a_strategy_that_remembers(run):
    mifa = outcome("mifa", "mifa", [0.6, 0.6], [9, 9, 1, 1])
    *_, attention = words.run_words(Run(run.experiment, (*run.points, mifa), 1.0))
    assert "mifa 10 %" not in attention
    assert "fedavg 10 %" in attention
    assert "For mifa, ask turnout audit: the weights of fresh updates do not tell it." in attention
    assert len(words.run_words(Run(run.experiment, (mifa,), 1.0))) == 0


def test_the_summary_is_json(run):
    summary = json.loads(json.dumps(words.run_summary(run)))
    assert [point["label"] for point in summary["points"]] == ["fedavg", "unbiased", "fixed divisor"]
    assert summary["points"][1]["final"]["test_accuracy"]["mean"] == pytest.approx(0.64)
    assert summary["points"][1]["against_first"]["test_accuracy"]["seeds"] == pytest.approx([0.1, 0.08])
    assert set(summary) == {"title", "rounds", "seeds", "seconds", "points"}
    for point in summary["points"]:
        assert set(point) == {
            *("label", "strategy", "settings", "diverged", "final", "against_first"),
            *("uploads", "bytes_uploaded", "local_steps"),
        }
        assert set(point["final"]) == set(point["against_first"]) == {"test_accuracy", "train_loss"}
        assert set(point["final"]["train_loss"]) == {"mean", "std", "seeds"}
        assert (point["uploads"], point["local_steps"]) == (30, 1500)


def test_what_is_not_finite_is_null(run):
    lost = outcome("adafed", "adafed", [0.1, np.nan], [1, 1, 1, 1])
    *_, point = words.run_summary(Run(run.experiment, (*run.points, lost), 1.0))["points"]
    assert point["final"]["test_accuracy"] == {"mean": None, "std": None, "seeds": [0.1, None]}


def test_a_cost_that_an_older_folder_lacks_is_null_in_the_summary(run):
    for point in run.points:
        del point.history.records["local_steps"]
    assert words.run_summary(run)["points"][0]["local_steps"] is None
    assert words.run_summary(run)["points"][0]["uploads"] == 30


def of_clients(outcome):
    return compared.availability_of(outcome), outcome.history.lam


def test_groups_go_from_rare_to_frequent(run):
    names = [group.name for group in compared.groups_of(*of_clients(run.points[0]))]
    assert names == [
        "10 % available, uncorrelated",
        "10 % available, correlated",
        "90 % available, uncorrelated",
        "90 % available, correlated",
    ]


def test_without_a_law_groups_are_by_what_was_seen(run):
    first = run.points[0]
    unknown = replace(first, history=replace(first.history, pi=None, lam=None))
    assert [group.name for group in compared.groups_of(*of_clients(unknown))] == ["10 % available", "90 % available"]


def test_clients_that_come_seldom_are_not_said_to_come_never():
    names = [group.name for group in compared.groups_of(np.array([0.04, 0.06]), None)]
    assert names == ["less than 5 % available", "10 % available"]


def test_shares_are_set_beside_the_target(run):
    given = compared.attention(run)
    assert [one.share for one in given[:4]] == pytest.approx([5, 5, 45, 45])
    assert {round(one.target, 6) for one in given} == {25.0}


def test_a_strategy_keeps_its_colour(run):
    assert colours.colour("fedavg") == colours.colour("fedavg") == colours.VERMILION
    assert colours.colour("their.module:Class") in colours.PALETTE


@pytest.mark.parametrize(
    "together",
    [
        "fedavg unbiased more_available adafed ca_fed f3ast",
        "fedavg unbiased adafed ca_fed f3ast fedau mifa fedvarp fedawe fedlaavg last_word",
        "fedavg ca_fed debiased fedlaavg fedacs last_word",
        "fedavg debiased fedvarp mifa uniform_sampling",
        "fedacs fedavg c_a_fedavg fedvarp fednova fedau optimal_sampling",
    ],
)
def test_strategies_often_seen_together_differ(together):
    shades = [colours.colour(strategy) for strategy in together.split()]
    assert len(set(shades)) == len(shades)


def test_a_label_names_its_strategy():
    known = ["ca_fed", "c_a_fedavg", "fedavg", "more_available"]
    named = {
        label: colours.guess_strategy(label, known)
        for label in ("CA-Fed kappa=0.1", "c-a-FedAvg", "More available", "FedAvg, all", "loss of the uniform law")
    }
    assert list(named.values()) == ["ca_fed", "c_a_fedavg", "more_available", "fedavg", "loss of the uniform law"]


def test_strategies_of_ones_own_have_colours_that_others_have_not():
    strategies = ["mine:A", "mine:B", "mine:C", "fedavg", "last_word"]
    shades = [style.light for style in colours.line_styles(strategies, strategies).values()]
    assert len(set(shades)) == len(shades)
    assert shades[3:] == [colours.VERMILION, colours.ORANGE]
    many = [f"mine:{k}" for k in range(9)]
    assert len(set(colours.line_styles(many, many).values())) == 9  # by tint and dash


def test_lines_of_one_colour_differ_in_their_dash():
    styles = colours.line_styles(["a", "b", "c"], ["fedavg", "fedavg", "unbiased"])
    assert styles["a"] == colours.Style.of(colours.VERMILION)
    assert styles["b"] == colours.Style.of("#EEBF99", colours.DASHES[1])  # three fifths white
    assert styles["c"] == colours.Style.of(colours.BLUE)


def test_figures_are_drawn(run, tmp_path):
    RunReport.of_runs([Source(tmp_path, run)]).write(tmp_path)
    files = sorted(tmp_path.glob("*.png"))
    assert [file.name for file in files] == ["attention.png", "learning.png"]
    for file in files:
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 5_000
