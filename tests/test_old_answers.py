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
USUAL = ("norm_sampling", "f3ast")  # one that chooses by lengths, one whose state moves when it asks


def cases():
    """Each strategy under one pace, in turn, and all four under those that are usual."""
    for place, name in enumerate(ONE_EACH):
        for pace in PACES if name in USUAL else [list(PACES)[place % 4]]:
            usual = name in USUAL and pace == "buffered"
            yield pytest.param(pace, name, marks=() if usual else pytest.mark.variant)


@pytest.mark.parametrize(("pace", "name"), list(cases()))
def test_every_strategy_runs_with_old_answers(pace, name):
    strategy = ONE_EACH[name]
    facts = Online() if strategy.needs else None
    run = slow_fleet.compiled(strategy, PACES[pace], facts=facts)
    assert np.isfinite(run.params).all()
    assert np.abs(run.params[0] - 1.0).max() > 1e-3
    assert (run.ages[0] > 0).any() or pace == "quorum"
    assert run.records["server_steps"].sum() > 5
