"""Which form of a convolution, and clients side by side or one by one: gradients of a whole cohort, in one run.

    python benchmarks/convolution.py                          # on whatever device JAX finds
    python benchmarks/convolution.py --clients 50 --only cnn_ca_fed

Each client has weights and a batch of its own. A convolution is either the compiler's, which clients side by side turn
into one in groups, or a product of patches and kernel, which the library uses. Clients are mapped side by side (`vmap`)
or one by one (`lax.map`). Everything is timed after compilation, the contenders in turn, several times over; figures
are medians.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from simulator import in_turn
from turnout.tasks.models.layers import Conv, Layer
from turnout.tasks.models.model import Model, cross_entropy
from turnout.tasks.models.networks import NETWORKS, model_named, network

NUM_CLASSES = 10
IMAGES = {"cnn_fedacs_mnist": (28, 28), "linear": (28, 28), "mlp": (28, 28), "mlp_debiased": (28, 28)}
NAMES = ("linear", "mlp", "mlp_debiased", "cnn_fedacs_mnist", "cnn_ca_fed", "cnn_debiased", "cnn_fedacs_cifar10")
WAYS = ("side", "one")
ORDER = [f"{form}, {way}" for form in ("patches", "compiler") for way in WAYS]


class CompilersConv(Conv):
    """The same layer by the compiler's own convolution."""

    def apply(self, params: Any, inputs: Any, word: Any) -> Any:
        kernel = params["weight"].reshape(self.size, self.size, inputs.shape[0], self.channels)
        border, axes = [(self.padding, self.padding)] * 2, ("CHWN", "HWIO", "CHWN")
        outputs = jax.lax.conv_general_dilated(inputs, kernel, (1, 1), border, dimension_numbers=axes)
        return outputs + params["bias"][:, None, None, None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=NAMES)
    options = parser.parse_args()
    device = jax.devices()[0]
    print(f"jax {jax.__version__} on {device.device_kind} ({device.platform})")
    print(f"Gradients of {options.clients} clients, batch {options.batch}, milliseconds")
    print(f"{'':20}{'patches':>20}{'compiler':>20}{'compiler':>12}{'side':>10}")
    print(f"{'':20}{'side':>10}{'one':>10}{'side':>10}{'one':>10}{'/ patches':>12}{'/ one':>10}")
    for name in [options.only] if options.only else NAMES:
        report(name, options.clients, options.batch, options.repeats)


def report(name: str, clients: int, batch: int, repeats: int) -> None:
    image = IMAGES.get(name, (32, 32, 3))
    forms = {"patches": model_named(name, image, NUM_CLASSES)}
    if name in NETWORKS:
        forms["compiler"] = network(image, tuple(map(compilers, NETWORKS[name](NUM_CLASSES))))
    contenders = {}
    for form, model in forms.items():
        for way in WAYS:
            contenders[f"{form}, {way}"] = prepared(model, way, image, clients, batch)
    times = in_turn(contenders, repeats)
    cells = "".join(f"{1e3 * times[key]:10.2f}" if key in times else f"{'-':>10}" for key in ORDER)
    against = "-"
    if "compiler" in forms:
        theirs, ours = (min(times[f"{form}, {way}"] for way in WAYS) for form in ("compiler", "patches"))
        against = f"{theirs / ours:.1f}"
    print(f"{name:20}{cells}{against:>12}{times['patches, side'] / times['patches, one']:>10.2f}")


def compilers(layer: Layer) -> Layer:
    return CompilersConv(**dataclasses.asdict(layer)) if isinstance(layer, Conv) else layer


def prepared(model: Model, way: str, image: tuple[int, ...], clients: int, batch: int) -> Callable[[], float]:
    """A compiled program that takes one gradient of every client, and how long it runs."""
    params = jax.vmap(model.init)(jr.split(jr.key(0), clients))
    inputs = jr.normal(jr.key(1), (clients, batch, *image))
    labels = jr.randint(jr.key(2), (clients, batch), 0, NUM_CLASSES)

    def gradient(client: tuple[Any, Any, Any]) -> Any:
        mine, x, y = client
        return jax.grad(lambda p: jnp.mean(cross_entropy(model.apply(p, x), y)))(mine)

    mapped = jax.vmap(gradient) if way == "side" else lambda everyone: jax.lax.map(gradient, everyone)
    program = jax.jit(mapped)
    jax.block_until_ready(program((params, inputs, labels)))

    def measure() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(program((params, inputs, labels)))
        return time.perf_counter() - begin

    return measure


if __name__ == "__main__":
    main()
