"""The client: a few steps of gradient descent on its own data, in numpy."""

from typing import Any

import numpy as np
from flwr.app import Context

from quickstart.task import accuracy, gradient, loss_of, own_data
from turnout.flower import client_app


def train(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> Any:
    inputs, labels = own_data(context.node_config)
    model, rate, losses = list(arrays.values()), np.float32(config["lr"]), []
    for _ in range(int(context.run_config["local-steps"])):
        losses.append(loss_of(model, inputs, labels))
        slopes = gradient(model, inputs, labels)
        model = [part - rate * slope for part, slope in zip(model, slopes, strict=True)]
    metrics = {"loss": float(np.mean(losses)), "reach": len(losses), "num-examples": len(labels)}
    return dict(zip(arrays, model, strict=True)), metrics


def loss(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> float:
    return loss_of(list(arrays.values()), *own_data(context.node_config))


def evaluate(arrays: dict[str, np.ndarray], config: dict[str, Any], context: Context) -> dict[str, float]:
    model, samples = list(arrays.values()), own_data(context.node_config)
    return {"loss": loss_of(model, *samples), "accuracy": accuracy(model, *samples)}


def size(context: Context) -> int:
    return len(own_data(context.node_config)[1])


app = client_app(train=train, loss=loss, evaluate=evaluate, size=size)
