"""With a stand-in for linen; linen and nnx themselves are in `make test-integration`, for which flax is installed."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg
from turnout.tasks import from_arrays, from_flax
from turnout.testing import check_task

INPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(60, 4)), jnp.float32)
LABELS, OWNERS = np.asarray(INPUTS[:, 0] > 0, int), np.arange(60) % 3


class Dense:
    """A linen module as far as it is used: variables in a dict, random numbers by name."""

    state = False

    def init(self, key, inputs, train=False):
        params = {"kernel": jr.normal(key, (inputs.shape[-1], 2)), "bias": jnp.zeros(2)}
        return {"params": params} | ({"batch_stats": jnp.zeros(2)} if self.state else {})

    def apply(self, variables, inputs, train=False, rngs=None):
        outputs = inputs @ variables["params"]["kernel"] + variables["params"]["bias"][None, :]
        kept = jr.bernoulli(rngs["dropout"], 0.5, outputs.shape) if train else True
        return jnp.where(kept, outputs, 0.0)


class WithStatistics(Dense):
    state = True


def task_with(model):
    return from_arrays((INPUTS, LABELS, OWNERS), model=model, validation_share=0.0)


def test_a_linen_module_is_a_model_by_a_sample_or_its_shape():
    for sample in ((4,), INPUTS[0]):
        model = from_flax(Dense(), sample)
        check_task(task_with(model))
        params = model.init(jr.key(0))
        np.testing.assert_allclose(model.apply(params, INPUTS), INPUTS @ params["kernel"], rtol=1e-5)
        assert model.apply_noisily is None
    assert model.apply(params, jnp.asarray(INPUTS, jnp.bfloat16)).dtype == jnp.float32


def test_dropout_is_drawn_from_the_word_and_left_out_of_evaluation():
    model = from_flax(Dense(), (4,), train={"train": True}, evaluate={"train": False})
    params = model.init(jr.key(0))
    drawn = [jax.jit(model.apply_noisily)(params, INPUTS, jnp.uint32(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    assert (model.apply(params, INPUTS) != 0).all()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: from_flax(WithStatistics(), (4,)), "WithStatistics keeps state beside its parameters: batch_stats"),
        (lambda: from_flax(Dense()), "sample is missing"),
        (lambda: from_flax(3), "module: given an object of type int, expected a linen module"),
        (lambda: from_flax(float), "module: given the class float, expected"),
        (lambda: from_flax(lambda rngs: rngs, train={"train": True}), "an nnx module has none"),
    ],
)
def test_what_does_not_fit_is_refused(call, complaint):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert complaint in str(caught.value)


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("library", ["linen", "nnx"])
@pytest.mark.usefixtures("lenient_promotion")
def test_networks_of_flax_train(library, precision):
    from flax import linen, nnx

    class Cnn(linen.Module):
        @linen.compact
        def __call__(self, images, deterministic=True):
            features = linen.GroupNorm(num_groups=2)(linen.relu(linen.Conv(8, (3, 3))(images)))
            features = linen.Dropout(0.2, deterministic=deterministic)(features.reshape(images.shape[0], -1))
            return linen.Dense(2)(features)

    class NnxCnn(nnx.Module):
        def __init__(self, *, rngs):
            self.conv = nnx.Conv(1, 8, (3, 3), rngs=rngs)
            self.norm = nnx.GroupNorm(8, num_groups=2, rngs=rngs)
            self.out = nnx.Linear(32, 2, rngs=rngs)

        def __call__(self, images):
            return self.out(nnx.relu(self.norm(self.conv(images))).reshape(images.shape[0], -1))

    class Stateful(nnx.Module):
        def __init__(self, *, rngs):
            self.norm = nnx.BatchNorm(2, rngs=rngs)

    noisy = {"train": {"deterministic": False}, "evaluate": {"deterministic": True}}
    model = from_flax(Cnn(), (2, 2, 1), **noisy) if library == "linen" else from_flax(lambda rngs: NnxCnn(rngs=rngs))
    task = from_arrays((INPUTS.reshape(60, 2, 2, 1), LABELS, OWNERS), model=model, validation_share=0.0)
    local = Local(0.1, batch_size=8, precision=precision)
    history = simulate(task, World(availability.bernoulli(3, 0.8)), FedAvg(), rounds=30, local=local)
    assert history.final("train_loss")[0] < 0.5 * history.metrics["train_loss"][0, 0]
    with pytest.raises(ValueError, match="Stateful keeps state beside its parameters: BatchStat"):
        from_flax(lambda rngs: Stateful(rngs=rngs))
