"""The client: some steps of gradient descent on its own data, in numpy."""

from typing import Any

import numpy as np
from flwr.app import Context

from quickstart.task import gradient, load, loss_of
from turnout.flower import client_app


def train(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> Any:
    inputs, labels = load(context.node_config["client-id"])
    model, rate, losses = list(arrays.values()), np.float32(config["lr"]), []
    for _ in range(int(context.run_config["local-steps"])):
        losses.append(loss_of(model, inputs, labels))
        slopes = gradient(model, inputs, labels)
        model = [part - rate * slope for part, slope in zip(model, slopes, strict=True)]
    metrics = {"loss": float(np.mean(losses)), "reach": len(losses), "num-examples": len(labels)}
    return dict(zip(arrays, model, strict=True)), metrics


def loss(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> float:
    return loss_of(list(arrays.values()), *load(context.node_config["client-id"]))


def size(context: Context) -> int:
    return len(load(context.node_config["client-id"])[1])


app = client_app(train=train, loss=loss, size=size)
