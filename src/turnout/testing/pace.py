"""The contract of a pace, in a small world in which clients of different speed are always there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from turnout.declarations import Numbers, checked
from turnout.paces import Pace, PaceState, Traffic
from turnout.testing.claims import require, require_close
from turnout.types import Array

_LONGEST = 6  # ticks of work
_LOST = 0.1  # share of the answers
_SIDE_BY_SIDE = 3  # runs


@dataclass
class _Job:
    """Work under way, or over and not used yet."""

    version: int
    left: int  # ticks of work
    over: bool = False
    arrived: bool = False
    late: bool = False


Few = Annotated[int, Numbers(1, 100_000)]  # each tick is played in Python


@checked
def check_pace(pace: Pace, *, num_clients: Few = 20, ticks: Few = 300) -> None:
    """Raise an AssertionError unless the pace keeps its contract.

    It compiles and maps over runs; it says how many clients may be asked by a whole number of 0 or more, which never
    exceeds what a `concurrency` leaves room for, and `is_bounded` if that may be fewer than all; it says by one truth
    value whether the server steps at the end of a tick; and where clients answer, it never stops to step.
    """
    pace.check(num_clients)
    require(pace.goal is None or float(np.asarray(pace.goal)) >= 1, f"goal must be None or 1 and more, not {pace.goal}")
    _check_answers(pace, num_clients)
    steps = _play(pace, num_clients, ticks)
    require(bool(steps), "the server never steps, although clients answer")
    require(steps[-1] >= ticks // 2, f"the server does not step after tick {steps[-1]}, although clients answer")


def _check_answers(pace: Pace, num_clients: int) -> None:
    """Their form, compiled with the numbers of the pace as inputs and for several runs side by side, too."""
    state, traffic = PaceState.empty(), _traffic(1, 1)
    openings = jnp.asarray(pace.openings(state, jnp.asarray(0, jnp.int32), num_clients))
    due = jnp.asarray(pace.due(state, jnp.asarray(0, jnp.int32), traffic))
    whole = openings.shape == () and jnp.issubdtype(openings.dtype, jnp.integer)
    require(bool(whole), f"openings must be one whole number, not {openings.dtype}{openings.shape}")
    single = due.shape == () and due.dtype == jnp.bool_
    require(single, f"due must be one truth value, not {due.dtype}{due.shape}")

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(None, 0, None, None))
    def both(pace: Pace, t: Array, state: PaceState, traffic: Traffic) -> tuple[Array, Array]:
        return pace.openings(state, t, num_clients), pace.due(state, t, traffic)

    numbers = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf, pace)
    mapped = both(numbers, jnp.zeros(_SIDE_BY_SIDE, jnp.int32), state, traffic)
    for row in range(_SIDE_BY_SIDE):
        one = jax.tree.map(lambda values, row=row: values[row], mapped)
        require_close(one, (openings, due), "compiled answers, side by side, must equal plain ones", 0.0)


def _play(pace: Pace, num_clients: int, ticks: int) -> list[int]:
    """The ticks at whose end the server steps."""
    generator, jobs, state, steps = np.random.default_rng(0), [], PaceState.empty(), list[int]()
    most = getattr(pace, "concurrency", None)
    for tick in range(ticks):
        at_work, t = sum(not job.over for job in jobs), jnp.asarray(tick, jnp.int32)
        openings = int(pace.openings(state, jnp.asarray(at_work, jnp.int32), num_clients))
        require(openings >= 0, f"openings must be 0 or more, not {openings}")
        if most is not None and openings > 0:
            require(at_work + openings <= int(most), f"openings = {openings} with {at_work} at work exceed {most}")
        require(
            pace.is_bounded or openings in (0, *range(num_clients - at_work, num_clients + 1)),
            f"openings = {openings} leave out clients, so that is_bounded must be true",
        )
        asked = min(openings, num_clients - len(jobs))
        jobs += [_Job(int(state.version), int(left)) for left in generator.integers(0, _LONGEST, asked)]
        if openings:
            state = state.open_round(t, jnp.asarray(asked, jnp.int32))
        _pass_time(jobs, generator)
        jobs = [job for job in jobs if not (job.over and (job.late or not (job.arrived or pace.in_rounds)))]
        ended = sum(job.over and job.version == int(state.version) for job in jobs)
        due = pace.due(state, t, _traffic(ended, sum(job.arrived for job in jobs)))
        if bool(due):
            steps.append(tick)
            jobs = [job for job in jobs if not job.over]
            for job in jobs:
                job.late = job.late or (pace.in_rounds and pace.drops_late)
        state = state.close_round(jnp.asarray(due))
    return steps


def _pass_time(jobs: list[_Job], generator: np.random.Generator) -> None:
    """One tick of work; some of the answers are lost."""
    for job in jobs:
        if not job.over and job.left <= 0:
            job.over, job.arrived = True, not job.late and generator.random() > _LOST
        job.left -= 1


def _traffic(ended: int, arrived: int) -> Traffic:
    return Traffic(jnp.asarray(ended, jnp.int32), jnp.asarray(arrived, jnp.int32))
