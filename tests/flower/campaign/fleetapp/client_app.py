"""A client that pulls the model to its own number, takes its time, and keeps books of what it did; one of them lies."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from turnout.flower import greet


def memory(context):
    """Its own file, which a killed node finds again; only strategies with their memory on the clients use it."""
    return Path(str(context.run_config["folder"])) / f"memory-{context.node_config['client-id']}.npz"


app = greet(ClientApp(), state=memory)


@app.train()
def train(message, context):
    config, own = message.content["config"], context.node_config
    model = message.content["arrays"].to_numpy_ndarrays()[0]
    begun = time.time()
    time.sleep(float(context.run_config["seconds"]) * float(own.get("slowness", 1.0)))
    update = np.float32(0.5) * (np.float32(own["number"]) - model) * np.float32(own.get("scale", 1.0))
    line = {"round": config["server-round"], "begun": begun, "ended": time.time()}
    with (Path(str(context.run_config["folder"])) / f"books-{own['client-id']}.jsonl").open("a") as books:
        books.write(json.dumps(line) + "\n")
    metrics = MetricRecord({"train_loss": float(np.mean((model - float(own["number"])) ** 2)), "num-examples": 1})
    return Message(RecordDict({"arrays": ArrayRecord([model + update]), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    gap = message.content["arrays"].to_numpy_ndarrays()[0] - float(context.node_config["number"])
    metrics = MetricRecord({"loss": float(np.mean(gap**2)), "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
