"""The server, with Flower's FedAvg."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from jax_app.task import create_model, get_params

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    num_rounds, fraction_train = context.run_config["num-server-rounds"], context.run_config["fraction-train"]
    arrays = ArrayRecord(get_params(create_model()))

    strategy = FedAvg(fraction_train=fraction_train)

    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=num_rounds)
    np.savez("final_model.npz", *result.arrays.to_numpy_ndarrays())
