"""`turnout list`, `turnout cite`, and what the shell completes."""

import json

import pytest
from cli_stage import TINY, CliRunner, app, documented, keys_of


@pytest.mark.parametrize("kind", ["strategies", "availability", "tasks", "links", "compute", "facts", "experiments"])
def test_list_of_one_kind(turnout, kind):
    from turnout.workbench.experiment import registry

    result = turnout("list", kind)
    assert result.exit_code == 0
    for name in registry.entries(kind):
        assert name in result.stdout


def test_lists_for_another_program(turnout):
    from turnout.workbench.experiment import registry

    found = json.loads(turnout("list", "strategies", "--json").stdout)["strategies"]
    assert [entry["name"] for entry in found] == list(registry.entries("strategies"))
    (fedau,) = (entry for entry in found if entry["name"] == "fedau")
    assert set(fedau) == {"name", "summary", "parameters", "traits"}
    assert fedau["parameters"] == {"cutoff": "50.0", "cohort": "None"}
    assert fedau["traits"]["server_memory"] == "O(N)"
    assert turnout("list", "facts", "-q").stdout == "online\noracle\n"
    assert set(json.loads(turnout("list", "--json").stdout)) == set(registry.LISTED_KINDS)
    assert documented("list") <= keys_of(found)
    assert documented("cite") == set(json.loads(turnout("cite", "fedavg", "--json").stdout))


def test_list_of_everything(turnout):
    text = turnout("list").stdout
    assert "demo" in text
    assert "cohort = None" in text


def test_list_tells_what_a_strategy_needs_costs_and_is_good_for(turnout):
    text = turnout("list", "strategies").stdout
    assert "needs pi; server memory O(1); consistent if π is right" in text
    assert "needs nothing; server memory O(1)" in text


def test_cite_a_strategy(turnout):
    result = turnout("cite", "unbiased")
    assert result.exit_code == 0
    assert result.stdout.startswith("@inproceedings{rodio2023federated,")
    assert result.stdout.count("@") == 1


def test_cite_an_experiment(turnout, tmp_path):
    inside = '{ name = "separated", separation = 1, strategy = "unbiased" }'
    more = f'strategies = ["fedavg", {inside}, {{ name = "fedavg", label = "again" }}, {{ name = "mine:Own" }}]'
    (tmp_path / "more.toml").write_text(TINY[: TINY.index("strategies")] + more)
    result = turnout("cite", "more.toml")
    assert result.exit_code == 0, result.stderr
    keys = [line for line in result.stdout.splitlines() if line.startswith("@")]
    assert [key.partition("{")[2] for key in keys] == [
        "mcmahan2017communication,",
        "rodio2023federated,",
        "sun2025debiasing,",
    ]
    assert result.stderr == "no reference is known for mine:Own\n"
    assert turnout("cite", "demo").stdout.startswith("@")


def test_citations_for_another_program(turnout, tmp_path):
    (tmp_path / "own.toml").write_text(
        TINY[: TINY.index("strategies")] + 'strategies = ["fedau", { name = "mine:Own" }]'
    )
    result = turnout("cite", "own.toml", "--json")
    found = json.loads(result.stdout)
    assert (len(found["bibtex"]), found["unknown"], result.stderr) == (1, ["mine:Own"], "")
    assert turnout("cite", "own.toml", "-q").stderr == ""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("turnout cite feda", {"fedacs", "fedar", "fedasync", "fedau", "fedavg", "fedawe"}),
        ("turnout run ", {"demo", "slow_clients", "tiny.toml"}),
        ("turnout audit ti", {"tiny.toml"}),
        ("turnout list ex", {"experiments"}),
        ("turnout reproduce debiased_t", {"debiased_table1"}),
        ("turnout diagnose l", {"log.csv", "logs/"}),
    ],
)
def test_the_shell_completes_names(turnout, tmp_path, line, offered):
    (tmp_path / "log.csv").touch()
    (tmp_path / "logs").mkdir()
    words = line.split(" ")
    asked = {"_TURNOUT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], env=asked, prog_name="turnout")
    assert offered <= set(result.stdout.split()) <= offered | {"logs/"}


def test_cite_what_does_not_exist(turnout):
    result = turnout("cite", "unbiasd")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'unbiased'" in result.stderr


def test_list_of_nothing_known(turnout):
    result = turnout("list", "strategy")
    assert result.exit_code == 2
    assert "did you mean 'strategies'" in result.stderr
