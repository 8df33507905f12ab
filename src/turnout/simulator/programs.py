"""Compiled programs on disk and in memory. The caches belong to the whole process, so nothing here acts by itself."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import Array

from turnout.types import PyTree

_Made = TypeVar("_Made")
_KINDS_KEPT = 64  # results of `once_per_kind`
_kept: OrderedDict[Hashable, Any] = OrderedDict()
_GROUPS_KEPT = 16  # whose programs stay in memory: each maps up to a thousand regions, and Linux allows 65,530
_LAPACK = 'custom_call_target="lapack_'  # in the text of a program for a CPU
_turn = threading.Lock()
_groups_since_clearing: int | None = None  # None: nothing is ever dropped


def use_compilation_cache() -> None:
    """Keep compiled programs on disk, so that the next process reads them instead of compiling.

    This sets jax's compilation cache for the whole process, unless one is set already. `TURNOUT_CACHE` names the
    folder; without it they lie in the user's cache folder, and `TURNOUT_CACHE=off` leaves jax as it is.
    """
    chosen = os.environ.get("TURNOUT_CACHE")
    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None or chosen == "off":
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", chosen or str(base / "turnout" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def once_per_kind(make: Callable[..., _Made], *arguments: PyTree) -> _Made:
    """`make(*arguments)`, or what it returned for arguments of the same kind, so that equal calls trace nothing.

    Arrays are of one kind if shapes, types and devices are; everything else must be equal. So `make` may use no number
    of an array, and must be a function of a module. The results of the last 64 kinds are kept.
    """
    arrays, rest = eqx.partition(arguments, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    others, other_structure = jax.tree.flatten(rest)
    key = (make, structure, tuple(map(_kind, leaves)), other_structure, tuple(others), tuple(map(type, others)))
    if key not in _kept:
        _kept[key] = make(*arguments)
        if len(_kept) > _KINDS_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def _kind(array: Array) -> Hashable:
    return array.shape, array.dtype, getattr(array, "weak_type", False), getattr(array, "sharding", None)


@dataclass(frozen=True)
class InTurn:
    """A program that runs to its end while no other one in turn runs."""

    program: Any

    def __call__(self, *arguments: PyTree) -> Any:
        with _turn:
            return jax.block_until_ready(self.program(*arguments))

    @property
    def compiled(self) -> Any:
        """The program as jax knows it."""
        return self.program.compiled


def in_turn(program: Any) -> Any:
    """The compiled program itself; or in turn, if it factorises or solves matrices on a CPU.

    LAPACK's work on several matrices holds a thread of XLA's pool until other threads of it have done its parts. Two
    programs at once can hold all threads, and then each waits for ever.
    """
    solves = jax.default_backend() == "cpu" and _LAPACK in program.compiled.as_text()
    return InTurn(program) if solves else program


def keep_few_programs() -> None:
    """From now on, drop all compiled programs of this process, the caller's too, after every 16 groups of trials.

    A process that keeps hundreds of programs runs out of memory maps and dies. With `use_compilation_cache` they stay
    on disk, and are read instead of compiled when needed again.
    """
    global _groups_since_clearing
    _groups_since_clearing = _groups_since_clearing or 0


def count_group() -> None:
    """Count a group of trials, and drop the programs if it is time and the process has asked for it."""
    global _groups_since_clearing
    if _groups_since_clearing is None:
        return
    _groups_since_clearing += 1
    if _groups_since_clearing >= _GROUPS_KEPT:
        _kept.clear()
        jax.clear_caches()
        _groups_since_clearing = 0
