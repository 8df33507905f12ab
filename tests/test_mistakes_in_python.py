"""Mistakes in programs are answered in one line that says what would be right, before anything is compiled."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mistakes_in_python import MISTAKES

REMEDY = re.compile(r"expected|must|give |call it|it has|task has|number the clients")
SECONDS = 10.0  # of processor time: ten times what it takes, for slow machines


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    program = Path(__file__).parent / "mistakes_in_python.py"
    folder = tmp_path_factory.mktemp("mistakes")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_program_is_answered_in_one_line(answers, name):
    said, seconds = answers[name]
    assert REMEDY.search(said), said
    assert "\n" not in said
    assert seconds < SECONDS


def test_there_are_enough_of_them():
    assert len(MISTAKES) >= 23
