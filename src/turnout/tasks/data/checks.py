"""Checks of a user's data; an error says what is wrong, where, and what would be right."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.tasks.data import partition
from turnout.tasks.models.model import Loss, Model

# Inputs, labels and owners: one row, one label and one client (index or name) per sample.
Samples = tuple[object, object, object]
Checked = tuple[np.ndarray, np.ndarray, np.ndarray]


def number_clients(given: dict[str, Samples]) -> tuple[dict[str, Samples], tuple[str, ...] | None]:
    """The parts with clients as numbers, and their names in sorted order; no names where they are numbers already."""
    owners = {name: np.asarray(part[2]) for name, part in given.items()}
    if owners["train"].dtype.kind not in "UO" or owners["train"].ndim != 1:
        return given, None
    names, places = np.unique(owners["train"].astype(str), return_inverse=True)
    parts = {}
    for name, (inputs, labels, _) in given.items():
        texts = owners[name].astype(str)
        if (strange := ~np.isin(texts, names)).any():
            first = str(texts[strange][0])
            raise ValueError(
                f"{name}: {strange.sum()} samples are of clients without a training sample, the first of them client "
                f"{first!r}; drop such samples"
            )
        parts[name] = inputs, labels, places if name == "train" else np.searchsorted(names, texts)
    return parts, tuple(names.tolist())


def check_names(names: Sequence[str] | None, num_clients: int) -> None:
    """Every client must have a name of its own, or none."""
    if names is not None and (len(names) != num_clients or len(set(names)) != num_clients):
        raise ValueError(
            f"names: given {len(names)}, {len(set(names))} of them different; the {num_clients} clients need one each"
        )


def check_parts(given: dict[str, Samples], model: Model, judge: Loss) -> dict[str, Checked]:
    """Every part as arrays that fit together."""
    checked = {name: check_samples(name, part) for name, part in given.items()}
    first = checked["train"][0]
    for name, (inputs, labels, owners) in checked.items():
        if inputs.shape[1:] != first.shape[1:] or inputs.dtype != first.dtype:
            raise ValueError(
                f"{name}: samples are {inputs.dtype} of shape {inputs.shape[1:]}, those of train {first.dtype} of "
                f"shape {first.shape[1:]}; bring all parts alike"
            )
        checked[name] = inputs, check_labels(name, labels, judge, num_outputs(model, inputs)), owners
    return checked


def check_rows(rows: np.ndarray, num_rows: int, num_entries: int) -> None:
    """Every entry must point at a row of the pool."""
    if rows.shape != (num_entries,) or rows.dtype.kind not in "iu":
        raise ValueError(f"rows must be {num_entries} whole numbers, one per entry, not {rows.dtype} {rows.shape}")
    if rows.min() < 0 or rows.max() >= num_rows:
        raise ValueError(f"rows go from {rows.min()} to {rows.max()}; the pool has rows 0 to {num_rows - 1}")


def check_samples(name: str, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of a part in the dtypes the device holds, or what is wrong with them."""
    inputs, labels, owners = (np.asarray(values) for values in samples)
    if inputs.ndim == 0 or inputs.shape[:1] != labels.shape or inputs.shape[:1] != owners.shape:
        raise ValueError(
            f"{name}: inputs, labels and owners are of shape {inputs.shape}, {labels.shape} and {owners.shape}; "
            "there must be one label and one owner per sample"
        )
    if len(inputs) == 0:
        raise ValueError(f"{name}: there is no sample; leave the part out instead")
    if not np.issubdtype(owners.dtype, np.integer):
        raise ValueError(
            f"{name}: owners are {owners.dtype}; number the clients from 0, or give their names as text, in all parts"
        )
    if inputs.dtype != np.uint8:
        inputs = in_32_bits(name, inputs)
    if owners.min() < 0:
        raise ValueError(f"{name}: owners go from {owners.min()}; number the clients from 0")
    check_finite(name, "inputs", inputs)
    return inputs, labels, owners.astype(np.int64)


def in_32_bits(name: str, inputs: np.ndarray) -> np.ndarray:
    if not np.issubdtype(inputs.dtype, np.integer):
        return inputs.astype(np.float32)
    if inputs.min() < -(2**31) or inputs.max() >= 2**31:
        raise ValueError(
            f"{name}: inputs go from {inputs.min()} to {inputs.max()}; whole numbers must lie below 2³¹: "
            "subtract their mean, or give floats"
        )
    return inputs.astype(np.int32)


def check_finite(name: str, what: str, values: np.ndarray) -> None:
    if np.issubdtype(values.dtype, np.integer):
        return
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name}: {what} of {bad.sum()} samples are NaN or infinite as float32, first of sample {bad.argmax()}; "
            "drop or fill them"
        )


def check_labels(name: str, labels: np.ndarray, judge: Loss, outputs: int) -> np.ndarray:
    """The labels as the loss reads them: classes below the number of outputs, 0 or 1, or finite numbers."""
    if judge.labels != "class" and outputs != 1:
        raise ValueError(f"{name}: the model has {outputs} outputs; this loss needs exactly one")
    if judge.labels == "real":
        numbers = labels.astype(np.float32)
        check_finite(name, "labels", numbers)
        return numbers
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{name}: labels are {labels.dtype}; a class is an integer, convert with .astype(int)")
    classes = outputs if judge.labels == "class" else 2
    bad = (labels < 0) | (labels >= classes)
    if bad.any():
        raise ValueError(
            f"{name}: label {labels[bad.argmax()]} of sample {bad.argmax()} is out of range; "
            f"with {classes} classes labels go from 0 to {classes - 1}"
        )
    return labels.astype(np.int32)


def check_owners(owners: np.ndarray, parts: np.ndarray, num_clients: int, names: Sequence[str] | None = None) -> None:
    """Owners must be clients, each entry in a part, and every client must have something to train on."""
    if owners.size == 0 or owners.shape != parts.shape:
        raise ValueError(f"there must be one owner and one part per entry, not {owners.shape} and {parts.shape}")
    if owners.min() < 0 or owners.max() >= num_clients:
        raise ValueError(
            f"owners go from {owners.min()} to {owners.max()}; "
            f"with {num_clients} clients they go from 0 to {num_clients - 1}"
        )
    idle = np.flatnonzero(np.bincount(owners[parts == partition.TRAIN], minlength=num_clients) == 0)
    if idle.size:
        first = idle[0] if names is None else repr(names[idle[0]])
        raise ValueError(
            f"{idle.size} of {num_clients} clients have no training sample, the first of them client {first}; "
            "drop such clients and number the others from 0 without gaps"
        )


def check_ridge(ridge: float) -> float:
    if not (np.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"ridge is {ridge}; a penalty is zero or positive")
    return float(ridge)


def num_outputs(model: Model, inputs: np.ndarray) -> int:
    """Number of outputs of the model, from shapes alone; a ValueError if it does not take the inputs."""
    dtype = jnp.float32 if inputs.dtype == np.uint8 else inputs.dtype
    batch = jax.ShapeDtypeStruct((2, *inputs.shape[1:]), dtype)
    try:
        outputs = jax.eval_shape(lambda key, batch: model.apply(model.init(key), batch), jr.key(0), batch)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the model does not take samples of shape {inputs.shape[1:]}: {error}") from error
    if outputs.ndim != 2 or outputs.shape[0] != 2:
        raise ValueError(f"for two samples the model answers with shape {outputs.shape}; it must be (2, outputs)")
    return outputs.shape[1]
