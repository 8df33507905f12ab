"""A client that descends its own quadratic, in steps that are steered; some take longer than others."""

import time
from pathlib import Path

import numpy as np

from turnout.flower import client_app


def memory(context):
    """Its own file, which a killed node finds again."""
    return Path(str(context.run_config["folder"])) / f"memory-{context.node_config['client-id']}.npz"


def train(arrays, config, context):
    own, (model,) = context.node_config, arrays.values()
    (name,) = arrays
    steps, begun = 1 + int(float(own["number"])) % 3, model
    for _ in range(steps):
        gradient = np.float32(1.0 + 0.1 * float(own["number"])) * (model - np.float32(own["number"]))
        model = model - np.float32(config["lr"]) * config["steer"]({name: gradient}, {name: model})[name]
    time.sleep(float(own.get("seconds", 0.0)))
    return {name: model}, {"loss": float(np.mean((begun - float(own["number"])) ** 2)), "reach": steps}


app = client_app(train=train, state=memory)
