"""Tasks from arrays: the user's data, grouped by client."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Shaped

from turnout.declarations import Count, NotNegative, Seed, Share, checked
from turnout.declarations.kinds import as_array
from turnout.tasks.data import checks, partition
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.data.checks import Samples
from turnout.tasks.data.data_task import ClientNames, DataTask, Factor, Split
from turnout.tasks.models.model import Loss, Model, loss_named
from turnout.types import PerClient

Importance = str | Sequence[float] | np.ndarray  # "size", "uniform", or one number per client

CHUNK_NUMBERS = 2**21  # input numbers evaluated at once, 8 MiB of floats


# Long: one line for each of many arguments.
@checked
def from_arrays(  # noqa: PLR0913 (all but data by name)
    train: Samples,
    test: Samples | None = None,
    validation: Samples | None = None,
    *,
    model: Model,
    loss: str | Loss = "cross_entropy",
    ridge: NotNegative = 0.0,
    importance: Importance = "size",
    num_clients: Count | None = None,
    validation_share: Share = 0.2,
    seed: Seed = 0,
    scale: Factor = 1 / 255,
    shift: Factor = 0.0,
    augment: Augment | None = None,
) -> DataTask:
    """Make a task of your own data: for each part the inputs, the labels and the client that owns each sample.

    Clients are numbered from 0, or have names (text), which results then show; names are numbered in sorted order. Each
    client needs a training sample. Where no validation data are given, a random
    `validation_share` of each client's training samples (rounded down, drawn with `seed`) is held out; test data are
    never touched. Bytes stay bytes on the device and are read as `scale * byte + shift` when a batch is cut, with
    one number for all or one per channel; other inputs are taken as they are. `augment` crops and mirrors images while
    clients train on them.
    """
    judge = loss_named(loss)
    given = {"train": train, "validation": validation, "test": test}
    given, names = checks.number_clients({name: part for name, part in given.items() if part is not None})
    checked = checks.check_parts(given, model, judge)
    inputs, labels, owners = (np.concatenate(arrays) for arrays in zip(*checked.values(), strict=True))
    parts = np.concatenate([np.full(len(labels), partition.PARTS[name]) for name, (_, labels, _) in checked.items()])
    if validation is None:
        of_train = checked["train"][2]
        parts[: of_train.size] = partition.divide(of_train, validation=validation_share, seed=seed)
    return from_pool(
        inputs,
        labels,
        owners,
        parts,
        model=model,
        loss=judge,
        ridge=ridge,
        importance=importance,
        num_clients=num_clients,
        scale=scale,
        shift=shift,
        names=names,
        augment=augment,
    )


# Long: one line for each of many arguments.
@checked
def from_pool(  # noqa: PLR0913 (all but data by name)
    inputs: Shaped[np.ndarray, "pool ..."],
    labels: Shaped[np.ndarray, " entries"],
    owners: Int[np.ndarray, " entries"],
    parts: Int[np.ndarray, " entries"],
    rows: Int[np.ndarray, " entries"] | None = None,
    *,
    model: Model,
    loss: str | Loss = "cross_entropy",
    ridge: NotNegative = 0.0,
    importance: Importance = "size",
    num_clients: Count | None = None,
    scale: Factor = 1 / 255,
    shift: Factor = 0.0,
    names: Sequence[str] | None = None,
    augment: Augment | None = None,
) -> DataTask:
    """Make a task of entries over one pool of inputs: entry i is row `rows[i]` and belongs to a client and to a part.

    Inputs are held once however many clients and parts point at them. Parts are marked as by `partition.divide`.
    `names` are those of the clients, if they have any: results are shown and stored with them.
    """
    judge = loss_named(loss)
    checks.check_entries(inputs, labels, owners, parts)
    num_clients = int(owners.max()) + 1 if num_clients is None else num_clients
    pool_rows = np.arange(owners.size) if rows is None else rows
    checks.check_names(names, num_clients)
    checks.check_finite("pool", "inputs", inputs)
    checks.check_owners(owners, parts, num_clients, names)
    checks.check_rows(pool_rows, len(inputs), owners.size)
    labels = checks.check_labels("pool", labels, judge, checks.num_outputs(model, inputs))
    if augment is not None:
        augment.check(inputs.shape[1:])
    pool = jnp.asarray(inputs)

    def split(part: int) -> Split | None:
        (entries,) = np.nonzero(parts == part)
        if not entries.size:
            return None
        return Split.group(pool, labels[entries], owners[entries], num_clients, pool_rows[entries], scale, shift)

    train, validation, test = (split(part) for part in partition.PARTS.values())
    assert train is not None  # check_owners has found a training sample of every client
    return DataTask(
        train,
        validation,
        test,
        model=model if model.shared is None else model.shared.model,
        judge=judge,
        worth=importance_of(importance, np.asarray(train.sizes)),
        ridge=checks.check_ridge(ridge),
        chunk=int(np.clip(CHUNK_NUMBERS // max(1, inputs[0].size), 256, 8192)),
        client_names=None if names is None else ClientNames(names),
        frozen=None if model.shared is None else model.shared.params,
        augment=augment,
    )


def importance_of(importance: Importance, sizes: np.ndarray) -> PerClient:
    """How much each client counts: by its training samples, all the same, or as given."""
    if isinstance(importance, str):
        values = {"size": sizes, "uniform": np.ones(sizes.size)}.get(importance)
        if values is None:
            raise ValueError(f"importance is {importance!r}; it must be 'size', 'uniform' or one number per client")
    else:
        numbers = as_array(importance)
        if numbers is None or numbers.dtype.kind == "b":
            raise TypeError(f"importance must be 'size', 'uniform' or numbers, not {type(importance).__name__}")
        values = numbers.astype(np.float64)
    if values.shape != sizes.shape:
        raise ValueError(f"importance has shape {values.shape}; {sizes.size} clients need one number each")
    if not np.isfinite(values).all() or values.min() < 0 or values.sum() == 0:
        raise ValueError("importance must be finite, nowhere negative and somewhere positive")
    return jnp.asarray(values, jnp.float32)
