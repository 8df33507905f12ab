"""The network, its training, and the data of a client."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np


def create_model():
    first, second = jr.split(jr.key(0))
    return {"hidden": 0.5 * jr.normal(first, (2, 8)), "output": 0.5 * jr.normal(second, (8, 3))}


def get_params(model):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


def set_params(model, ndarrays):
    return jax.tree.unflatten(jax.tree.structure(model), [jnp.asarray(array) for array in ndarrays])


def load_data(partition_id: int):
    """Three bunches of points, of which a client sees one more often than the others."""
    choose, place = jr.split(jr.key(partition_id))
    shares = jnp.where(jnp.arange(3) == partition_id % 3, 0.6, 0.2)
    labels = jr.choice(choose, 3, (80,), p=shares)
    centres = jnp.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    inputs = centres[labels] + jr.normal(place, (80, 2))
    return (inputs[:64], labels[:64]), (inputs[64:], labels[64:])


def loss_fn(model, inputs, labels):
    logits = jnp.tanh(inputs @ model["hidden"]) @ model["output"]
    loss = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))
    return loss, jnp.mean((jnp.argmax(logits, axis=1) == labels).astype(jnp.float32))


test = jax.jit(loss_fn)
gradient = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))


def train(model, data, batch_size: int, learning_rate: float):
    """One pass over the data by plain SGD."""
    inputs, labels = data
    losses = []
    for start in range(0, len(labels), batch_size):
        batch = inputs[start : start + batch_size], labels[start : start + batch_size]
        (loss, _), slope = gradient(model, *batch)
        model = jax.tree.map(lambda leaf, part: leaf - learning_rate * part, model, slope)
        losses.append(float(loss))
    return model, float(np.mean(losses))
