"""The server, with Flower's FedAvg."""

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from numpy_app.task import get_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    num_rounds, lr = context.run_config["num-server-rounds"], context.run_config["lr"]
    fraction_train = context.run_config["fraction-train"]
    arrays = ArrayRecord(get_model())

    strategy = FedAvg(fraction_train=fraction_train)

    result = strategy.start(
        grid=grid, initial_arrays=arrays, num_rounds=num_rounds, train_config=ConfigRecord({"lr": lr})
    )
    np.savez("final_model.npz", *result.arrays.to_numpy_ndarrays())
