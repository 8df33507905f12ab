"""Wrong arguments of public calls are refused by an error of our own, and none is accepted that means nothing."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "wrong_arguments.py"
SHORT, LONG = 500, 10_000
EVERY = "every"  # argument of every call with every value

GROUPS = ("ENGINE", "STRATEGIES", "UPLOADS", "AVAILABILITY", "WORLDS", "BUILDERS", "RESULTS", "IN_TIME", "WITH_DATA")
GROUPS += ("WORKBENCH",)


@pytest.mark.parametrize(
    ("calls", "groups"),
    [
        (SHORT, "AVAILABILITY,WORLDS,RESULTS,IN_TIME"),
        (SHORT, "WITH_DATA,WORKBENCH"),
        pytest.param(LONG, "ALL", marks=pytest.mark.faults),
        *(pytest.param(EVERY, group, marks=pytest.mark.faults) for group in GROUPS),
    ],
)
def test_a_call_with_wrong_arguments_works_or_is_refused(calls, groups, tmp_path):
    seed = 1 if calls == SHORT else random.SystemRandom().randrange(2**32)
    command = [sys.executable, PROGRAM, f"{calls}", f"{seed}", groups]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"seed {seed}: {found['counts']}")
    assert not found["faults"], f"seed {seed}: {json.dumps(found['faults'], indent=1)[:5000]}"
    assert found["counts"]["calls"] >= (100 if calls == EVERY else calls)
