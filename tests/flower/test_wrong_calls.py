"""Wrong arguments of the adapter's public calls are refused in one line, before anything begins."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "faults" / "wrong_arguments.py"
pytestmark = pytest.mark.flower


@pytest.mark.parametrize("calls", [400, pytest.param(5_000, marks=[pytest.mark.slow, pytest.mark.integration])])
def test_a_call_with_wrong_arguments_works_or_is_refused(calls, tmp_path):
    seed = 1 if calls == 400 else random.SystemRandom().randrange(2**32)
    command = [sys.executable, PROGRAM, str(calls), str(seed), "ON_NODES"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["faults"], f"seed {seed}: {json.dumps(found['faults'], indent=1)[:5000]}"
    assert found["counts"]["calls"] >= calls
