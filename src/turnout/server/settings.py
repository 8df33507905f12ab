"""The server's settings, declared once: experiment files, simulations and real nodes all use this type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import equinox as eqx
import optax

from turnout.declarations import Declared, LengthScalar, NotNegativeScalar, RoundCount
from turnout.errors import nearest
from turnout.optimizers import is_plain
from turnout.server.facts import Facts
from turnout.strategies.base import Strategy
from turnout.types import PyTree, Schedule

PLAIN_STEP = optax.sgd(1.0)  # one object, so that it is one key of the compilation cache


class ServerSettings(Declared):
    """How the server moves the model, and what it knows of its clients.

    The optimizer is any optax transformation, such as those of papers in `turnout.optimizers`. It gets minus the
    direction as its gradient, and its result is scaled by the learning rate of the round. With a radius the model is
    then projected onto the ball of that size around the origin.

    With `rest` the strategy sees only clients that were not asked in the last R rounds. Rests make participation more
    even: with room for all it tends to a fixed rotation, and effective weights move towards uniform ones. Facts still
    describe the availability in the world, rests left out.
    """

    learning_rate: NotNegativeScalar | Schedule = 1.0  # η_g (η̄ in the CA-Fed papers)
    optimizer: optax.GradientTransformation = eqx.field(static=True, default=PLAIN_STEP)
    radius: LengthScalar | None = None  # of the ball W in the papers' Proj_W; None: no projection
    rest: RoundCount | None = None  # R, rounds for which a client that was asked is not asked again (Sun et al. 2025)
    facts: Facts[PyTree] | None = None  # if not given: the truth in simulations, estimates on real nodes

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ServerSettings:
        """The settings that were given by name to a simulation or an audit."""
        names = [field.name for field in fields(cls)]
        if unknown := [name for name in given if name not in names]:
            raise TypeError(f"{unknown[0]!r} is no argument, nor a setting of the server: {nearest(unknown[0], names)}")
        return cls(**given)

    def with_facts(self, otherwise: Facts[PyTree]) -> ServerSettings:
        """The settings, with `otherwise` as facts if none are given."""
        return self if self.facts is not None else replace(self, facts=otherwise)

    def check(self, strategy: Strategy[PyTree]) -> None:
        """Raise a ValueError if these settings change the step of a strategy that needs a plain one."""
        if not strategy.plain_step:
            return
        rate = "a schedule" if callable(self.learning_rate) else float(self.learning_rate)
        violated = {
            f"learning_rate must be 1, not {rate}": rate != 1,
            "optimizer must be plain SGD": not is_plain(self.optimizer),
            "radius must be left out": self.radius is not None,
        }
        if any(violated.values()):
            words = " and its ".join(text for text, is_violated in violated.items() if is_violated)
            raise ValueError(f"{type(strategy).__name__} sets the model itself, so the server's {words}")
