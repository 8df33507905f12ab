"""How many lanes a program runs side by side, and how many slots a lane, on this device and in its memory."""

from __future__ import annotations

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int

from turnout.tasks.base import Task
from turnout.types import PyTree, Tree

# Numbers of models and batches that jobs side by side may touch in a local step:
_CACHE_FLOATS = 2**16  # on a CPU, half of a common L2 cache
_GPU_FLOATS = 2**22  # on a GPU, where numbers of steps differ: more do not make it faster, and the longest job counts
_GPU_FLOATS_ALIKE = 2**25  # on a GPU, where all do equally many steps: more do not make it faster
_GPU_SHARE = 0.85  # of its memory, for one program


def on_cpu() -> bool:
    """Whether programs run on a CPU."""
    return jax.default_backend() == "cpu"


def num_workers() -> int:
    """Threads that drive programs: a CPU's cores, or one for each accelerator."""
    return (os.cpu_count() or 1) if on_cpu() else jax.local_device_count()


def memory() -> int | None:
    """Bytes that one program may take, None where the device does not report its memory."""
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    return None if limit is None else int(_GPU_SHARE * limit)


def lanes_together(lanes: int, slots: int, job_floats: int, equal_steps: bool) -> int:
    """Lanes side by side: on a CPU what fits its cache, on a GPU as many as keep it busy."""
    if not on_cpu():
        jobs = _jobs_to_keep_busy(job_floats, equal_steps)
        together = max(1, jobs // slots) if equal_steps else jobs
        return even(lanes, min(together, -(-lanes // num_workers())))
    together = max(1, _CACHE_FLOATS // (slots * job_floats))
    return even(lanes, min(together, -(-lanes // num_workers())))


def even(lanes: int, most: int) -> int:
    """The width of crews of at most `most` lanes, so that the last crew is nearly full."""
    return -(-lanes // -(-lanes // most))


def slots_together(
    task: Task, slots: int, usual: int, width: int, job_floats: int, equal_steps: bool, devices: int = 1
) -> int:
    """Slots of a lane trained side by side, on so many devices that share them.

    On a CPU one by one, if the task says that its model trains faster so. With equal steps: all slots of a usual round;
    the rest are rarely needed and have a loop of their own. Where a CPU has only few more, it trains all together, as
    a second loop costs more. With unequal steps: few, since a chunk lasts as long as its longest job; on a GPU as many
    as keep it busy, which may be one.
    """
    if on_cpu() and task.one_by_one_on_cpu:
        return devices
    if equal_steps:
        return slots if on_cpu() and 3 * slots <= 4 * round_up(usual) else round_up(usual)
    if on_cpu():
        return 8 * devices
    return min(round_up(usual), devices * max(1, _jobs_to_keep_busy(job_floats, equal_steps) // width))


def first_pass(task: Task, mean: int, most: int, devices: int = 1) -> int | None:
    """Slots that a CPU trains in one go for a step that uses `mean` updates on average, and `most` at the most.

    A pass has a cost of its own, as much as some slots. A pass of the mean has few empty slots, and one or two short
    ones suffice for what is above it. On other devices None: there all passes are as wide.
    """
    if not on_cpu() or task.one_by_one_on_cpu or devices > 1:
        return None
    return min(most, round_up(mean))


def _jobs_to_keep_busy(job_floats: int, equal_steps: bool) -> int:
    """Jobs that keep a GPU busy."""
    return max(1, (_GPU_FLOATS_ALIKE if equal_steps else _GPU_FLOATS) // job_floats)


def round_up(count: int) -> int:
    """The next multiple of eight, so that nearby sizes share a compiled program."""
    return max(8, -(-count // 8) * 8)


def slots_for(crowd: int) -> int:
    """Slots for the largest crowd, rounded up: further on a GPU, where empty slots cost little, to share programs."""
    step = 8 if on_cpu() else max(8, (1 << crowd.bit_length()) // 8)
    return max(8, -(-crowd // step) * step)


def model_shapes(task: Task) -> PyTree:
    """Shapes of the model's parameters."""
    return eqx.filter_eval_shape(task.init, jr.key(0))


def job_floats_of(task: Task, batch_size: int) -> int:
    """Numbers that one job touches in a local step: a model and a batch."""
    client, positions = jnp.zeros((), jnp.int32), jnp.zeros(batch_size, jnp.int32)
    shapes = eqx.filter_eval_shape(lambda key: (task.init(key), task.batch(client, positions)), jr.key(0))
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))


@jax.custom_batching.custom_vmap
def most_of_lanes(count: Int[Array, ""]) -> Int[Array, ""]:
    """The largest count among the lanes side by side, the same number for all of them.

    The bound of a loop must be one number for all lanes. Otherwise the index of the loop becomes a vector, and every
    slice of an array becomes a gather of whole models.
    """
    return count


@most_of_lanes.def_vmap
def _most_of_lanes(lanes: int, batched: list[bool], count: Array) -> tuple[Array, bool]:
    return most_of_lanes(jnp.max(count)), False


def on_every_device(tree: Tree) -> list[Tree]:
    """One copy of the tree for each local device; with a single device the tree itself, so that nothing is moved."""
    devices = jax.local_devices()
    if len(devices) == 1:
        return [tree]
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return [eqx.combine(jax.device_put(arrays, device), rest) for device in devices]


def cut_into_crews(count: int, width: int) -> list[np.ndarray]:
    """The numbers of the lanes in each crew. All crews are equally large: the last lane fills up the last crew."""
    filled = np.pad(np.arange(count), (0, -count % width), mode="edge")
    return list(filled.reshape(-1, width))
