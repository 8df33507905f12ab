"""The state of a crew between two segments, kept on disk, so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from turnout.files.archive import Arrays, read_archive, write_archive
from turnout.files.manifest import EditedError
from turnout.types import PyTree

SECONDS = 5.0  # between two savepoints at least
COST = 50  # and at least this many times as long as saving took, so that it takes under 2 % of the time
LARGEST = 2**30  # bytes of a state; a larger one is not saved

log = logging.getLogger("turnout")


@dataclass
class SoFar:
    """What a crew has done: its state, and the results of all segments up to here, lanes first."""

    blocks: int
    carry: PyTree
    seconds: float = 0.0
    pieces: list[tuple[Arrays, Arrays]] = field(default_factory=list)  # metrics and records of each segment

    def add(self, blocks: int, carry: PyTree, metrics: Arrays, records: Arrays) -> None:
        """Go on to the end of a further segment."""
        self.blocks, self.carry = blocks, carry
        self.pieces.append((metrics, records))

    def join(self) -> tuple[Arrays, Arrays]:
        """Metrics and records of all segments."""
        if len(self.pieces) > 1:
            self.pieces = [(_join([first for first, _ in self.pieces]), _join([last for _, last in self.pieces]))]
        return self.pieces[0]


def _join(pieces: list[Arrays]) -> Arrays:
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}


class Savepoint:
    """The file of one crew; without a path nothing is saved."""

    def __init__(self, path: Path | None, lanes: np.ndarray) -> None:
        self._path, self._lanes = path, lanes.tolist()
        self._last, self._cost = time.perf_counter(), 0.0

    @classmethod
    def of_crew(cls, folder: Path | None, lanes: np.ndarray) -> Savepoint:
        """The file of these lanes in the folder of their group."""
        name = hashlib.sha256(lanes.astype(np.int64).tobytes()).hexdigest()[:16]
        return cls(None if folder is None else folder / f"crew-{name}.npz", lanes)

    def restore(self, start: PyTree) -> SoFar:
        """The saved state, in the form of `start`; `start` itself if none is saved, or if the file is damaged."""
        if self._path is not None and self._path.exists():
            try:
                return self._read(self._path, start)
            except EditedError as error:
                log.warning("%s: these rounds are run again", error)
        return SoFar(0, start)

    def _read(self, path: Path, start: PyTree) -> SoFar:
        header, arrays = read_archive(path)
        leaves, form = jax.tree.flatten(start)
        if header["lanes"] != self._lanes or header["leaves"] != len(leaves):
            raise EditedError(f"{path}: the state of another program")
        held = [_like(leaf, arrays[f"carry {i}"], path) for i, leaf in enumerate(leaves)]
        metrics, records = (
            {name.removeprefix(kind): array for name, array in arrays.items() if name.startswith(kind)}
            for kind in ("metric ", "record ")
        )
        return SoFar(header["blocks"], jax.tree.unflatten(form, held), header["seconds"], [(metrics, records)])

    def save(self, so_far: SoFar, now: bool) -> None:
        """Write the state if it is time or the crew stops now, unless other processes hold a part of it."""
        begun = time.perf_counter()
        if self._path is None or not (now or begun - self._last >= max(SECONDS, COST * self._cost)):
            return
        if not all(getattr(leaf, "is_fully_addressable", True) for leaf in jax.tree.leaves(so_far.carry)):
            return
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(so_far.carry)]
        if sum(leaf.nbytes for leaf in leaves) > LARGEST:
            return
        header = {"lanes": self._lanes, "leaves": len(leaves), "blocks": so_far.blocks, "seconds": so_far.seconds}
        arrays = {f"carry {i}": leaf for i, leaf in enumerate(leaves)}
        metrics, records = so_far.join()
        arrays |= {f"metric {name}": values for name, values in metrics.items()}
        arrays |= {f"record {name}": values for name, values in records.items()}
        write_archive(self._path, header, arrays)
        self._last = time.perf_counter()
        self._cost = self._last - begun


def _is_key(leaf: Array | np.ndarray) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Array | np.ndarray) -> np.ndarray:
    """A leaf as numpy stores it: keys as their data, and numbers that numpy has no name for as bytes."""
    array = np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf)
    return array if array.dtype.isbuiltin == 1 else array.view(f"V{array.dtype.itemsize}")


def _like(leaf: Array | np.ndarray, array: np.ndarray, path: Path) -> Array:
    """A stored array in the form of the leaf that it was."""
    form = _plain(leaf)
    if array.shape != form.shape or array.dtype != form.dtype:
        raise EditedError(f"{path}: holds {array.dtype}{array.shape} in the place of {form.dtype}{form.shape}")
    if _is_key(leaf):
        return jr.wrap_key_data(jnp.asarray(array), impl=jr.key_impl(leaf))
    return jnp.array(array.view(leaf.dtype), copy=True)  # a buffer of its own, which may be donated
