"""The model, its training, and the data of a client."""

import numpy as np


def get_model():
    return [np.zeros(4), np.zeros(1)]


def load_data(partition_id: int):
    """Made-up samples; clients differ in how many they have, and in how many of these are of class 1."""
    draw = np.random.default_rng(partition_id)
    kind = partition_id % 4
    labels = (draw.random(60 * (kind + 1)) < 0.2 + 0.2 * kind).astype(float)
    inputs = draw.normal(size=(len(labels), 4)) + labels[:, None]
    cut = int(0.8 * len(labels))
    return (inputs[:cut], labels[:cut]), (inputs[cut:], labels[cut:])


def probabilities(model, inputs):
    weights, bias = model
    return 1 / (1 + np.exp(-(inputs @ weights + bias)))


def train(model, data, epochs: int, lr: float):
    inputs, labels = data
    for _ in range(epochs):
        error = probabilities(model, inputs) - labels
        model = [model[0] - lr * error @ inputs / len(labels), model[1] - lr * error.mean(keepdims=True)]
    return model, test(model, data)[0]


def test(model, data):
    inputs, labels = data
    guess = np.clip(probabilities(model, inputs), 1e-7, 1 - 1e-7)
    loss = -np.mean(labels * np.log(guess) + (1 - labels) * np.log(1 - guess))
    return float(loss), float(np.mean((guess > 0.5) == labels))
