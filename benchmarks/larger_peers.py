"""The rows of larger_models.py in PyTorch: reads names from its input, answers seconds per local step.

A client after another uses all cores in each operation; ten clients have one core each, in processes of their own,
as many at a time as there are cores.
"""

import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, RANK = 96, 128, 256, 8, 6, 8
NAMES = ["resnet8", "resnet8, 10 clients", "transformer", "adapters", "adapters, 10 clients"]
STEPS = 6
CORES = len(os.sched_getaffinity(0))


class Block(nn.Module):
    def __init__(self, before: int, channels: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.GroupNorm(2, channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.GroupNorm(2, channels)
        changes = stride > 1 or before != channels
        self.downsample = (
            nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.GroupNorm(2, channels))
            if changes
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet8(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(2, 16)
        self.layer1 = nn.Sequential(Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2))
        self.layer3 = nn.Sequential(Block(32, 64, 2))
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class Adapted(nn.Module):
    """A linear map that is frozen, with an adapter beside it."""

    def __init__(self, width: int):
        super().__init__()
        self.frozen = nn.Linear(width, width, bias=False).requires_grad_(False)
        self.down = nn.Linear(width, RANK, bias=False)
        self.up = nn.Linear(RANK, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.up(self.down(x))


class Attention(nn.Module):
    def __init__(self, adapted: bool):
        super().__init__()
        maps = [Adapted(WIDTH) if adapted else nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)]
        self.query, self.key, self.value, self.out = maps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, adapted: bool = False):
        super().__init__()
        self.embedding, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.attentions = nn.ModuleList(Attention(adapted) for _ in range(LAYERS))
        self.perceptrons = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(LAYERS)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * LAYERS + 1))
        self.output = nn.Linear(WIDTH, VOCABULARY)
        if adapted:
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("down" in name or "up" in name)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.places
        for number, (attention, perceptron) in enumerate(zip(self.attentions, self.perceptrons, strict=True)):
            x = x + attention(self.norms[2 * number](x))
            x = x + perceptron(self.norms[2 * number + 1](x))
        return self.output(self.norms[-1](x[:, -1]))


def seconds_per_step(name: str) -> float:
    """Seconds of a step of one client on the threads that this process has."""
    if name.startswith("resnet8"):
        model, inputs, labels = ResNet8(), torch.randn(16, 3, 32, 32), torch.arange(16) % 10
    else:
        model = Transformer(adapted=name.startswith("adapters"))
        inputs, labels = torch.randint(VOCABULARY, (8, CONTEXT)), torch.arange(8)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.01)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    step()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - begin) / STEPS


def on_one_core(name: str) -> float:
    torch.set_num_threads(1)
    return seconds_per_step(name)


def answer(name: str) -> float:
    """Seconds per step; of ten clients, seconds until all have done a step, divided by ten."""
    if "10 clients" not in name:
        return seconds_per_step(name)
    with torch.multiprocessing.get_context("spawn").Pool(CORES) as pool:
        each = pool.map(on_one_core, [name] * CORES, chunksize=1)
    return sum(each) / len(each) / CORES


if __name__ == "__main__":
    torch.set_num_threads(CORES)
    print(json.dumps(NAMES), flush=True)
    for line in sys.stdin:
        print(answer(line.strip()), flush=True)
