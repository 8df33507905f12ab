"""With stand-ins; PyTorch itself is in `make test-integration`, which needs torchax 0.0.13 and torch 2.12."""

import sys
import types

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, from_torch
from turnout.testing import check_task

NUMBERS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
LABELS, OWNERS = (NUMBERS[:, 0] > 0).astype(int), np.arange(60) % 3


class Module:
    """A torch module as far as it is used: two parameters, one of them frozen, and buffers."""

    def __init__(self, *buffers):
        self.buffers, self.training = buffers, True

    def eval(self):
        self.training = False
        return self

    def named_buffers(self):
        return [(name, None) for name in self.buffers]

    def named_parameters(self):
        needs = {"weight": True, "frozen": False}
        return [(name, types.SimpleNamespace(requires_grad=value)) for name, value in needs.items()]


def extract_jax(module):
    assert not module.training
    arrays = {"weight": jnp.ones((4, 2)), "frozen": jnp.full(2, 3.0)}
    return arrays, lambda states, args: args[0] @ states["weight"] + states["frozen"][None, :]


@pytest.fixture
def _torchax(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchax", types.SimpleNamespace(extract_jax=extract_jax))


@pytest.mark.usefixtures("_torchax")
def test_a_module_is_a_model_whose_frozen_parameters_stay():
    module = Module("mask")
    model = from_torch(module)
    check_task(from_arrays((NUMBERS, LABELS, OWNERS), model=model, validation_share=0.0))
    params = model.init(jr.key(0))
    assert list(params) == ["weight"]
    inputs = jnp.asarray(NUMBERS)
    np.testing.assert_allclose(model.apply(params, inputs), NUMBERS @ np.ones((4, 2)) + 3.0, rtol=1e-5)
    assert module.training


@pytest.mark.usefixtures("_torchax")
def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"Module keeps running statistics, bn.running_mean; .* with Flower"):
        from_torch(Module("mask", "bn.running_mean"))
    with pytest.raises(TypeError, match=r"module: given <class .*, expected a torch.nn.Module"):
        from_torch(Module)


def test_without_torchax_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchax", None)
    with pytest.raises(ImportError, match=r"pip install torchax 'torch<2.13', or train the module .* with Flower"):
        from_torch(Module())


@pytest.mark.integration
@pytest.mark.usefixtures("lenient_promotion")
@pytest.mark.filterwarnings("ignore")  # of torch and torchax
@pytest.mark.parametrize("network", ["mlp", "cnn", "transformer"])
def test_networks_of_torch_train_and_answer_as_in_torch(network):
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(20, 16), nn.Parameter(torch.zeros(4, 16))
            self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)
            self.output = nn.Linear(16, 2)

        def forward(self, tokens):
            return self.output(self.layers(self.tokens(tokens) + self.places).mean(1))

    torch.manual_seed(0)
    modules = {
        "mlp": lambda: nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)),
        "cnn": lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(32, 2),
        ),
        "transformer": Encoder,
    }
    module = modules[network]()
    tokens = np.clip(10 + 4 * NUMBERS, 0, 19).astype(np.int32)
    inputs = {"mlp": NUMBERS, "cnn": NUMBERS.reshape(60, 1, 2, 2), "transformer": tokens}[network]
    model = from_torch(module)
    with torch.no_grad():
        expected = module.eval()(torch.tensor(inputs)).numpy()
    params = model.init(jr.key(0))
    np.testing.assert_allclose(jax.jit(model.apply)(params, jnp.asarray(inputs)), expected, atol=1e-5)
    task = from_arrays((inputs, LABELS, OWNERS), model=model, validation_share=0.0)
    world = World(availability.bernoulli(3, 0.8))
    history = simulate(task, world, FedAvg(), rounds=40, local=Local(0.1, batch_size=8))
    assert history.final("train_loss")[0] < 0.6 * history.metrics["train_loss"][0, 0]
