"""A server that closes rounds without stragglers, or does not wait at all, and goes on from its checkpoint."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from turnout.flower import Files, FlowerStrategy, Limits
from turnout.paces import Buffered
from turnout.strategies import MIFA, CAFed, LastWord

STRATEGIES = {
    "mifa": MIFA(),
    "ca_fed": CAFed(),
    "last_word": LastWord(),
    "last_word_on_clients": LastWord(memory="clients"),
}
PACES = {"rounds": {"stretch": 1.25}, "everybody": {}, "buffered": {"pace": Buffered(size=2, concurrency=6)}}

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
        **PACES[str(config["pace"])],
        evaluate_every=0,
        min_available_nodes=3,
    )

    def note(t, arrays):
        line = {"t": t, "time": time.time(), "model": arrays.to_numpy_ndarrays()[0].tolist()}
        with (folder / "progress.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    model, length = ArrayRecord([np.zeros(2, np.float32)]), {"num_rounds": int(config["num-rounds"])}
    result = strategy.start(grid, model, **length, timeout=float(config["timeout"]), evaluate_fn=note)
    np.savez(folder / "model.npz", *result.arrays.to_numpy_ndarrays())
