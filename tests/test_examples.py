"""The examples run as they stand, and say what they promise to show."""

import ast
import json
import re
import runpy
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
LONGEST = 60  # lines
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
QUICK = ("01_first_run", "04_diagnose_a_log")  # the others take up to half a minute each


def shares(text: str, pattern: str) -> dict[str, float]:
    """Numbers by name, from lines of an example."""
    return {name.strip(): float(number) for name, number in re.findall(pattern, text, re.MULTILINE)}


def first_run(text: str) -> None:
    rare = shares(text, r"^(\w+) .* rare half has (\d+) %")
    assert rare["FedAvg"] < 15 < 45 < rare["Unbiased"]


def own_data(text: str) -> None:
    assert "12 clients" in text
    rarest = shares(text, r"^(\w+) .*rarest clients ([\d.]+)%")
    assert rarest["FedAU"] > rarest["FedAvg"]
    assert rarest["MIFA"] > rarest["FedAvg"]


def audit(text: str) -> None:
    off = shares(text, r"^(\w+) +([\d.]+)%")
    assert off["FedAvg"] > off["Unbiased"] > off["FedAU"] > off["LastWord"] == 0


def diagnosis(text: str) -> None:
    assert text.startswith("FedAvg on this fleet trains mostly for")
    assert "There is a daily cycle" in text


def comparison(text: str) -> None:
    assert text.count("local.learning_rate") == 3
    assert "ends best" in text


def own_strategy(text: str) -> None:
    off = shares(text, r"^(.+?) +off target +([\d.]+)%")
    assert off["FedAvg"] > off["Patience, 5 rounds"] > 5 > off["Patience, 100 rounds"]


def adapters(text: str) -> None:
    few, all_of_them = (int(number.replace(",", "")) for number in re.findall(r"([\d,]+) numbers", text)[:2])
    assert all_of_them > 10 * few
    after = shares(text, r"^(\w+) .*?([\d.]+) %")
    assert after["LastWord"] > after["base"]


SHOWN = {
    "01_first_run": first_run,
    "02_own_data": own_data,
    "03_audit": audit,
    "04_diagnose_a_log": diagnosis,
    "05_tune_and_compare": comparison,
    "06_own_strategy": own_strategy,
    "07_adapters": adapters,
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_listed(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= LONGEST
    assert lines[0].startswith('"""')
    assert path.stem in SHOWN
    assert f"(../examples/{path.name})" in (ROOT / "docs" / "examples.md").read_text()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.slow) for path in EXAMPLES],
)
def test_an_example_shows_what_it_says(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        runpy.run_path(str(path), run_name="__main__")
    SHOWN[path.stem](capsys.readouterr().out)
    assert not list(tmp_path.iterdir())


def code_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def shown_by(cell: str, names: dict) -> object:
    """Run a cell; the value of its last expression is what a notebook shows."""
    *before, last = ast.parse(cell).body
    ends = isinstance(last, ast.Expr)
    exec(compile(ast.Module([*before, *([] if ends else [last])], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if ends else None


def test_the_notebook_is_listed_and_stored_without_results():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    assert f"(../examples/{NOTEBOOK.name})" in (ROOT / "docs" / "examples.md").read_text()


@pytest.mark.slow
def test_the_notebook_runs_and_shows_its_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, shown = {"__name__": "notebook"}, []
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for cell in code_of(NOTEBOOK):
            value = shown_by(cell, names)
            if hasattr(value, "_repr_html_") and type(value).__module__.startswith("turnout."):
                shown.append((type(value).__name__, value._repr_html_()))
            elif hasattr(value, "to_dict"):  # a figure
                value.to_dict()
    assert [name for name, _ in shown] == ["Audit", "StrategyComparison", "History", "Diagnosis"]
    assert all("<table" in html and "data:image/svg+xml" in html for _, html in shown)
    assert [file.name for file in tmp_path.iterdir()] == ["comparison.html"]
