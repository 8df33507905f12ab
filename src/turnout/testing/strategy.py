"""The contract of a strategy, on a small fleet of quadratics where every client can be played by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from turnout.availability.markov import markov
from turnout.declarations import Count, checked
from turnout.server.facts import Online, Oracle
from turnout.server.server import Server, ServerState
from turnout.simulator import simulate
from turnout.simulator.client_optimizer import Local
from turnout.strategies.base import Strategy
from turnout.tasks.quadratics import Quadratics
from turnout.testing.by_hand import RATE, HandDriven, Happening
from turnout.testing.claims import require, require_close, require_finite, require_same_form
from turnout.types import Array, Cohort, Known, PyTree
from turnout.world import World, compute, links

_NUM_CLIENTS = 7
_DIMENSION = 3
_SPARE_PLACES = 9  # which real nodes have for newcomers: the result must not depend on them


@checked
def check_strategy(strategy: Strategy[PyTree], *, rounds: Count = 20) -> None:
    """Raise an AssertionError unless the strategy keeps its contract.

    It compiles and maps over seeds; keeps the form of its state; is finite and at rest when nobody comes, in round 0
    too; stays near the fleet while some clients are yet to come, or one comes alone; stays finite with updates that
    were asked for earlier, at another rate; leaves nothing in a sum of words when the clients that keep them say
    goodbye; asks only available clients; treats clients alike, whatever the ages of their updates; and depends neither
    on the number of slots nor on vacant places. Driven one round at a time with clients in plain numpy, it trains the
    same model as the compiled simulator.
    """
    stage = _stage()
    strategy.check(stage.task.fleet)
    _check_empty_round(strategy, stage)
    _check_few(strategy, stage)
    _check_goodbyes(strategy, stage)
    _check_alike(strategy, stage)
    _check_run(strategy, stage, rounds)


@dataclass(frozen=True)
class _Stage:
    """A fleet that differs in everything: importance, availability, links, steps, optima."""

    task: Quadratics
    world: World
    known: Known

    def relabel(self, order: np.ndarray) -> _Stage:
        """The same fleet with the clients in another order; only for rounds whose absences are given."""
        task = self.task
        moved = replace(task, centres=task.centres[order], curvature=task.curvature[order], worth=task.worth[order])
        return replace(self, task=moved, known=jax.tree.map(lambda values: values[order], self.known))


def _stage() -> _Stage:
    draw = np.random.default_rng(5)
    task = Quadratics.of(
        centres=draw.normal(size=(_NUM_CLIENTS, _DIMENSION)),
        curvature=draw.uniform(0.5, 1.5, _NUM_CLIENTS),
        importance=list(draw.uniform(0.5, 2.0, _NUM_CLIENTS)),
        start=np.ones(_DIMENSION),
    )
    pi, lam = np.linspace(0.15, 0.75, _NUM_CLIENTS), np.linspace(0.0, 0.6, _NUM_CLIENTS)
    success, steps = np.linspace(0.6, 1.0, _NUM_CLIENTS), 1 + np.arange(_NUM_CLIENTS) % 4
    scene = World(
        markov(_NUM_CLIENTS, pi=pi.tolist(), lam=lam.tolist()),
        links.bernoulli(_NUM_CLIENTS, success.tolist()),
        compute.per_client(_NUM_CLIENTS, steps.tolist()),
    )
    return _Stage(task, scene, Known(*(jnp.asarray(values, jnp.float32) for values in (pi, lam, success, steps))))


def _steps(stage: _Stage) -> np.ndarray:
    return np.asarray(stage.known.reach, np.int64)


def _check_empty_round(strategy: Strategy[PyTree], stage: _Stage) -> None:
    nobody, everybody = np.zeros(_NUM_CLIENTS, bool), np.ones(_NUM_CLIENTS, bool)
    for available, delivers in ((nobody, everybody), (everybody, nobody)):
        drive = HandDriven(strategy, stage.task)
        before = drive.state
        require_finite(before, "the initial state must be finite")
        drive.play_round(0, jr.key(0), Happening(available, delivers, _steps(stage)), stage.known)
        require_same_form(drive.state, before, "a round must keep the form of the state")
        require_finite(drive.state, "state and model must stay finite when nothing arrives in round 0")
        claim = "the model must stay where it is when nothing has ever arrived"
        require_close(drive.state.params, before.params, claim, 0.0)
        if not strategy.moves_alone:
            _check_night(drive, Happening(available, delivers, _steps(stage)), stage)


def _check_night(drive: HandDriven, night: Happening, stage: _Stage) -> None:
    """After a round with everybody, rounds in which nothing arrives must leave the model."""
    everybody = np.ones(_NUM_CLIENTS, bool)
    drive.play_round(1, jr.key(1), Happening(everybody, everybody, _steps(stage)), stage.known)
    before = drive.state.params
    for t in range(2, 5):
        drive.play_round(t, jr.key(t), night, stage.known)
    claim = "the model must stay where it is in rounds in which nothing arrives, or else moves_alone must be True"
    require_close(drive.state.params, before, claim, 0.0)


def _check_few(strategy: Strategy[PyTree], stage: _Stage) -> None:
    """Rounds before clients that start late, and rounds in which one comes alone, must not drive the model away."""
    drive, places = HandDriven(strategy, stage.task), np.arange(_NUM_CLIENTS)
    everybody, ends = np.ones(_NUM_CLIENTS, bool), np.vstack([stage.task.centres, stage.task.start])
    limit = 3 * np.linalg.norm(ends - np.asarray(stage.task.optimum), axis=1).max()
    for t, here in enumerate([places < 3] * 6 + [everybody] * 3 + [places == 5] * 15):
        drive.play_round(t, jr.key(t), Happening(here, everybody, _steps(stage)), stage.known)
        distance = np.linalg.norm(np.asarray(drive.state.params) - np.asarray(stage.task.optimum))
        require(bool(distance <= limit), "the model must stay near the fleet while few clients come")


def _check_goodbyes(strategy: Strategy[PyTree], stage: _Stage) -> None:
    """When all clients that keep their own words have left, nothing of them may be in the server's sums."""
    drive, everybody = HandDriven(strategy, stage.task), np.ones(_NUM_CLIENTS, bool)
    if not drive.sums:
        return
    for t in range(4):
        here = everybody if t == 0 else np.arange(_NUM_CLIENTS) % 3 == t - 1
        drive.play_round(t, jr.key(t), Happening(here, everybody, _steps(stage)), stage.known)
    before = drive.sums
    for client in range(_NUM_CLIENTS):
        drive.say_goodbye(client)
    for held, left in zip(before, drive.sums, strict=True):
        claim = "goodbye must take a client's word out of the server's sum"
        require_close(left, np.zeros_like(left), claim, 1e-5 * float(np.abs(held).max()))


def _check_alike(strategy: Strategy[PyTree], stage: _Stage) -> None:
    """Relabelling the clients relabels the result: exactly, or on average over keys where selection draws lots."""
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    other = stage.relabel(order)
    available = np.array([True, True, False, True, True, False, True])
    mean, variance = _mean_ask(strategy, stage, available)
    other_mean, other_variance = _mean_ask(strategy, other, available[order])
    error = 6 * np.sqrt(variance[order] + other_variance) + 1e-5
    require(bool(np.all(np.abs(mean[order] - other_mean) <= error)), "select must treat clients alike")
    old = _play_old(strategy, stage, np.arange(_NUM_CLIENTS))
    if float(variance.max()) == 0.0:  # neither selection nor admission draws lots
        models = _play_masks(strategy, other, order), _play_masks(strategy, stage, np.arange(_NUM_CLIENTS))
        require_close(*models, "relabelling the clients must not change the model", 1e-4)
        claim = "relabelling the clients must not change the model, also where updates are old"
        require_close(_play_old(strategy, other, order), old, claim, 1e-4)


def _mean_ask(strategy: Strategy[PyTree], stage: _Stage, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean weight of each client that may upload, over many keys, and the variance of that mean.

    The losses stand in for the lengths of the updates, which `admit` may look at.
    """
    drive = HandDriven(strategy, stage.task)
    losses = jnp.asarray(np.where(available, drive.losses(), 0.0), jnp.float32)

    @eqx.filter_jit
    def weights(server: Server, state: ServerState, keys: Array) -> Array:
        probed = losses if server.strategy.needs_losses else None
        view = server.view(state, jnp.asarray(0, jnp.int32), jnp.asarray(available), RATE, stage.known, probed)

        def weight(key: Array) -> Array:
            ask, after = server.strategy.select(state.strategy, view, key)
            if server.strategy.admits_all:
                return jnp.where(ask.copies > 0, ask.copies * ask.weight, jnp.nan)
            cohort = Cohort.pack(ask, server.slots, RATE)
            lengths = jnp.where(cohort.uploading, cohort.take(losses), jnp.nan)
            cohort = server.strategy.admit(after, view, cohort, lengths, jr.fold_in(key, 1))
            return (
                jnp.full(_NUM_CLIENTS, jnp.nan)
                .at[cohort.ids]
                .set(jnp.where(cohort.uploading, cohort.copies * cohort.weight, jnp.nan), mode="drop")
            )

        return jax.vmap(weight)(keys)

    drawn = np.asarray(weights(drive.server, drive.state, jr.split(jr.key(1), 4096)), np.float64)
    require(bool(np.isnan(drawn[:, ~available]).all()), "only available clients may be asked")
    drawn = np.nan_to_num(drawn)
    spread = np.where(np.ptp(drawn, axis=0) == 0, 0.0, drawn.var(axis=0))
    return drawn.mean(axis=0), spread / drawn.shape[0]


def _play_masks(strategy: Strategy[PyTree], stage: _Stage, order: np.ndarray) -> np.ndarray:
    """Model after some rounds of given absences and losses, the clients in the given order."""
    drive = HandDriven(strategy, stage.task)
    draw = np.random.default_rng(1)
    for t in range(12):
        available, delivers = draw.random((2, _NUM_CLIENTS)) < np.array([[0.5], [0.8]])
        now = Happening(available[order], delivers[order], _steps(stage))
        drive.play_round(t, jr.key(0), now, stage.known)
    return np.asarray(drive.state.params)


def _play_old(strategy: Strategy[PyTree], stage: _Stage, order: np.ndarray) -> np.ndarray:
    """Model after some steps with updates of all ages, the clients in the given order."""
    drive = HandDriven(strategy, stage.task)
    draw = np.random.default_rng(2)
    ticks = np.arange(_NUM_CLIENTS) % 4
    for t in range(12):
        available, delivers = draw.random((2, _NUM_CLIENTS)) < np.array([[0.6], [0.8]])
        now = Happening(available[order], delivers[order], _steps(stage))
        drive.play_late(t, jr.key(0), now, stage.known, ticks[order])
        require_finite(drive.state, "state and model must stay finite when updates are old")
    return np.asarray(drive.state.params)


def _check_run(strategy: Strategy[PyTree], stage: _Stage, rounds: int) -> None:
    """The compiled simulator, with the slots it chooses, against numpy clients with spare slots and vacant places."""
    facts = Online() if strategy.needs else Oracle()
    local = Local(learning_rate=RATE, batch_size=1)
    history = simulate(stage.task, stage.world, strategy, rounds=rounds, seeds=2, local=local, facts=facts)
    require_finite(history.params, "a short run must end with a finite model")
    require(bool(np.ptp(history.params, axis=0).max() > 0), "different seeds must give different models")
    drive = HandDriven(strategy, stage.task, facts, vacant=0 if strategy.fixes_fleet_size else _SPARE_PLACES)
    root = jr.key(0)
    step, state = eqx.filter_jit(stage.world.step), stage.world.init(root)
    for t in range(rounds):
        state, nature = step(state, root, jnp.asarray(t, jnp.int32))
        truth = replace(stage.known, success=nature.success, reach=nature.steps.astype(jnp.float32))
        now = Happening(*(np.asarray(values) for values in (nature.available, nature.delivers, nature.steps)))
        drive.play_round(t, root, now, truth)
    shipped = drive.server.model(drive.state)
    claim = "numpy clients with spare slots and vacant places must reach the compiled model"
    require_close(shipped, history.params[0], claim)
