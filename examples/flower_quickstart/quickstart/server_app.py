"""The server: FedAU, all clients alike, going on from its checkpoint when it is started again."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from quickstart.task import NUM_FEATURES, accuracy, load
from turnout import Local
from turnout.flower import FlowerStrategy, Limits
from turnout.strategies import FedAU

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    folder = Path(str(config["folder"]))
    strategy = FlowerStrategy(
        FedAU(),
        target="uniform",
        local=Local(learning_rate=float(config["learning-rate"])),
        checkpoint=folder / "state.npz",
        participation=folder / "participation.csv",
        limits=Limits(norm=10.0),
        evaluate_every=0,
    )
    model = ArrayRecord([np.zeros(NUM_FEATURES, np.float32), np.zeros(1, np.float32)])
    rounds, timeout = int(config["num-rounds"]), float(config["timeout"])
    result = strategy.start(grid, model, num_rounds=rounds, timeout=timeout, evaluate_fn=evaluate)
    np.savez(folder / "model.npz", **{name: array.numpy() for name, array in result.arrays.items()})


def evaluate(t: int, model: ArrayRecord) -> MetricRecord:
    """Accuracy on data of all clients, which only an example has at its server."""
    return MetricRecord({"accuracy": accuracy(model.to_numpy_ndarrays(), *load("held out"))})
