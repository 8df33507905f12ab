"""The contract of an availability process."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.availability.base import ErgodicProcess, Process
from turnout.declarations import Count, checked
from turnout.testing.claims import require, require_close, require_same_form
from turnout.types import Array, Mask, PyTree, RandomKey, RandomKeys


@checked
def check_process(process: Process[PyTree], *, rounds: Count = 2000, replicas: Count = 32) -> None:
    """Raise an AssertionError unless the process keeps its contract.

    It compiles and maps over keys, keeps the form of its state, answers with one truth value per client, repeats itself
    for the same key, and, where it states a stationary law, obeys it within sampling error.
    """
    key = jr.key(0)
    state = process.init(key)
    after, mask = process.step(state, 0, jr.key(1))
    require(
        mask.shape == (process.num_clients,), f"step must answer for {process.num_clients} clients, not {mask.shape}"
    )
    require(mask.dtype == jnp.bool_, f"step must answer with truth values, not {mask.dtype}")
    require_same_form(after, state, "step must keep the form of the state")
    step = eqx.filter_jit(lambda p, s, t, k: p.step(s, t, k))
    compiled = step(process, state, jnp.asarray(0, jnp.int32), jr.key(1))
    require_close(compiled, (after, mask), "a compiled step must equal a plain one")
    play, keys = _play(rounds), jr.split(jr.key(2), replicas)
    masks = play(process, keys)
    require_close(play(process, keys), masks, "the same keys must give the same rounds", 0.0)
    if isinstance(process, ErgodicProcess):
        _check_law(process, np.asarray(masks, np.float64))


def _play(rounds: int) -> Callable[[Process[PyTree], RandomKeys], Array]:
    """A compiled function of a process and keys that gives masks (key, round, client)."""

    @eqx.filter_jit
    def play(process: Process[PyTree], keys: RandomKeys) -> Array:
        def replica(key: RandomKey) -> Array:
            def body(state: PyTree, t: Array) -> tuple[PyTree, Mask]:
                return process.step(state, t, jr.fold_in(key, t + 1))

            return jax.lax.scan(body, process.init(jr.fold_in(key, 0)), jnp.arange(rounds))[1]

        return jax.vmap(replica)(keys)

    return play


def _check_law(process: ErgodicProcess[PyTree], masks: np.ndarray) -> None:
    pi, lam = np.asarray(process.stationary(), np.float64), np.asarray(process.correlation(), np.float64)
    require(bool(np.all((pi >= 0) & (pi <= 1))), "stationary must be probabilities")
    require(bool(np.all((lam >= -1) & (lam <= 1))), "correlation must lie between -1 and 1")
    _check_mean(masks.mean(axis=1), pi, "stationary")
    varies = (pi > 1e-9) & (pi < 1 - 1e-9)
    centred = masks - pi
    lagged = (centred[:, 1:] * centred[:, :-1]).mean(axis=1)[:, varies]
    _check_mean(lagged, (lam * pi * (1 - pi))[varies], "correlation")


def _check_mean(samples: np.ndarray, law: np.ndarray, name: str) -> None:
    """Means over independent replicas against the law, within six standard errors and float precision."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(samples.shape[0])
    mean = samples.mean(axis=0)
    for client in np.flatnonzero(np.abs(mean - law) > 6 * error + 2e-3):
        require(False, f"{name} of client {client} is stated as {law[client]:.4f} but played as {mean[client]:.4f}")
