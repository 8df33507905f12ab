import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from turnout.files.safetensors import read_safetensors, write_safetensors
from turnout.tasks import (
    load_params,
    lstm,
    model_named,
    network,
    params_from_flax,
    params_from_torch,
    params_to_flax,
    params_to_torch,
    save_params,
    transformer,
)
from turnout.tasks.models.blocks import GroupNorm
from turnout.tasks.models.layers import Conv, Dense, Pool, Relu

SMALL = network((6, 6, 3), (Conv(4), GroupNorm(), Relu(), Pool(), Dense(5), Relu(), Dense(2, last=True)))
NAMED = {
    "small": SMALL,
    "resnet8": model_named("resnet8", (8, 8, 3), 3),
    "mobilenet": model_named("mobilenet", (8, 8, 3), 3),
}


def params_of(model):
    """Random ones, so that no two parameters are alike."""
    shapes = jax.eval_shape(model.init, jr.key(0))
    leaves, form = jax.tree.flatten(shapes)
    return jax.tree.unflatten(form, [jr.normal(jr.key(i), leaf.shape) for i, leaf in enumerate(leaves)])


def assert_same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("name", NAMED)
def test_parameters_come_back_from_both_libraries_to_the_bit(name):
    model = NAMED[name]
    params = params_of(model)
    assert_same(params_from_torch(model, params_to_torch(model, params)), params)
    assert_same(params_from_flax(model, {"params": params_to_flax(model, params)}), params)


def test_names_are_those_of_the_libraries():
    assert list(params_to_torch(SMALL, params_of(SMALL))) == [
        *("0.weight", "0.bias", "1.weight", "1.bias"),
        *("5.weight", "5.bias", "7.weight", "7.bias"),  # after nn.Flatten, the fourth
    ]
    assert sorted(params_to_flax(SMALL, params_of(SMALL))) == ["Conv_0", "Dense_0", "Dense_1", "GroupNorm_0"]
    names = list(params_to_torch(NAMED["resnet8"], params_of(NAMED["resnet8"])))
    for expected in ("conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "fc.bias"):
        assert expected in names
    big = model_named("resnet18", (8, 8, 3), 3)
    shapes = jax.tree.map(lambda leaf: np.zeros(leaf.shape), jax.eval_shape(big.init, jr.key(0)))
    names = list(params_to_torch(big, shapes))
    assert {name.split(".conv")[0] for name in names if ".conv" in name} == {
        f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)
    }
    assert len(names) == 62


def test_arrays_are_those_of_pytorch_and_do_in_its_layout_what_ours_do():
    params, images = params_of(SMALL), jr.normal(jr.key(9), (4, 6, 6, 3))
    state = params_to_torch(SMALL, params)
    x = jax.lax.conv_general_dilated(images.transpose(0, 3, 1, 2), jnp.asarray(state["0.weight"]), (1, 1), "SAME")
    x = x + state["0.bias"][None, :, None, None]
    grouped = x.reshape(4, 2, -1)
    grouped = (grouped - grouped.mean(2, keepdims=True)) / jnp.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    x = grouped.reshape(x.shape) * state["1.weight"][None, :, None, None] + state["1.bias"][None, :, None, None]
    x = jax.nn.relu(x).reshape(4, 4, 3, 2, 3, 2).max((3, 5)).reshape(4, -1)
    x = jax.nn.relu(x @ state["5.weight"].T + state["5.bias"][None, :])
    np.testing.assert_allclose(
        SMALL.apply(params, images), x @ state["7.weight"].T + state["7.bias"][None, :], rtol=1e-4, atol=1e-4
    )


def test_other_names_are_read_in_their_order():
    params = params_of(SMALL)
    state = {f"features.{name}": array for name, array in params_to_torch(SMALL, params).items()}
    state["features.1.num_batches_tracked"] = np.zeros(())
    assert_same(params_from_torch(SMALL, state), params)
    nested = params_to_flax(SMALL, params)
    outer = {"Block_0": {"Conv_0": nested["Conv_0"], "GroupNorm_0": nested["GroupNorm_0"]}}
    outer |= {"Dense_2": nested["Dense_0"], "Dense_10": nested["Dense_1"]}  # by number, not by letter
    assert_same(params_from_flax(SMALL, outer), params)


def test_what_does_not_fit_is_refused():
    params = params_of(SMALL)
    state, tables = params_to_torch(SMALL, params), params_to_flax(SMALL, params)
    with pytest.raises(ValueError, match=r"5.weight is of shape \(5, 35\), expected \(5, 36\)"):
        params_from_torch(SMALL, state | {"5.weight": np.zeros((5, 35))})
    with pytest.raises(ValueError, match=r"state has 7 arrays, the model 8; there is no '7.bias' among 0.weight, "):
        params_from_torch(SMALL, {name: array for name, array in state.items() if name != "7.bias"})
    with pytest.raises(ValueError, match=r"Conv_0/kernel is of shape \(3, 3, 3, 5\), expected shape \(3, 3, 3, 4\)"):
        params_from_flax(SMALL, tables | {"Conv_0": {"kernel": np.zeros((3, 3, 3, 5)), "bias": np.zeros(5)}})
    with pytest.raises(ValueError, match="variables has a module that the model has not: Conv_1"):
        params_from_flax(SMALL, tables | {"Conv_1": tables["Conv_0"]})
    with pytest.raises(ValueError, match="1 modules with a kernel like that of 6/"):
        params_from_flax(SMALL, {name: table for name, table in tables.items() if name != "Dense_1"})
    with pytest.raises(ValueError, match="Conv_0 has neither a kernel nor a scale, but w"):
        params_from_flax(SMALL, {"Conv_0": {"w": np.zeros(3)}})
    with pytest.raises(ValueError, match="not a network of layers"):
        params_to_torch(transformer(5, 4, 8, 2, 1), params)


def test_parameters_are_kept_in_a_folder(tmp_path, monkeypatch):
    model = transformer(5, 4, 8, 2, 1)
    params = model.init(jr.key(0))
    file = save_params(params, tmp_path / "base")
    assert_same(load_params(tmp_path / "base", model), params)
    assert_same(load_params(file, model), params)
    monkeypatch.setenv("TURNOUT_DATA", str(tmp_path))
    assert_same(load_params("base", model), params)
    with pytest.raises(ValueError, match=r"model.safetensors: there is no 'cell/weight_ih' among .*, …"):
        load_params(file, lstm(5, 8))
    with pytest.raises(ValueError, match=r"embedding/weight is of shape \(5, 8\), expected \(6, 8\)"):
        load_params(file, transformer(6, 4, 8, 2, 1))
    with pytest.raises(FileNotFoundError, match=r"nowhere.model.safetensors: there is no such file"):
        load_params("nowhere", model)
    named = params_of(SMALL)
    write_safetensors(tmp_path / "model.safetensors", params_to_torch(SMALL, named))
    assert_same(load_params(tmp_path, SMALL), named)


def test_a_damaged_file_is_one_clear_error(tmp_path):
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(2, np.int64)})
    whole = path.read_bytes()
    assert {name: array.tolist() for name, array in read_safetensors(path).items()} == {
        "a": [1, 1],
        "b": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
    }
    for damaged in (whole[:-1], whole[:4], b"", whole[:8] + b"x" + whole[9:], b"\xff" * 8 + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged or not what its name says"):
            read_safetensors(path)
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.array([0x3F80, 0xC040], "<u2").tobytes())
    assert read_safetensors(path)["a"].tolist() == [1.0, -3.0]
    with pytest.raises(TypeError, match="a is complex128; give one of float64, float32"):
        write_safetensors(path, {"a": np.zeros(2, complex)})
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
