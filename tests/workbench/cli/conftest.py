import pytest
from cli_stage import TINY, CliRunner, app

from turnout.workbench.experiment import run as running


@pytest.fixture
def turnout(tmp_path, monkeypatch):
    """Run the command in an empty folder that holds one tiny experiment.

    All runs have the shapes of those in ../experiment/test_run.py, so that one compiled program serves all.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "tiny.toml").write_text(TINY)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def stopped(turnout, monkeypatch):
    """A command that ends as by Ctrl-C, or by another error, when a program begins `after` so many others."""

    def stop(*command, error=KeyboardInterrupt, after=1):
        simulate, begun = running.run_group, []

        def run_group(*arguments):
            begun.append(arguments)
            if len(begun) > after:
                raise error
            return simulate(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(running, "run_group", run_group)
            return turnout(*command)

    return stop
