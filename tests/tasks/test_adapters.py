"""Low-rank adapters: of our models, of models of one's own, in tasks and in experiment files."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout import Local, World, availability, simulate
from turnout.strategies import FedAvg, LastWord
from turnout.tasks import (
    Adapt,
    Model,
    adapt,
    adapted_paths,
    from_arrays,
    lstm,
    merge_adapters,
    mlp,
    network,
    save_params,
    text,
    transformer,
)
from turnout.tasks.models.blocks import GlobalAverage, GroupNorm, Residual
from turnout.tasks.models.layers import Conv, Dense, Dropout, Relu
from turnout.testing import check_task
from turnout.workbench.experiment.errors import ExperimentError
from turnout.workbench.experiment.parts import read_part

NETWORK = network(
    (6, 6, 2), (Conv(4, bias=False), GroupNorm(), Relu(), Residual((Conv(4),)), GlobalAverage(), Dense(3, last=True))
)


def by_hand(function):
    """A model of one's own with two matrices, which meet the inputs in this way."""
    params = {"a": jr.normal(jr.key(1), (6, 5)), "b": jr.normal(jr.key(2), (3, 5))}
    return Model(lambda key: params, function)


def repeated(params, x):
    """The same product in every turn of a loop."""
    out, _ = jax.lax.scan(lambda h, _: (jnp.tanh(h @ params["a"] @ params["a"].T), None), x, None, length=3)
    return out @ params["a"] @ params["b"].T


@jax.checkpoint
def again(params, x):
    return jax.nn.relu(x @ params["a"]) @ params["b"].T


def chosen(params, x):
    return jax.lax.cond(x.sum() > -1e9, lambda w: x @ w, lambda w: jnp.zeros((x.shape[0], 5)), params["a"]) @ (
        jnp.squeeze(params["b"].reshape(3, 1, 5)).T
    )


def heads(params, x):
    return jnp.einsum("bi,ihk->bhk", x, params["a"].reshape(6, 5, 1)).sum(2) @ params["b"].T


def tied(params, x):
    """A matrix that is also read row by row."""
    return (x @ params["a"] + params["a"][:3].sum(0)[None, :]) @ params["b"].T


TOKENS, NUMBERS, IMAGES = (
    jnp.arange(12).reshape(3, 4) % 7,
    jr.normal(jr.key(8), (3, 6)),
    jr.normal(jr.key(9), (3, 6, 6, 2)),
)
MODELS = {
    "transformer": (transformer(7, 4, 8, 2, 2), TOKENS),
    "remat": (transformer(7, 4, 8, 2, 1, remat=True), TOKENS),
    "lstm": (lstm(7, 8), TOKENS),
    "mlp": (mlp(6, (5, 4), 3), NUMBERS),
    "network": (NETWORK, IMAGES),
    **{function.__name__: (by_hand(function), NUMBERS) for function in (repeated, chosen, heads, tied)},
    "again": (by_hand(again), NUMBERS),
}


def moved(params, by=0.3):
    leaves, form = jax.tree.flatten(params)
    return jax.tree.unflatten(form, [leaf + by * jr.normal(jr.key(i), leaf.shape) for i, leaf in enumerate(leaves)])


@pytest.mark.parametrize("name", MODELS)
def test_adapters_do_what_the_merged_parameters_do_and_begin_at_the_base(name):
    model, inputs = MODELS[name]
    params = model.init(jr.key(0))
    sample = None if model.sample is not None else (6,)
    adapted = adapt(model, params, rank=2, sample=sample)
    trained = adapted.init(jr.key(1))
    assert set(trained["adapters"]) >= set(adapted_paths(model, params, sample))

    def beside(at):
        return adapted.apply(at, inputs)

    def within(at):
        return model.apply(merge_adapters(adapted, at), inputs)

    @jax.jit
    def everything(at):
        gradients = [
            jax.grad(lambda at, function=function: jnp.sum(function(at) ** 2))(at) for function in (beside, within)
        ]
        return beside(trained), beside(at), within(at), gradients

    start, found, expected, gradients = everything(moved(trained))
    base = model.apply(params, inputs)
    np.testing.assert_allclose(start, base, atol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert float(jnp.abs(expected - base).max()) > 1e-3
    for ours, theirs in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(jnp.abs(theirs).max()) + 1e-5)


def test_paths_choose_and_what_is_trained_in_full_starts_at_the_base():
    model, _ = MODELS["transformer"]
    params = model.init(jr.key(0))
    adapted = adapt(model, params, 2, "attention", whole=("output", "norm"))
    trained = adapted.init(jr.key(0))
    assert {path.split("/")[3] for path in trained["adapters"]} == {
        "query_proj",
        "key_proj",
        "value_proj",
        "output_proj",
    }
    assert sorted(trained["whole"]) == ["norm/bias", "norm/weight", "output/bias", "output/weight"]
    merged = merge_adapters(adapted, moved(trained))
    np.testing.assert_array_equal(merged.embedding.weight, params.embedding.weight)
    assert float(jnp.abs(merged.output.bias - params.output.bias).max()) > 0.01
    one = adapt(model, params, 2, "blocks/*/attention/query_proj/weight").init(jr.key(0))
    assert list(one["adapters"]) == ["blocks/0/attention/query_proj/weight", "blocks/1/attention/query_proj/weight"]
    shapes = {part: leaf.shape for part, leaf in one["adapters"]["blocks/0/attention/query_proj/weight"].items()}
    assert shapes == {"down": (8, 2), "up": (2, 8)}


def test_equal_adapters_are_one_program_and_noise_stays():
    model = network((6, 6, 2), (Conv(4), Relu(), Dropout(0.5), Dense(3, last=True)))
    params = model.init(jr.key(0))
    first, second = (adapt(model, value, 2) for value in (params, moved(params)))
    assert first.shared.model is not None
    assert first.shared.model == second.shared.model
    noisy = [first.apply_noisily(first.init(jr.key(0)), IMAGES, jnp.uint32(seed)) for seed in (1, 2)]
    np.testing.assert_allclose(noisy[0], model.apply_noisily(params, IMAGES, jnp.uint32(1)), atol=1e-5)
    assert float(jnp.abs(noisy[0] - noisy[1]).max()) > 1e-3


def test_a_base_in_bfloat16_takes_half_the_room():
    model, inputs = MODELS["network"]
    params = model.init(jr.key(0))
    adapted = adapt(model, params, 2, precision="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(adapted.shared.params)} == {jnp.dtype("bfloat16")}
    trained = adapted.init(jr.key(0))
    np.testing.assert_allclose(adapted.apply(trained, inputs), model.apply(params, inputs), atol=0.05)
    assert adapted.apply(trained, inputs.astype(jnp.bfloat16)).dtype == jnp.float32


def test_what_does_not_fit_is_refused():
    model, _ = MODELS["mlp"]
    params = model.init(jr.key(0))
    with pytest.raises(
        ValueError, match=r"where: no parameter matches 'nowhere'; there are 0/weight, 1/weight, 2/weight"
    ):
        adapt(model, params, where="nowhere")
    with pytest.raises(ValueError, match="whole: no parameter matches '7'"):
        adapt(model, params, whole="7")
    with pytest.raises(ValueError, match=r"params: 0/weight is of shape \(5, 7\), expected shape \(5, 6\)"):
        adapt(model, mlp(7, (5, 4), 3).init(jr.key(0)))
    with pytest.raises(ValueError, match="params: the model has no 3/bias"):
        adapt(model, mlp(6, (5, 4, 3), 3).init(jr.key(0)))
    with pytest.raises(ValueError, match="sample is missing"):
        adapt(*[MODELS["heads"][0], MODELS["heads"][0].init(jr.key(0))])
    with pytest.raises(ValueError, match="multiplies by no parameter that is left to adapt"):
        adapt(model, params, whole=("0", "1", "2"))
    adapted = adapt(model, params)
    with pytest.raises(ValueError, match="has adapters already"):
        adapt(adapted, params)
    with pytest.raises(ValueError, match="has no adapters"):
        merge_adapters(model, params)


GENERATOR = np.random.default_rng(0)
SAMPLES = GENERATOR.normal(size=(120, 6)).astype(np.float32), np.arange(120) % 3, np.arange(120) % 20
BIG = mlp(6, (128, 128), 3)


def task_of(model):
    return from_arrays(SAMPLES, model=model, validation_share=0.0)


def test_adapters_train_while_the_base_stays_and_only_they_are_remembered():
    params = BIG.init(jr.key(0))
    adapted = adapt(BIG, params, rank=1)
    task, whole = task_of(adapted), task_of(BIG)
    check_task(task)
    assert task.model is adapted.shared.model
    assert task.frozen is adapted.shared.params

    def numbers(task):
        return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(task.init, jr.key(0))))

    def remembered(task):
        """Numbers that LastWord's memory holds for its twenty clients."""
        state = jax.eval_shape(lambda: LastWord().init(task.fleet, task.init(jr.key(0))))
        return sum(leaf.size for leaf in jax.tree.leaves(state) if leaf.ndim > 1)

    assert numbers(whole) / numbers(task) > 20
    assert remembered(whole) / remembered(task) == pytest.approx(numbers(whole) / numbers(task), rel=0.02)
    world, local = World(availability.bernoulli(20, 0.6), compute=3), Local(learning_rate=0.1, batch_size=8)
    history = simulate(task, world, LastWord(), rounds=12, seeds=2, evaluate_every=4, local=local)
    losses = np.asarray(history.metrics["train_loss"]).reshape(2, -1)
    assert (losses[:, -1] < losses[:, 0]).all()
    np.testing.assert_array_equal(task.frozen[0]["weight"], params[0]["weight"])


def test_draws_share_one_base():
    params = BIG.init(jr.key(0))
    tasks = [task_of(adapt(BIG, params, rank=1)) for _ in range(2)]
    common, own = tasks[0].beside(tasks)
    assert all(leaf is None for leaf in jax.tree.leaves(own.frozen, is_leaf=lambda leaf: leaf is None))
    assert jax.tree.leaves(common.frozen)
    other = task_of(adapt(BIG, moved(params), rank=1))
    with pytest.raises(ValueError, match="adapters of different bases"):
        tasks[0].beside([tasks[0], other])


LETTERS = {"name": "text", "context": 6, "stride": 8, "model": "transformer", "width": 8, "layers": 1, "heads": 2}


def test_experiments_name_rank_and_base(tmp_path):
    plain = read_part("tasks", LETTERS, "task").build()
    base = plain.init(jr.key(3))
    save_params(base, tmp_path)
    table = LETTERS | {"adapt": {"rank": [2, 4], "base": str(tmp_path), "where": ["attention"]}}
    part = read_part("tasks", table, "task")
    assert list(part.axes()) == [(("adapt", "rank"), [2, 4])]
    task = part.at({("adapt", "rank"): 2}).build()
    check_task(task, clients=2)
    assert jax.eval_shape(task.init, jr.key(0))["adapters"]["blocks/0/attention/query_proj/weight"]["down"].shape == (
        8,
        2,
    )
    before, after = (
        float(each.evaluate(start)["train_loss"]) for each, start in ((plain, base), (task, task.init(jr.key(0))))
    )
    assert before == pytest.approx(after, rel=1e-5)
    for wrong, message in (
        ({"rank": 2}, "'base' is missing"),
        ({"base": str(tmp_path), "rnk": 2}, "rnk"),
        ({"base": str(tmp_path), "rank": 0}, "rank"),
        ({"base": str(tmp_path / "nowhere")}, "there is no such file"),
    ):
        with pytest.raises(ExperimentError, match=message):
            read_part("tasks", LETTERS | {"adapt": wrong}, "task").build()
    with pytest.raises(ExperimentError, match=r"adapt: given 3, expected a table with some of base, rank, where"):
        read_part("tasks", LETTERS | {"adapt": 3}, "task")
    assert "adapt" not in read_part("tasks", LETTERS, "task").arguments
    in_python = text(**{k: v for k, v in LETTERS.items() if k != "name"}, adapt=Adapt(str(tmp_path), rank=2))
    assert in_python.frozen is not None
    with pytest.raises(ValueError, match="layers, heads: only the model 'transformer' has them"):
        text(layers=2, heads=2)


def test_strategies_without_memory_train_adapters_too():
    task = task_of(adapt(BIG, BIG.init(jr.key(0)), rank=1))
    world, local = World(availability.bernoulli(20, 0.6), compute=1), Local(learning_rate=0.1, batch_size=8)
    history = simulate(task, world, FedAvg(), rounds=2, seeds=1, local=local)
    assert set(history.params) == {"adapters", "whole"}
