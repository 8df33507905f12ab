"""Every strategy where work takes time and the server does not wait for all: it runs, and its model moves."""

import numpy as np
import pytest

import slow_fleet
from every_strategy import ONE_EACH
from turnout import Online
from turnout.paces import Buffered, Clocked, Rounds

PACES = {
    "buffered": Buffered(size=3, concurrency=6),
    "quorum": Rounds(quorum=0.5),
    "quorum kept": Rounds(quorum=0.5, late="keep"),
    "clocked": Clocked(every=3),
}
USUAL = [("buffered", name) for name in ("fedawe", "norm_sampling", "ca_fed", "f3ast")]
CASES = [
    pytest.param(pace, name, marks=() if (pace, name) in USUAL else pytest.mark.variant)
    for pace in PACES
    for name in ONE_EACH
]


@pytest.mark.parametrize(("pace", "name"), CASES)
def test_every_strategy_runs_with_old_answers(pace, name):
    strategy = ONE_EACH[name]
    facts = Online() if strategy.needs else None
    run = slow_fleet.compiled(strategy, PACES[pace], facts=facts)
    assert np.isfinite(run.params).all()
    assert np.abs(run.params[0] - 1.0).max() > 1e-3
    assert (run.ages[0] > 0).any() or pace == "quorum"
    assert run.records["server_steps"].sum() > 5
