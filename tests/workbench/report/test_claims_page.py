import json
from pathlib import Path

import pytest
from rich.console import Console

from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.report.claims.claims_page import claims_page, claims_table, claims_words, count_verdicts


def check(says="A ahead of B", paper="+1.56 pp", ours="+1.20 pp [+1.00, +1.40] over B", verdict="holds"):
    return {"says": says, "paper": paper, "ours": ours, "verdict": verdict}


def result(name, profile="full", verdict="reproduced", checks=None, **more):
    texts = {"title": f"The title of {name}", "claim": "A is ahead.", "notes": "", "where": "figure 1a"}
    texts |= {"command": f"turnout reproduce {name} --{profile}"}
    texts |= {"paper": "rodio2023federated", "seeds": 10, "seconds": 12.3, "commit": "0123456789abcdef"}
    return texts | {"name": name, "profile": profile, "verdict": verdict, "checks": checks or [check()]} | more


@pytest.fixture
def page(tmp_path):
    def write(*results):
        for one in results:
            folder = tmp_path / "results" / one["profile"] / one.get("folder", one["name"])
            folder.mkdir(parents=True)
            (folder / "result.json").write_text(json.dumps(one))
            (folder / "figure.png").touch()
        return claims_page(tmp_path / "results", tmp_path)

    return write


def row_of(text, name):
    (row,) = (line for line in text.splitlines() if line.startswith(f"| [{name}]"))
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def test_the_overview_has_both_numbers_and_the_verdict(page):
    text = page(
        result("fig1"), result("fig2", checks=[check(paper=""), check(verdict="undecided")], verdict="undecided")
    )
    ours = "+1.20 pp [+1.00, +1.40] over B"
    file, other = (f"[full](results/full/{name}/claim.toml)" for name in ("fig1", "fig2"))
    assert row_of(text, "fig1") == ["[fig1](#fig1)", "The title of fig1", file, "+1.56 pp", ours, "reproduced"]
    assert row_of(text, "fig2") == ["[fig2](#fig2)", "The title of fig2", other, "+1.56 pp", ours, "undecided (1 of 2)"]
    assert "Of 2 claims: 1 reproduced, 1 undecided." in text


def test_checks_aside_are_shown_and_not_counted(page):
    text = page(result("fig1", checks=[check(), check(verdict="undecided"), check(says="by hand") | {"step": "aside"}]))
    assert row_of(text, "fig1")[5] == "reproduced (1 of 2)"
    assert "| by hand | +1.56 pp |" in text


def test_the_full_size_goes_before_the_quick_one(page):
    text = page(result("fig1", "quick", verdict="not reproduced"), result("fig1"), result("fig2", "quick"))
    assert row_of(text, "fig1")[2].startswith("[full]")
    assert row_of(text, "fig2")[2].startswith("[quick]")
    assert "Of 2 claims: 2 reproduced." in text


def test_the_whole_claim_goes_before_panels_of_it(page):
    text = page(
        result("fig1", verdict="undecided", folder="fig1-a, b"),
        result("fig1"),
        result("fig2", "quick"),
        result("fig2", folder="fig2-a, b"),
    )
    assert row_of(text, "fig1")[2] == "[full](results/full/fig1/claim.toml)"
    assert row_of(text, "fig2")[2] == "[full](results/full/fig2-a%2C%20b/claim.toml)"


def test_a_section_has_checks_figure_and_circumstances(page):
    notes = {"notes": "Both readings were tried.", "skipped": {"cinic10": "no data"}, "at_edge": {"": {"A": {}}}}
    text = page(result("fig1", checks=[check(says="a | b")], **notes))
    assert "### The title of fig1" in text
    assert "Rodio et al. 2023, figure 1a. A is ahead." in text
    assert "| a \\| b | +1.56 pp | +1.20 pp [+1.00, +1.40] over B | holds |" in text
    assert "(results/full/fig1/figure.png)" in text
    assert "`turnout reproduce fig1 --full`: 10 seeds, 12 s, commit 0123456789. Files: [result.json](results/" in text
    for words in ("Both readings were tried.", "Not run: cinic10 (no data).", "at the edge of the grid of rates: A."):
        assert words in text


def test_claims_stand_under_their_papers_and_ours_last(page):
    text = page(
        result("a_trace", paper="", where="beyond the papers"), result("z"), result("b", paper="sun2025debiasing")
    )
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Rodio et al. 2023", "## Sun et al. 2025", "## Beyond the papers"]


def test_long_numbers_are_left_to_the_section(page):
    text = page(result("fig1", checks=[check(ours="; ".join(f"strategy {i} 1.0" for i in range(9)))]))
    assert row_of(text, "fig1")[4] == "see below"
    assert "strategy 8 1.0 | holds |" in text


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(ExperimentError, match="holds no result of a reproduction"):
        claims_page(tmp_path, tmp_path)


def test_the_table_has_a_row_a_check():
    none = {
        "name": "fig9",
        "profile": "quick",
        "title": "No data",
        "verdict": "not run",
        "checks": [],
        "reason": "cifar",
    }
    results = [result("fig1", checks=[check(), check(says="B behind C", verdict="undecided")]), none]
    with open("/dev/null", "w") as nowhere:
        console = Console(width=160, record=True, file=nowhere)
        console.print(claims_table(results))
    text = console.export_text()
    for words in ("fig1", "B behind C", "undecided", "+1.56 pp", "cifar", "not run"):
        assert words in text
    assert claims_words(results) == ["Of 2 claims: 1 reproduced, 1 not run."]


def test_counting():
    assert count_verdicts([result("a"), result("b"), result("c", verdict="not reproduced")]) == (
        "Of 3 claims: 2 reproduced, 1 not reproduced."
    )


def test_the_page_of_the_project_is_made_from_its_stored_results():
    experiments = Path(__file__).parents[3] / "experiments"
    assert (experiments / "README.md").read_text(encoding="utf-8") == claims_page(experiments / "results", experiments)
