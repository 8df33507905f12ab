"""A server that writes its checkpoint after every round."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from turnout import Local
from turnout.flower import Files, FlowerStrategy
from turnout.strategies import FOCUS, SCAFFOLD

STRATEGIES = {"scaffold": SCAFFOLD(), "focus": FOCUS(length=2.0)}

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    folder = Path(str(config["folder"]))
    strategy = FlowerStrategy(
        STRATEGIES[str(config["strategy"])],
        local=Local(learning_rate=0.1),
        files=Files(checkpoint=folder / "state.npz", participation=folder / "participation.csv"),
        evaluate_every=0,
        min_available_nodes=3,
    )
    model = ArrayRecord([np.zeros(3, np.float32)])
    result = strategy.start(grid, model, num_rounds=int(config["num-rounds"]), timeout=float(config["timeout"]))
    np.savez(folder / "model.npz", *result.arrays.to_numpy_ndarrays())
