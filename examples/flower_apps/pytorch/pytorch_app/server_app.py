"""The server, with Flower's FedAvg."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from pytorch_app.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    num_rounds, lr = context.run_config["num-server-rounds"], context.run_config["lr"]
    fraction_train = context.run_config["fraction-train"]
    arrays = ArrayRecord(Net().state_dict())

    strategy = FedAvg(fraction_train=fraction_train)

    result = strategy.start(
        grid=grid, initial_arrays=arrays, num_rounds=num_rounds, train_config=ConfigRecord({"lr": lr})
    )
    torch.save(result.arrays.to_torch_state_dict(), "final_model.pt")
