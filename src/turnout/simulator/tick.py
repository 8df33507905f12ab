"""One tick of time: whom the server asks, whose work is over, and whether the server steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from turnout import tree
from turnout.metrics import OVERFLOW
from turnout.paces import PaceState, Traffic
from turnout.server.places import has_rows
from turnout.server.server import Server, ServerState
from turnout.server.tally import Tally
from turnout.simulator.ages import Ages
from turnout.simulator.carry import Carry, Time
from turnout.simulator.client_state import ClientState
from turnout.simulator.clients import Clients
from turnout.simulator.lane import Lane
from turnout.simulator.orders import Asked, DoneWork, admit, ask, known_truth, work
from turnout.simulator.pending import ARRIVED, FAILED, VACANT, Pending, Places
from turnout.simulator.side_by_side import most_of_lanes
from turnout.strategies.client_side import blank_answers
from turnout.types import Answer, Cohort, Fleet, Known, Mask, PerClient, Reports, Round, Tree, View
from turnout.world import Nature

Flag = Bool[Array, ""]
Number = Float[Array, ""]


class Tick(NamedTuple):
    """A tick under way: what stays, and what has happened up to here."""

    clients: Clients
    lane: Lane
    server: Server
    nature: Nature
    t: Array
    truth: Known
    view: View


class Now(NamedTuple):
    """What changes while a tick passes."""

    state: ServerState
    pending: Pending
    books: PaceState
    kept: ClientState | None
    tally: Tally
    ages: Ages


def begin_time(lane: Lane, fleet: Fleet, state: ServerState) -> Time:
    """No work under way."""
    trial, plan = lane.trial, lane.plan
    server = trial.make_server(fleet, plan.slots)
    side = trial.strategy.client_side

    def first_orders() -> tuple[Asked, Answer]:
        _, nature = trial.world.step(trial.world.init(lane.root), lane.root, 0)
        truth = known_truth(lane, nature, trial.local.rate(0))
        losses = jnp.zeros(fleet.num_clients) if trial.strategy.needs_losses else None
        view = server.view(state, jnp.zeros((), jnp.int32), nature.available, trial.local.rate(0), truth, losses)
        asked = ask(lane, server, state, view, nature, truth)
        rows = tree.repeat(state.params, plan.slots)
        return asked, blank_answers(side, rows)

    asked, answers = eqx.filter_eval_shape(first_orders)
    pending = Pending.empty(asked.orders, asked.download, plan.places, answers if trial.works_at_once else None)
    return Time(pending, PaceState.empty(), Ages.empty(fleet.num_clients))


def play_tick(clients: Clients, lane: Lane, t: Round, carry: Carry) -> tuple[Carry, dict[str, Number]]:
    """One tick, from the world's draw to the record of what happened."""
    assert carry.time is not None  # where time is played, it is carried
    trial, books = lane.trial, carry.time.books
    server = trial.make_server(clients.fleet, lane.plan.slots)
    world, nature = trial.world.step(carry.world, lane.root, t)
    lr = trial.local.rate(books.version)
    truth = known_truth(lane, nature, lr)
    view = server.view(carry.server, books.version, nature.available, lr, truth)
    moment = jnp.asarray(t, jnp.int32)
    view = replace(view, tick=moment, goal=trial.kept_pace.goal)
    tick = Tick(clients, lane, server, nature, moment, truth, view)
    before = Now(carry.server, carry.time.pending, books, carry.clients, carry.tally, carry.time.ages)
    now, cohort, unplaced = _ask_idle(tick, before)
    busy = now.pending.count(now.pending.status != VACANT)
    now, ended, finished, wasted = _pass_time(tick, now, cohort)
    roll = None
    if carry.roll is not None:
        working = now.pending.clients(now.pending.working)
        roll = carry.roll.add(t, nature.available | finished, finished, ended.mask, working)
    now, step = _step_if_due(tick, now)
    after = Carry(world, now.state, now.tally, roll, now.kept, Time(now.pending, now.books, now.ages))
    record = {
        "available": _count(nature.available),
        "cohort": _count(cohort.trained),
        "uploads": _count(ended.uploading),
        "arrived": _count(ended.arrived),
        "local_steps": _count(cohort.take(nature.steps)),
        "wasted_steps": wasted,
        "at_work": _count(now.pending.working),
        "busy": busy.astype(jnp.float32),
        **step,
        OVERFLOW: step[OVERFLOW] + (cohort.overflow + unplaced).astype(jnp.float32),
    }
    return after, record


def _ask_idle(tick: Tick, now: Now) -> tuple[Now, Cohort, Array]:
    """Ask idle clients, if the pace has openings; also who was asked, and how many of them found no place."""
    lane, pace, pending = tick.lane, tick.lane.trial.kept_pace, now.pending
    openings = pace.openings(now.books, pending.count(pending.working), tick.view.num_clients)
    asking = openings > 0
    idle = tick.nature.available & ~pending.busy & asking
    view = tick.view.among(idle)
    if tick.server.strategy.needs_losses:
        params, nothing = now.state.params, jnp.zeros_like(view.target)

        def probe(_: PerClient, now: Flag) -> PerClient:
            return tick.clients.losses(lane, tick.t, idle & now, params)

        view = replace(view, losses=_if_any(tick.clients, asking, probe, nothing))
    limit = openings if pace.is_bounded else None
    orders, download, asked = ask(lane, tick.server, now.state, view, tick.nature, tick.truth, limit)
    state = replace(now.state, strategy=_where(asking, asked.strategy, now.state.strategy))
    pending, unplaced = pending.start(
        orders,
        download,
        tick.server.strategy.starts_shared,
        tick.nature.durations,
        tick.t,
        now.books.version,
        partial(_if_any, tick.clients),
    )
    opened = now.books.open_round(tick.t, jnp.sum(orders.cohort.trained, dtype=jnp.int32))
    books = _where(asking, opened, now.books)
    return now._replace(state=state, pending=pending, books=books), orders.cohort, unplaced


def _pass_time(tick: Tick, now: Now, asked: Cohort) -> tuple[Now, Cohort, Mask, Number]:
    """Let all clients work for this tick; also who is heard of, whose work has ended, and the steps of what is lost."""
    trial, nature = tick.lane.trial, tick.nature
    leaving = "continue" if trial.world.durations is None else trial.world.durations.leaving
    pending, over, lost = now.pending.pass_time(now.pending.of_clients(nature.available), leaving)
    heard = over & ~pending.late
    now = now._replace(pending=pending)
    delivered = heard & pending.of_clients(nature.delivers)
    if trial.works_at_once:
        now = _work_now(tick, now, over, delivered)
    pending = now.pending
    arrived = delivered & pending.orders.cohort.uploading
    pending = pending.mark(arrived, (heard & ~arrived) | (lost & ~pending.late))
    ended = pending.cohort(heard)
    reach = jnp.where(ended.arrived, pending.orders.reach, 0.0)
    told = Reports(None, jnp.zeros_like(reach), reach)
    facts = tick.server.facts.observe(now.state.facts, tick.view, ended, told)
    tally = now.tally.add(tick.t, nature.available, asked.asked, ended.mask)
    wasted = jnp.sum(jnp.where((over & ~arrived) | lost, pending.orders.jobs.steps, 0), dtype=jnp.float32)
    finished = pending.clients(over | lost)
    pending = pending.vacate((over | lost) & pending.late)
    if not trial.kept_pace.in_rounds:  # a client whose answer is lost is free at once
        pending = pending.vacate(pending.status == FAILED)
    return now._replace(state=replace(now.state, facts=facts), pending=pending, tally=tally), ended, finished, wasted


def _work_now(tick: Tick, now: Now, over: Places, delivered: Places) -> Now:
    """Do the work that is over, where it counts even if it does not arrive, and keep the answers."""
    lane = tick.lane

    def play(held: tuple[Pending, ClientState | None], on: Flag) -> tuple[Pending, ClientState | None]:
        pending, before = held
        orders, download, rows = pending.pack(over & on, over & on, lane.plan.closing, tick.t, now.books.version)
        done = work(tick.clients, lane, orders, download, before)
        cohort = admit(tick.server, now.state, tick.view, orders.cohort, done, lane.root)
        arrived = cohort.uploading & delivered.at[rows].get(mode="fill", fill_value=False)
        stored = pending.admit(rows, cohort).store(rows, done.sent.answers, done.sent.losses)
        return stored, done.commit(before, replace(cohort, arrived=arrived))

    pending, kept = _if_any(tick.clients, jnp.any(over), play, (now.pending, now.kept))
    return now._replace(pending=pending, kept=kept)


def _step_if_due(tick: Tick, now: Now) -> tuple[Now, dict[str, Number]]:
    """The end of a tick: the server steps if its pace says so."""
    pace, pending = tick.lane.trial.kept_pace, now.pending
    ended = (pending.version == now.books.version) & (pending.status >= ARRIVED)
    traffic = Traffic(pending.count(ended), pending.count(pending.status == ARRIVED))
    due = pace.due(now.books, tick.t, traffic)
    used = due & (pending.status >= ARRIVED)
    if pace.in_rounds and pace.drops_late:  # those that have not answered belong to the round, too
        used |= due & pending.working & ~pending.late
    nothing = {name: jnp.zeros(()) for name in ("weight_sum", "used", "closing", OVERFLOW)}
    now, record = _if_any(tick.clients, due, lambda held, on: _step(tick, held[0], used & on, due & on), (now, nothing))
    pending = now.pending.vacate(used & ~pending.working)
    pending = replace(pending, late=pending.late | (used & pending.working))
    after = now._replace(pending=pending, books=now.books.close_round(due))
    return after, record | {"server_steps": due.astype(jnp.float32)}


def _step(tick: Tick, now: Now, used: Places, due: Flag) -> tuple[Now, dict[str, Number]]:
    """The server's step; where it is not due nobody is marked as used, and nothing changes."""
    lane, pending, server = tick.lane, now.pending, tick.server
    first = used & (pending.status == ARRIVED)
    orders, download, rows = pending.pack(used, first, lane.plan.closing, tick.t, now.books.version)
    if pending.answers is None:
        done = work(tick.clients, lane, orders, download, now.kept)
        kept = done.commit(now.kept, orders.cohort)
    else:
        done, kept = DoneWork(orders.jobs, pending.answered(rows)), now.kept
    reports = done.reports(orders, download.model if server.strategy.needs_starts else None)
    stepped, weight = server.step(now.state, tick.view, orders.cohort, reports)
    state = _where_due(server, due, stepped, now.state)
    cohort = orders.cohort
    record = {
        "weight_sum": jnp.sum(weight),
        "used": _count(cohort.arrived),
        "closing": _count(cohort.trained),
        OVERFLOW: cohort.overflow.astype(jnp.float32),
    }
    ages, tally = now.ages.add(cohort), now.tally.weigh(cohort, weight)
    return now._replace(state=state, kept=kept, tally=tally, ages=ages), record


def _where_due(server: Server, due: Flag, after: ServerState, before: ServerState) -> ServerState:
    """The state after a step if that was due.

    Memories of a model per client are left out: they are written where updates arrived, and to choose between two of
    them would copy them.
    """

    def choose(new: Array, old: Array, has_row: bool) -> Array:
        return new if new is old or (has_row and new.ndim > 1) else jnp.where(due, new, old)

    strategy = jax.tree.map(choose, after.strategy, before.strategy, has_rows(server, before.params)[0])
    rest = _where(due, replace(after, strategy=None), replace(before, strategy=None))
    return replace(rest, strategy=strategy)


def _where(condition: Flag, yes: Tree, no: Tree) -> Tree:
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), yes, no)


def _if_any(clients: Clients, flag: Flag, change: Callable[[Tree, Flag], Tree], held: Tree) -> Tree:
    """Change what is held if the flag holds in one of the lanes side by side; always where a gradient must flow.

    A loop of one turn or none: what a condition may change the compiler copies, a memory of a model per client too,
    while a loop changes it in place. The change is told that its turn is on, which is so whenever it is asked: what
    depends on that is not taken for the same in every turn, and done before the loop, turn or no turn.
    """
    if clients.lets_gradients_through:
        return change(held, jnp.ones((), bool))
    turns = most_of_lanes(flag.astype(jnp.int32))
    return jax.lax.fori_loop(0, turns, lambda turn, now: change(now, turn < turns), held)


def _count(mask: Mask | Array) -> Number:
    return jnp.sum(mask, dtype=jnp.float32)
