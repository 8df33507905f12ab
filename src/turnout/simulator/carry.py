"""The state that a run carries from round to round."""

from __future__ import annotations

import equinox as eqx

from turnout.paces import PaceState
from turnout.server.server import ServerState
from turnout.server.tally import Tally
from turnout.simulator.ages import Ages
from turnout.simulator.attendance import Roll
from turnout.simulator.client_state import ClientState
from turnout.simulator.pending import Pending
from turnout.world import WorldState


class Time(eqx.Module):
    """What is carried besides where work takes time."""

    pending: Pending
    books: PaceState
    ages: Ages


class Carry(eqx.Module):
    """The state that is carried from round to round, or from tick to tick."""

    world: WorldState
    server: ServerState
    tally: Tally
    roll: Roll | None = None  # where attendance is recorded
    clients: ClientState | None = None  # where clients keep a state
    time: Time | None = None  # where work takes time
