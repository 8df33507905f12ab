import tomllib

import pytest

from turnout.workbench import ExperimentError
from turnout.workbench.experiment import toml


def test_what_is_written_reads_back():
    document = {
        "text": 'quote " slash \\ line\nπ \x7f',
        "numbers": [1, -2.5, 1e-8, float("inf")],
        "flag": True,
        "table": {"odd key": 1, "inside": {"deep": [1, [2]]}, "empty": {}},
        "tables": [{"name": "a"}, {"name": "b", "x": False}],
    }
    assert tomllib.loads(toml.write(document)) == document


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a.b=2", {"a": {"b": 2}, "list": [{"x": 1}], "word": "w"}),
        ("a.c = 0.5", {"a": {"b": 1, "c": 0.5}, "list": [{"x": 1}], "word": "w"}),
        ("list.0.x=[1, 2]", {"a": {"b": 1}, "list": [{"x": [1, 2]}], "word": "w"}),
        ("new.deep=true", {"a": {"b": 1}, "list": [{"x": 1}], "word": "w", "new": {"deep": True}}),
        ("a=bare words", {"a": "bare words", "list": [{"x": 1}], "word": "w"}),
        ("a.b=x=y", {"a": {"b": "x=y"}, "list": [{"x": 1}], "word": "w"}),
        ('a."R=0.5".b=2', {"a": {"b": 1, "R=0.5": {"b": 2}}, "list": [{"x": 1}], "word": "w"}),
        ("word.more=1", {"a": {"b": 1}, "list": [{"x": 1}], "word": {"name": "w", "more": 1}}),
    ],
)
def test_overrides(setting, expected):
    document = {"a": {"b": 1}, "list": [{"x": 1}], "word": "w"}
    assert toml.override(document, [setting]) == expected
    assert document == {"a": {"b": 1}, "list": [{"x": 1}], "word": "w"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("no_value", "must be key=value"),
        ("=3", "must be key=value"),
        ("a..b=3", "must be key=value"),
        ('a."b=3', "must be key=value"),
        ("list.1.x=3", "there is no entry '1': a list of 1 is counted 0 to 0"),
        ("list.first=3", "there is no entry 'first'"),
        ("a.b.c=3", "'c' has nothing to be set in: 1 is not a table"),
    ],
)
def test_overrides_that_lead_nowhere(setting, complaint):
    with pytest.raises(ExperimentError, match=complaint):
        toml.override({"a": {"b": 1}, "list": [{"x": 1}]}, [setting])


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("rounds = ")
    with pytest.raises(ExperimentError, match=r"broken.toml: not a TOML file"):
        toml.read(path)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting_is_one_line(tmp_path, depth):
    path = tmp_path / "deep.toml"
    path.write_text(f"rounds = {'[' * depth}{']' * depth}")
    with pytest.raises(ExperimentError, match=r"deep.toml: (not a TOML file|.* nested more than 64 deep)"):
        toml.read(path)
    with pytest.raises(ExperimentError, match=r"--set rounds=\[+…: "):
        toml.override({}, [path.read_text().replace(" ", "")])


def test_a_number_of_thousands_of_digits_is_one_line(tmp_path):
    (tmp_path / "long.toml").write_text(f"rounds = 1{'0' * 5000}")
    with pytest.raises(ExperimentError, match=r"long.toml: not a TOML file"):
        toml.read(tmp_path / "long.toml")
