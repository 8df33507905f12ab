"""Networks that people bring, beside the same by `tasks.network`: numbers, and milliseconds of a round, in turn.

    python benchmarks/own_models.py                          # numbers and times on whatever device JAX finds
    python benchmarks/own_models.py --only resnet8 --step    # one local step in a loop, beside PyTorch where it is
    python benchmarks/own_models.py --only cnn --as-written  # also without rewriting, which takes long on a CPU

`cnn` is one network written by `tasks.network`, in plain JAX, for equinox and, where it is installed, for flax:
on a CPU two convolutions on images of 28 × 28 and 10 clients, elsewhere three on 32 × 32 × 3 and 50 clients, 5 steps of
batch 32. `resnet8` and `resnet18` have group norms and are plain JAX, 10 clients.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from performance import STORED, in_turn, machine, rounded

from turnout.availability import bernoulli
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local, Precision
from turnout.simulator.side_by_side import on_cpu
from turnout.strategies import FedAvg
from turnout.tasks import Model, from_arrays, from_flax, network
from turnout.tasks.base import Task
from turnout.tasks.models.layers import Conv, Dense, Pool, Relu
from turnout.tasks.models.model import cross_entropy
from turnout.tasks.models.rewriting.rewrite import rewritten
from turnout.world import World

SMALL = on_cpu()
IMAGE = (28, 28, 1) if SMALL else (32, 32, 3)
WIDTHS, HIDDEN = ((16, 32), 64) if SMALL else ((32, 64, 128), 256)
CLIENTS, STEPS, BATCH, CLASSES = 10 if SMALL else 50, 5, 32, 10
AXES = ("NHWC", "HWIO", "NHWC")
STAGES = {"resnet8": (16, (1, 1, 1), 3), "resnet18": (64, (2, 2, 2, 2), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="cnn,resnet8", help="cnn, resnet8, resnet18")
    parser.add_argument("--precisions", default="float32" if SMALL else "float32,bfloat16")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--as-written", action="store_true", help="also without rewriting")
    parser.add_argument("--step", action="store_true", help="one local step of a ResNet, beside PyTorch")
    parser.add_argument("--store", nargs="?", type=Path, const=STORED, metavar="FILE")
    options = parser.parse_args()
    rows = Rows(options.store)
    print(json.dumps({"machine": machine(), "jax": jax.__version__}), flush=True)
    for name in options.only.split(","):
        models = cnns() if name == "cnn" else {"plain JAX": resnet(*STAGES[name])}
        image = IMAGE if name == "cnn" else (32, 32, 3)
        for form, model in models.items():
            if model.rewrite:
                print(json.dumps({f"{name}, {form}, beside as written": differences(model, image)}), flush=True)
        if options.step:
            rows.add(f"{name}, one local step of 16", steps(name, models["plain JAX"], options.repeats))
            continue
        if options.as_written:
            models |= {f"{form}, as written": model.as_written() for form, model in models.items() if model.rewrite}
        for precision in options.precisions.split(","):
            found = rounds(models, image, precision, name, options.repeats)
            rows.add(f"{name}, {precision}, a round", found)


class Rows:
    """Milliseconds, printed and kept as they come, each row with its date and version; those of other devices stay."""

    def __init__(self, file: Path | None) -> None:
        self.file = file

    def add(self, name: str, milliseconds: dict[str, float]) -> None:
        row = {"ms": milliseconds, "date": str(datetime.now(UTC).date()), "jax": jax.__version__}
        print(json.dumps({name: row}), flush=True)
        if self.file is not None:
            kept = json.loads(self.file.read_text()) if self.file.exists() else {}
            device = kept.setdefault(jax.devices()[0].platform, {"machine": machine()})
            device.setdefault("own", {})[name] = row
            self.file.write_text(json.dumps(kept, indent=1) + "\n")


def rounds(
    models: dict[str, Model], image: tuple[int, ...], precision: Precision, name: str, repeats: int
) -> dict[str, float]:
    """Milliseconds of a round, the contenders in turn."""
    clients = CLIENTS if name == "cnn" else 10
    contenders = {form: per_round(task_of(model, image, clients), clients, precision) for form, model in models.items()}
    return {form: rounded(1e3 * seconds) for form, seconds in in_turn(contenders, repeats).items()}


def task_of(model: Model, image: tuple[int, ...], clients: int) -> Task:
    draw, count = np.random.default_rng(0), 2 * clients * 100
    labels, owners = draw.integers(0, CLASSES, count), np.repeat(np.arange(2 * clients), 100)
    inputs = draw.integers(0, 256, (count, *image)).astype(np.uint8)
    few = (inputs[::20], labels[::20], owners[::20])
    return from_arrays(train=(inputs, labels, owners), validation=few, test=few, model=model)


def per_round(task: Task, clients: int, precision: Precision) -> Callable[[], float]:
    """Seconds of a round, by a short and a long run, so that what is paid once does not count."""
    short, long = (1, 3) if SMALL else (5, 20)
    world = World(bernoulli(2 * clients, 0.9), compute=STEPS)
    local = Local(learning_rate=0.01, batch_size=BATCH, precision=precision)

    def seconds(length: int) -> float:
        begin = time.perf_counter()
        options: dict[str, Any] = {"rounds": length, "evaluate_every": length, "metrics": ["test_accuracy"]}
        simulate(task, world, FedAvg(cohort=clients), local=local, **options)
        return time.perf_counter() - begin

    for length in (short, long):
        seconds(length)
    return lambda: (seconds(long) - seconds(short)) / (long - short)


def differences(model: Model, image: tuple[int, ...]) -> dict[str, float]:
    """The largest difference of outputs and of gradients, each over the largest number."""
    params, inputs = model.init(jr.key(0)), jr.normal(jr.key(1), (4, *image))
    labels = jnp.arange(4) % CLASSES

    @jax.jit
    def both(params: Any) -> Any:
        def results(apply: Any) -> Any:
            gradient = jax.grad(lambda params: cross_entropy(apply(params, inputs), labels).mean())(params)
            return apply(params, inputs), gradient

        with jax.default_matmul_precision("highest"):
            return results(model.apply), results(rewritten(model.apply))

    def furthest(one: Any, other: Any) -> float:
        pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
        return rounded(float(max(jnp.abs(a - b).max() for a, b in pairs) / max(jnp.abs(a).max() for a, _ in pairs)))

    (outputs, gradients), (outputs_too, gradients_too) = both(params)
    return {"outputs": furthest(outputs, outputs_too), "gradients": furthest(gradients, gradients_too)}


def cnns() -> dict[str, Model]:
    """One network in several libraries."""
    layers = tuple(layer for width in WIDTHS for layer in (Conv(width), Relu(), Pool()))
    whole = (*layers, Dense(HIDDEN), Relu(), Dense(CLASSES, last=True))
    found = {"tasks.network": network(IMAGE, whole), "plain JAX": plain_cnn(), "equinox": Model.from_module(EquinoxCNN)}
    return found | ({"flax": flax_cnn()} if importlib.util.find_spec("flax") else {})


def flat_size() -> int:
    return math.prod(length // 2 ** len(WIDTHS) for length in IMAGE[:2]) * WIDTHS[-1]


def plain_cnn() -> Model:
    before = (IMAGE[-1], *WIDTHS)

    def init(key: Any) -> Any:
        shapes = [(3, 3, *pair) for pair in zip(before, WIDTHS, strict=False)]
        shapes += [(flat_size(), HIDDEN), (HIDDEN, CLASSES)]
        keys = jr.split(key, len(shapes))
        return [
            (jr.normal(k, s) * math.sqrt(2 / math.prod(s[:-1])), jnp.zeros(s[-1]))
            for k, s in zip(keys, shapes, strict=True)
        ]

    def apply(params: Any, x: Any) -> Any:
        params = jax.tree.map(lambda leaf: leaf.astype(x.dtype), params)
        for weight, bias in params[: len(WIDTHS)]:
            x = jax.nn.relu(lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=AXES) + bias)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        (hidden, first), (last, bias) = params[len(WIDTHS) :]
        x = jax.nn.relu(x.reshape(x.shape[0], -1) @ hidden + first)
        return (x @ last + bias).astype(jnp.float32)

    return Model(init, apply)


class EquinoxCNN(eqx.Module):
    """For one sample, as equinox has it."""

    convolutions: list[eqx.nn.Conv2d]
    pool: eqx.nn.MaxPool2d
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jr.split(key, len(WIDTHS) + 2)
        before = (IMAGE[-1], *WIDTHS)
        self.convolutions = [
            eqx.nn.Conv2d(before[place], width, 3, padding=1, key=keys[place]) for place, width in enumerate(WIDTHS)
        ]
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.hidden = eqx.nn.Linear(flat_size(), HIDDEN, key=keys[-2])
        self.last = eqx.nn.Linear(HIDDEN, CLASSES, key=keys[-1])

    def __call__(self, image: Any) -> Any:
        x = image.transpose(2, 0, 1)
        for convolution in self.convolutions:
            x = self.pool(jax.nn.relu(convolution(x)))
        return self.last(jax.nn.relu(self.hidden(x.reshape(-1))))


def flax_cnn() -> Model:
    from flax import linen

    class FlaxCNN(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            for width in WIDTHS:
                x = linen.max_pool(linen.relu(linen.Conv(width, (3, 3))(x)), (2, 2), (2, 2))
            x = linen.relu(linen.Dense(HIDDEN)(x.reshape(x.shape[0], -1)))
            return linen.Dense(CLASSES)(x)

    return from_flax(FlaxCNN(), IMAGE)


def resnet(width: int, blocks: tuple[int, ...], stages: int) -> Model:
    """A ResNet for small images with group norms of 8 groups, in plain JAX."""
    plan, before = [], width
    for stage in range(stages):
        for block in range(blocks[stage]):
            plan.append((before, width * 2**stage, 2 if stage and not block else 1))
            before = width * 2**stage

    def init(key: Any) -> Any:
        keys = iter(jr.split(key, 3 * len(plan) + 2))

        def convolution(size: int, inputs: int, outputs: int) -> Any:
            scale = math.sqrt(2 / (size**2 * inputs))
            return scale * jr.normal(next(keys), (size, size, inputs, outputs)), jnp.ones(outputs), jnp.zeros(outputs)

        made = [convolution(3, 3, width)]
        for inputs, outputs, _ in plan:
            block = [convolution(3, inputs, outputs), convolution(3, outputs, outputs)]
            made.append([*block, convolution(1, inputs, outputs)] if inputs != outputs else block)
        return made, 0.1 * jr.normal(next(keys), (before, CLASSES)), jnp.zeros(CLASSES)

    def normed(layer: Any, x: Any, stride: int = 1) -> Any:
        weight, gain, shift = layer
        x = lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=AXES)
        groups = x.astype(jnp.float32).reshape(*x.shape[:3], 8, -1)
        centred = groups - groups.mean((1, 2, 4), keepdims=True)
        scaled = centred * lax.rsqrt((centred**2).mean((1, 2, 4), keepdims=True) + 1e-5)
        return (scaled.reshape(x.shape) * gain + shift).astype(x.dtype)

    def apply(params: Any, x: Any) -> Any:
        (stem, *rest), last, bias = jax.tree.map(lambda leaf: leaf.astype(x.dtype), params)
        x = jax.nn.relu(normed(stem, x))
        for (_, _, stride), (one, two, *three) in zip(plan, rest, strict=True):
            y = normed(two, jax.nn.relu(normed(one, x, stride)))
            x = jax.nn.relu(y + (normed(three[0], x, stride) if three else x))
        return (x.mean((1, 2)) @ last + bias).astype(jnp.float32)

    return Model(init, apply)


def steps(name: str, model: Model, repeats: int, batch: int = 16, count: int = 10) -> dict[str, float]:
    """Milliseconds of a local step of one client after another, in a compiled loop; PyTorch on all cores."""
    images, labels = jr.normal(jr.key(0), (batch, 32, 32, 3)), jnp.arange(batch) % CLASSES
    params = model.init(jr.key(1))

    @jax.jit
    def train(params: Any) -> Any:
        def step(_: Any, now: Any) -> Any:
            gradient = jax.grad(lambda now: cross_entropy(model.outputs(now, images), labels).mean())(now)
            return jax.tree.map(lambda value, part: value - 0.01 * part, now, gradient)

        return lax.fori_loop(0, count, step, params)

    def ours() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(train(params))
        return (time.perf_counter() - begin) / count

    contenders: dict[str, Callable[[], float]] = {"turnout": ours}
    if importlib.util.find_spec("torch"):
        contenders["PyTorch"] = torch_steps(*STAGES[name], batch, count)
    for measure in contenders.values():
        measure()
    return {form: rounded(1e3 * seconds) for form, seconds in in_turn(contenders, repeats).items()}


def torch_steps(width: int, blocks: tuple[int, ...], stages: int, batch: int, count: int) -> Callable[[], float]:
    """The same steps of the same network in PyTorch."""
    import torch
    from torch import nn

    def normed(size: int, inputs: int, outputs: int, stride: int) -> Any:
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        return nn.Sequential(convolution, nn.GroupNorm(8, outputs))

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.one, self.two = normed(3, inputs, outputs, stride), normed(3, outputs, outputs, 1)
            self.three = normed(1, inputs, outputs, stride) if inputs != outputs else nn.Identity()

        def forward(self, x: Any) -> Any:
            return torch.relu(self.two(torch.relu(self.one(x))) + self.three(x))

    made, before = [normed(3, 3, width, 1), nn.ReLU()], width
    for stage in range(stages):
        for block in range(blocks[stage]):
            made.append(Block(before, width * 2**stage, 2 if stage and not block else 1))
            before = width * 2**stage
    module = nn.Sequential(*made, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    images, labels = torch.randn(batch, 3, 32, 32), torch.arange(batch) % CLASSES

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(images), labels).backward()
            optimizer.step()
        return (time.perf_counter() - begin) / count

    return measure


if __name__ == "__main__":
    main()
