"""`turnout reproduce`."""

import json

import pytest
from cli_stage import TINY, documented, keys_of

CLAIM = (
    """
title = "Tiny"
claim = "Two clients a round end nearer than none."
figure = { name = "curves", metric = "train_loss" }
checks = [
    { name = "ahead", label = "A", smaller_is_better = true, measure = { name = "final", metric = "train_loss" } },
]
[experiment]"""
    + TINY.replace('title = "Tiny"', "").replace("seeds = 9", "seeds = 2").partition("strategies")[0]
    + 'strategies = [{ name = "fedavg", cohort = 2, label = "A" },\n'
    '    { name = "fedavg", cohort = 2, label = "B", local = { learning_rate = 0.0 } }]\n'
)


def test_a_claim_is_run_once_and_then_remembered(turnout, tmp_path):
    (tmp_path / "claim.toml").write_text(CLAIM)
    result = turnout("reproduce", "claim.toml")
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "runs" / "reproduced" / "quick" / "claim"
    assert {"claim.toml", "curves.csv.gz", "experiment.toml", "figure.png", "result.json", "manifest.json"} == {
        f.name for f in folder.iterdir()
    }
    for expected in (
        "A ahead of B",
        "holds",
        "Reproduced (2 seeds",
        "Folder: runs/reproduced/quick/claim",
        "Next: turnout reproduce claim.toml --full",
    ):
        assert expected in result.stdout
    before = (folder / "result.json").stat().st_mtime_ns
    told = json.loads(turnout("reproduce", "claim.toml", "--json").stdout)
    assert told[0]["verdict"] == "reproduced"
    assert documented("reproduce") <= keys_of(told)
    assert (folder / "result.json").stat().st_mtime_ns == before
    assert turnout("reproduce", "claim.toml", "--again", "-q").stdout == "runs/reproduced/quick/claim\n"
    assert (folder / "result.json").stat().st_mtime_ns != before


def test_panels_alone_stand_beside_the_whole_claim(turnout, tmp_path):
    panels = '[panels]\nshort = { rounds = 3 }\n"long, too" = { rounds = 4 }\n'
    (tmp_path / "claim.toml").write_text(CLAIM + panels)
    results = tmp_path / "runs" / "reproduced" / "quick"
    for arguments in (["--panel", "short"], [], ["--panel", "long, too"]):
        result = turnout("reproduce", "claim.toml", *arguments, "-q")
        assert result.exit_code == 0, result.stderr
    left = {folder.name for folder in results.iterdir() if not folder.name.startswith(".")}
    assert left == {"claim", "claim-short", "claim-long, too"}


def test_stored_results_can_be_checked_anew_and_listed(turnout, tmp_path):
    (tmp_path / "claim.toml").write_text(CLAIM)
    turnout("reproduce", "claim.toml", "-q")
    stored = tmp_path / "runs" / "reproduced" / "quick" / "claim"
    (stored / "figure.png").unlink()
    result = turnout("reproduce", "--refresh", "runs/reproduced", "--page", "page.md")
    assert result.exit_code == 0, result.stderr
    assert (stored / "figure.png").is_file()
    assert "Two clients a round end nearer than none." in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name claims, or --all"),
        (["debiased_fig1", "--quick", "--full"], "choose one"),
        (["debiased_fg1"], "did you mean 'debiased_fig1'"),
        (["--refresh", "."], "holds no result"),
    ],
)
def test_mistakes_with_claims_are_one_line(turnout, arguments, message):
    result = turnout("reproduce", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
