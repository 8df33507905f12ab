"""The command, a tiny experiment, and what the page of commands promises."""

import re
import warnings
from pathlib import Path

with warnings.catch_warnings():  # typer may be older than click and read names that click has deprecated since
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from turnout.workbench.cli import app

__all__ = ["TINY", "CliRunner", "app", "documented", "keys_of"]

TINY = """
title = "Tiny"
rounds = 4
seeds = 9
task = { name = "quadratics", num_clients = 5, dimension = 2 }
availability = { name = "two_classes" }
local = { steps = 2, learning_rate = 0.1 }
strategies = [{ name = "fedavg", cohort = [2, 3] }]
"""


def documented(command):
    """The keys that the docs promise of a command's JSON."""
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", page, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row)) - {"null", "json"}


def keys_of(document):
    """All keys of a document, however deep."""
    inside = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return set(document if isinstance(document, dict) else ()).union(*map(keys_of, inside))
