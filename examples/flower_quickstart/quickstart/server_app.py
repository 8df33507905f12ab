"""The server: FedAU with equal targets, which continues from its checkpoint after a restart."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from quickstart.task import NUM_FEATURES
from turnout import Local
from turnout.availability import markov
from turnout.flower import Files, FlowerStrategy, ImposedGrid, Limits, Members, Waiting
from turnout.strategies import FedAU

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    folder, timeout = Path(str(config["folder"])).expanduser(), float(config["timeout"])
    strategy = FlowerStrategy(
        FedAU(),
        target="uniform",
        local=Local(learning_rate=float(config["learning-rate"])),
        files=Files(checkpoint=folder / "state.npz", participation=folder / "participation.csv", record=folder / "run"),
        members=Members(identity=config["identity"]),
        limits=Limits(norm=10.0),
        waiting=Waiting(greeting=timeout),
        evaluate_every=int(config["evaluate-every"]),
    )
    if float(config["availability"]) < 1.0:  # for simulated nodes, which are never absent
        count = len(list(grid.get_nodes()))
        grid = ImposedGrid(grid, markov(count, pi=float(config["availability"]), lam=0.5))
    model = ArrayRecord([np.zeros(NUM_FEATURES, np.float32), np.zeros(1, np.float32)])
    result = strategy.start(grid, model, num_rounds=int(config["num-rounds"]), timeout=timeout)
    np.savez(folder / "model.npz", **{name: array.numpy() for name, array in result.arrays.items()})
