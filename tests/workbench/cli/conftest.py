import pytest
from cli_stage import TINY, CliRunner, app


@pytest.fixture
def turnout(tmp_path, monkeypatch):
    """Run the command in an empty folder that holds one tiny experiment.

    All runs have the shapes of those in ../experiment/test_run.py, so that one compiled program serves all.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "tiny.toml").write_text(TINY)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))
