import subprocess
import sys

import pytest

from turnout.flower.run.checkpoint import hold

HOLD = """
import sys
from pathlib import Path
from turnout.flower.run.checkpoint import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks")
def test_a_second_server_is_kept_off_until_the_first_has_died(tmp_path):
    path = tmp_path / "new" / "state.npz"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "held\n"
            with (
                pytest.raises(RuntimeError, match=r"another server is at work on .*state\.npz: end it first"),
                hold(path),
            ):
                pass
        finally:
            other.kill()
    with hold(path):
        pass


def test_a_strategy_holds_its_checkpoint_while_it_trains(tmp_path):
    pytest.importorskip("flwr")
    import numpy as np
    from inprocess import InProcessGrid

    from turnout.flower import Files, FlowerStrategy, Waiting, client_app
    from turnout.flower.wire.messages import to_record
    from turnout.strategies import FedAvg

    def strategy():
        return FlowerStrategy(
            FedAvg(), files=Files(checkpoint=tmp_path / "state.npz"), waiting=Waiting(poll=0.01), evaluate_every=0
        )

    model = to_record({"w": np.zeros(1)})

    def meddle(t, _model):
        with pytest.raises(RuntimeError, match="another server"):
            strategy().start(grid, model, num_rounds=1, timeout=0.05)
        met.append(t)

    met, grid = [], InProcessGrid(client_app(train=lambda arrays, *_: (arrays, {})), lambda _t: ["1"])
    strategy().start(grid, model, num_rounds=1, timeout=0.05, evaluate_fn=meddle)
    assert met == [0, 1]
    strategy().start(grid, model, num_rounds=2, timeout=0.05)
