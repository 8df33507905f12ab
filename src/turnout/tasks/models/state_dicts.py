# Long: three formats of other libraries, and how our layers stand in each.
"""Parameters of our models as other libraries have them: state dicts of PyTorch, tables of flax, safetensors files.

A network of layers has in PyTorch the names of an `nn.Sequential` of the same layers, with an `nn.Flatten` before its
first `nn.Linear`; one with residual blocks those of torchvision's ResNets. Flax counts its modules by kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.declarations import checked
from turnout.declarations.kinds import as_array
from turnout.files.downloads import given
from turnout.files.safetensors import read_safetensors, write_safetensors
from turnout.tasks.models.blocks import Depthwise, GlobalAverage, GroupNorm, Residual
from turnout.tasks.models.layers import BatchNorm, Conv, Dense, Layer, Shape
from turnout.tasks.models.model import Model
from turnout.tasks.models.products import paths_of
from turnout.types import Params, PyTree

State = dict[str, np.ndarray]
Kind = Literal["convolution", "depthwise", "dense", "norm"]
FILE = "model.safetensors"
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
IN_FLAX = {"convolution": "Conv", "depthwise": "Conv", "dense": "Dense"}


@dataclass(frozen=True)
class Place:
    """A layer with parameters: where they are in ours, and what PyTorch calls the module."""

    path: str
    layer: Layer
    kind: Kind
    name: str
    inputs: Shape  # of one sample

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of its parameters in ours, the first one of most axes."""
        if self.kind == "norm":
            return "gain", "shift"
        return ("weight", "bias") if getattr(self.layer, "bias", True) else ("weight",)

    def to_torch(self, part: str, array: np.ndarray) -> np.ndarray:
        if part != "weight":
            return array
        size = getattr(self.layer, "size", 1)
        if self.kind == "convolution":
            return array.reshape(size, size, self.inputs[-1], -1).transpose(3, 2, 0, 1)
        if self.kind == "depthwise":
            return array.reshape(size, size, 1, -1).transpose(3, 2, 0, 1)
        return array.reshape(*self.inputs, -1).transpose(self._flattened).reshape(-1, array.shape[-1]).T

    def from_torch(self, part: str, array: np.ndarray) -> np.ndarray:
        if part != "weight":
            return array
        if self.kind != "dense":
            return array.transpose(2, 3, 1, 0).reshape(-1, len(array))
        before = [self.inputs[axis] for axis in self._flattened[:-1]]
        back = np.argsort(self._flattened)
        return array.T.reshape(*before, -1).transpose(back).reshape(-1, len(array))

    def to_flax(self, part: str, array: np.ndarray) -> np.ndarray:
        size = getattr(self.layer, "size", 1)
        if part != "weight" or self.kind == "dense":
            return array
        return array.reshape(size, size, 1 if self.kind == "depthwise" else self.inputs[-1], -1)

    @property
    def _flattened(self) -> tuple[int, ...]:
        """The order of the axes of an image where PyTorch makes a vector of it: channels first."""
        return (2, 0, 1, 3) if len(self.inputs) == 3 else (0, 1)


@checked
def params_to_torch(model: Model, params: PyTree) -> State:
    """The state dict of the same network in PyTorch, as arrays of numpy."""
    return {
        f"{place.name}.{theirs}": place.to_torch(part, array)
        for place, part, theirs, array in _in_order(model, params, ("weight", "bias"))
    }


@checked
def params_from_torch(model: Model, state: Mapping[str, Any]) -> Params:
    """Our parameters from the state dict of the same network in PyTorch.

    Entries are found by the names that `params_to_torch` gives them. Where others have chosen other names, entries are
    taken in their order, which is that of the layers. Running statistics of batch norms are left out.
    """
    kept = {str(name): value for name, value in state.items() if str(name).rpartition(".")[2] not in STATISTICS}
    arrays = {name: _array(value, name) for name, value in kept.items()}
    entries = [(place, part, f"{place.name}.{name}") for place, part, name in _names(model)]
    if not all(name in arrays for _, _, name in entries):
        if len(arrays) != len(entries):
            missing = next(name for _, _, name in entries if name not in arrays)
            raise ValueError(
                f"state has {len(arrays)} arrays, the model {len(entries)}; there is no {missing!r} among "
                f"{_some(list(arrays))}"
            )
        entries = [(place, part, name) for (place, part, _), name in zip(entries, arrays, strict=True)]
    like = dict(_leaves(model))
    found: State = {}
    for place, part, name in entries:
        path, array = f"{place.path}{part}", arrays[name]
        expected = place.to_torch(part, np.empty(like[path])).shape
        if array.shape != expected:
            raise ValueError(f"{name} is of shape {array.shape}, expected {expected}")
        found[path] = place.from_torch(part, array)
    return _filled(model, found)


@checked
def params_to_flax(model: Model, params: PyTree) -> dict[str, State]:
    """The parameters of the same network in flax, whose modules are named as in one compact linen module."""
    names = dict(zip((place.path for place in _places(model)), _flax_names(model), strict=True))
    tables: dict[str, State] = {}
    for place, part, _, array in _in_order(model, params, ("kernel", "bias")):
        table = tables.setdefault(names[place.path], {})
        table[_in_flax(place, part)] = place.to_flax(part, array)
    return tables


@checked
def params_from_flax(model: Model, variables: Mapping[str, Any]) -> Params:
    """Our parameters from those of the same network in flax, also where its modules are nested.

    Modules of a kind (convolutions, dense layers, norms) are taken in the order of their numbers.
    """
    modules: dict[str, list[tuple[str, State]]] = {"kernel4": [], "kernel2": [], "scale": []}
    for path, table in sorted(_tables("", variables.get("params", variables)), key=lambda item: _natural(item[0])):
        modules["scale" if "scale" in table else f"kernel{table['kernel'].ndim}"].append((path, table))
    like, found, taken = dict(_leaves(model)), State(), dict.fromkeys(modules, 0)
    for place in _places(model):
        kind = {"norm": "scale", "dense": "kernel2"}.get(place.kind, "kernel4")
        if taken[kind] == len(modules[kind]):
            raise ValueError(
                f"variables has {taken[kind]} modules with a {kind.rstrip('24')} like that of {place.path}"
            )
        path, table = modules[kind][taken[kind]]
        taken[kind] += 1
        for part in place.parts:
            name, wanted = _in_flax(place, part), like[f"{place.path}{part}"]
            expected = place.to_flax(part, np.empty(wanted)).shape
            if name not in table or table[name].shape != expected:
                told = f"of shape {table[name].shape}" if name in table else "missing"
                raise ValueError(f"{path}/{name} is {told}, expected shape {expected}")
            found[f"{place.path}{part}"] = table[name].reshape(wanted)
    for kind, count in taken.items():
        if count < len(modules[kind]):
            raise ValueError(f"variables has a module that the model has not: {modules[kind][count][0]}")
    return _filled(model, found)


def check_params(model: Model, params: PyTree) -> None:
    """Refuse parameters of another model, and what are no numbers."""
    wanted, given = dict(_leaves(model)), dict(zip(paths_of(params), jax.tree.leaves(params), strict=True))
    for path, shape in wanted.items():
        if path not in given or np.shape(given[path]) != shape:
            told = f"of shape {np.shape(given[path])}" if path in given else "missing"
            raise ValueError(f"params: {path} is {told}, expected shape {shape} as the model's init makes it")
        if not isinstance(given[path], jax.Array):  # which may be traced
            _array(given[path], f"params: {path}")
    if len(given) > len(wanted):
        raise ValueError(f"params: the model has no {next(path for path in given if path not in wanted)}")


@checked
def save_params(params: PyTree, folder: str | Path) -> Path:
    """Write parameters into a folder, as model.safetensors, by their paths; returns the file."""
    arrays = {
        path: _array(leaf, f"params: {path or 'the only one'}")
        for path, leaf in zip(paths_of(params), jax.tree.leaves(params), strict=True)
    }
    file = Path(folder) / FILE
    write_safetensors(file, arrays)
    return file


@checked
def load_params(folder: str | Path, model: Model) -> Params:
    """Parameters of a model from the model.safetensors of a folder, or from a file.

    The folder is looked for here, then in the folder that TURNOUT_DATA names. Names are paths, as `save_params` writes
    them, or those of PyTorch.
    """
    place = Path(folder) if Path(folder).exists() else given(str(folder)) or Path(folder)
    file = place if place.is_file() else place / FILE
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file; save_params writes one")
    arrays = read_safetensors(file)
    wanted = dict(_leaves(model))
    if model.layers and not set(wanted) <= set(arrays):
        try:
            return params_from_torch(model, arrays)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    for path, shape in wanted.items():
        if path not in arrays:
            raise ValueError(f"{file}: there is no {path!r} among {_some(list(arrays))}")
        if arrays[path].shape != shape:
            raise ValueError(f"{file}: {path} is of shape {arrays[path].shape}, expected {shape}")
    if strange := [name for name in arrays if name not in wanted]:
        raise ValueError(f"{file}: the model has no {strange[0]!r}")
    return _filled(model, arrays)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _array(value: Any, name: str) -> np.ndarray:
    """An array of numpy of an array or a tensor."""
    array = as_array(value.detach().cpu().float() if hasattr(value, "detach") else value)
    if array is None or array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is {value!r:.40}, expected an array of numbers")
    return array.astype(np.float32)


def _leaves(model: Model) -> list[tuple[str, Shape]]:
    shapes = jax.eval_shape(model.init, jr.key(0))
    return [(path, leaf.shape) for path, leaf in zip(paths_of(shapes), jax.tree.leaves(shapes), strict=True)]


def _filled(model: Model, arrays: Mapping[str, np.ndarray]) -> Params:
    form = jax.tree.structure(jax.eval_shape(model.init, jr.key(0)))
    return jax.tree.unflatten(form, [jnp.asarray(arrays[path], jnp.float32) for path, _ in _leaves(model)])


def _in_order(model: Model, params: PyTree, names: tuple[str, str]) -> Iterator[tuple[Place, str, str, np.ndarray]]:
    """Every parameter with its layer and its names, in the order of the layers."""
    places = _places(model)
    check_params(model, params)
    arrays = dict(zip(paths_of(params), map(np.asarray, jax.tree.leaves(params)), strict=True))
    for place in places:
        for part, theirs in zip(place.parts, names, strict=False):
            yield place, part, theirs, arrays[f"{place.path}{part}"]


def _names(model: Model) -> Iterator[tuple[Place, str, str]]:
    for place in _places(model):
        for part, theirs in zip(place.parts, ("weight", "bias"), strict=False):
            yield place, part, theirs


def _places(model: Model) -> list[Place]:
    if not model.layers or model.sample is None:
        raise ValueError("the model is not a network of layers: its parameters have no names in other libraries")
    image = model.sample.shape
    shape = (*image, 1) if len(image) == 2 else image
    if any(isinstance(layer, Residual) for layer in model.layers):
        return list(_like_torchvision(model.layers, shape))
    return list(_in_sequence(model.layers, shape, "", ""))


def _in_sequence(layers: tuple[Layer, ...], shape: Shape, path: str, prefix: str) -> Iterator[Place]:
    """The places of a plain sequence, numbered as in `nn.Sequential`."""
    flat = 0
    for number, layer in enumerate(layers):
        if len(shape) == 3 and isinstance(layer, Dense):
            flat += 1
        if (kind := _kind(layer)) is not None:
            yield Place(f"{path}{number}/", layer, kind, f"{prefix}{number + flat}", shape)
        flat += isinstance(layer, GlobalAverage)  # which is nn.AdaptiveAvgPool2d and nn.Flatten
        shape = _after(layer, shape)


def _like_torchvision(layers: tuple[Layer, ...], shape: Shape) -> Iterator[Place]:
    """The places of a network of residual blocks, named as in torchvision's ResNets.

    A block whose shape changes begins a stage; the first block begins the first one.
    """
    stage, number, count = 0, 0, 0
    for at, layer in enumerate(layers):
        if isinstance(layer, Residual):
            stage, number = (stage + 1, 0) if layer.shortcut or not stage else (stage, number + 1)
            block = f"layer{stage}.{number}"
            yield from _numbered(layer.layers, shape, f"{at}/layers/", f"{block}.")
            yield from _in_sequence(layer.shortcut, shape, f"{at}/shortcut/", f"{block}.downsample.")
        elif (kind := _kind(layer)) is not None:
            count += kind == "convolution"
            name = {
                "convolution": f"conv{count}",
                "norm": f"bn{count}",
                "depthwise": f"depthwise{count}",
                "dense": "fc",
            }
            yield Place(f"{at}/", layer, kind, name[kind], shape)
        shape = _after(layer, shape)


def _numbered(layers: tuple[Layer, ...], shape: Shape, path: str, prefix: str) -> Iterator[Place]:
    """The places of a block: conv1, bn1, conv2, bn2."""
    counts = {"convolution": 0, "depthwise": 0, "dense": 0, "norm": 0}
    short = {"convolution": "conv", "depthwise": "depthwise", "dense": "fc", "norm": "bn"}
    for at, layer in enumerate(layers):
        if (kind := _kind(layer)) is not None:
            counts[kind] += 1
            yield Place(f"{path}{at}/", layer, kind, f"{prefix}{short[kind]}{counts[kind]}", shape)
        shape = _after(layer, shape)


def _kind(layer: Layer) -> Kind | None:
    if isinstance(layer, Conv):
        return "convolution"
    if isinstance(layer, Depthwise):
        return "depthwise"
    if isinstance(layer, Dense):
        return "dense"
    return "norm" if isinstance(layer, BatchNorm | GroupNorm) else None


def _after(layer: Layer, shape: Shape) -> Shape:
    after: list[Shape] = []
    jax.eval_shape(lambda key: after.append(layer.init(key, shape)[1]), jr.key(0))
    return after[0]


def _flax_names(model: Model) -> list[str]:
    counts: dict[str, int] = {}
    names = []
    for place in _places(model):
        kind = IN_FLAX.get(place.kind) or type(place.layer).__name__
        names.append(f"{kind}_{counts.get(kind, 0)}")
        counts[kind] = counts.get(kind, 0) + 1
    return names


def _in_flax(place: Place, part: str) -> str:
    return {"gain": "scale", "shift": "bias", "weight": "kernel"}.get(part, part)


def _tables(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, State]]:
    """The modules that hold arrays, each with its path."""
    arrays = {
        str(name): _array(value, f"{path}/{name}".lstrip("/"))
        for name, value in table.items()
        if not isinstance(value, Mapping)
    }
    if arrays:
        if "scale" not in arrays and "kernel" not in arrays:
            raise ValueError(f"{path or 'variables'} has neither a kernel nor a scale, but {', '.join(arrays)}")
        yield path, arrays
    for name, inside in table.items():
        if isinstance(inside, Mapping):
            yield from _tables(f"{path}/{name}".lstrip("/"), inside)


def _natural(path: str) -> list[Any]:
    """A path for sorting: numbers by their size."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", path)]
