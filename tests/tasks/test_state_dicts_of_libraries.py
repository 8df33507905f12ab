"""Parameters and outputs beside PyTorch and flax themselves: `TURNOUT_LIBRARIES=python` names one that has both."""

import os
import subprocess
import sys

import jax
import jax.random as jr
import numpy as np
import pytest

from turnout.files.safetensors import read_safetensors, write_safetensors
from turnout.tasks import load_params, model_named, params_from_flax, params_to_flax, params_to_torch
from turnout.tasks.models.state_dicts import FILE

pytestmark = pytest.mark.integration

TORCH = """
import sys, torch, torch.nn.functional as F
from torch import nn
from safetensors.torch import load_file, save_file

class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.GroupNorm(2, channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.GroupNorm(2, channels)
        self.downsample = nn.Identity()
        if stride > 1 or before != channels:
            convolution = nn.Conv2d(before, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(convolution, nn.GroupNorm(2, channels))
    def forward(self, x):
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
    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))

def normed(convolution):
    return convolution, nn.GroupNorm(2, convolution.out_channels), nn.ReLU()

def mobilenet():
    layers, before = [*normed(nn.Conv2d(3, 32, 3, 1, 1, bias=False))], 32
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
        layers += normed(nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False))
        layers += normed(nn.Conv2d(before, width, 1, bias=False))
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

def convnet4():
    layers, before = [], 3
    for _ in range(4):
        layers += [*normed(nn.Conv2d(before, 64, 3, 1, 1, bias=False)), nn.MaxPool2d(2)]
        before = 64
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 2 * 2, 10))

name, folder = sys.argv[1:]
model = {"resnet8": ResNet8, "mobilenet": mobilenet, "convnet4": convnet4}[name]()
given = load_file(f"{folder}/given.safetensors")
images = given.pop("images")
model.load_state_dict(given)  # strictly: the names are all there
save_file({"outputs": model(images.permute(0, 3, 1, 2).contiguous()).detach()}, f"{folder}/outputs.safetensors")
save_file(model.state_dict(), f"{folder}/model.safetensors")
"""
FLAX = """
import sys, numpy as np, jax, jax.numpy as jnp
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import load_file, save_file

class ResNet8(nn.Module):
    @nn.compact
    def __call__(self, x):
        conv = lambda c, k=3, s=1: nn.Conv(c, (k, k), (s, s), padding=k // 2, use_bias=False)
        norm = lambda: nn.GroupNorm(2, epsilon=1e-5)
        x = nn.relu(norm()(conv(16)(x)))
        for c, s in ((16, 1), (32, 2), (64, 2)):
            y = conv(c, 3, s)(x)  # one by one: modules are numbered as they are made, outer ones first
            y = nn.relu(norm()(y))
            y = conv(c)(y)
            y = norm()(y)
            x = nn.relu(y + (x if s == 1 else norm()(conv(c, 1, s)(x))))
        return nn.Dense(10)(x.mean((1, 2)))

folder = sys.argv[2]
given = load_file(f"{folder}/given.safetensors")
images = given.pop("images")
params = unflatten_dict(given, sep="/")
fresh = ResNet8().init(jax.random.key(0), images)["params"]
assert jax.tree.map(jnp.shape, fresh) == jax.tree.map(jnp.shape, params)
save_file({"outputs": np.asarray(ResNet8().apply({"params": params}, images))}, f"{folder}/outputs.safetensors")
save_file({k: np.asarray(v) for k, v in flatten_dict(fresh, sep="/").items()}, f"{folder}/fresh.safetensors")
"""


def run(code, name, folder, arrays, images):
    """Outputs of the library's network with these parameters."""
    python = os.environ.get("TURNOUT_LIBRARIES", sys.executable)
    write_safetensors(folder / "given.safetensors", arrays | {"images": np.asarray(images)})
    subprocess.run([python, "-c", code, name, str(folder)], check=True)
    return read_safetensors(folder / "outputs.safetensors")["outputs"]


def drawn(model):
    leaves, form = jax.tree.flatten(jax.eval_shape(model.init, jr.key(0)))
    return jax.tree.unflatten(form, [0.2 * jr.normal(jr.key(i), leaf.shape) for i, leaf in enumerate(leaves)])


@pytest.mark.parametrize("name", ["resnet8", "mobilenet", "convnet4"])
def test_pytorch_computes_the_same_and_its_file_is_read(name, tmp_path):
    model, images = model_named(name, (32, 32, 3), 10), jr.normal(jr.key(9), (4, 32, 32, 3))
    params = drawn(model)
    theirs = run(TORCH, name, tmp_path, params_to_torch(model, params), images)
    ours = model.apply(params, images)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(np.abs(theirs).max()))
    assert (tmp_path / FILE).is_file()
    jax.tree.map(np.testing.assert_array_equal, load_params(tmp_path, model), params)


def test_flax_computes_the_same_and_its_parameters_are_read(tmp_path):
    model, images = model_named("resnet8", (32, 32, 3), 10), jr.normal(jr.key(9), (4, 32, 32, 3))
    params = drawn(model)
    flat = {
        f"{module}/{name}": array
        for module, table in params_to_flax(model, params).items()
        for name, array in table.items()
    }
    theirs = run(FLAX, "resnet8", tmp_path, flat, images)
    np.testing.assert_allclose(model.apply(params, images), theirs, rtol=1e-4, atol=1e-4 * float(np.abs(theirs).max()))
    fresh = read_safetensors(tmp_path / "fresh.safetensors")
    tables: dict = {}
    for path, array in fresh.items():
        module, name = path.split("/")
        tables.setdefault(module, {})[name] = array
    read = params_from_flax(model, tables)
    again = {
        f"{module}/{name}": array
        for module, table in params_to_flax(model, read).items()
        for name, array in table.items()
    }
    assert all(np.array_equal(again[path], array) for path, array in fresh.items())
