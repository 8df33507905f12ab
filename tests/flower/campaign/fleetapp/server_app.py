"""A server that closes rounds without stragglers and goes on from its checkpoint."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from turnout.flower import Files, FlowerStrategy, Limits
from turnout.strategies import MIFA, CAFed, LastWord

STRATEGIES = {"mifa": MIFA(), "ca_fed": CAFed(), "last_word_on_clients": LastWord(memory="clients")}

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    folder = Path(str(config["folder"]))
    chosen = STRATEGIES[str(config["strategy"])]
    strategy = FlowerStrategy(
        chosen,
        limits=Limits(norm=50.0) if str(config["strategy"]).endswith("on_clients") else None,
        files=Files(checkpoint=folder / "state.npz", participation=folder / "participation.csv", record=folder / "run"),
        stretch=1.25,
        evaluate_every=0,
        min_available_nodes=3,
    )
    model = ArrayRecord([np.zeros(2, np.float32)])
    result = strategy.start(grid, model, num_rounds=int(config["num-rounds"]), timeout=float(config["timeout"]))
    np.savez(folder / "model.npz", *result.arrays.to_numpy_ndarrays())
