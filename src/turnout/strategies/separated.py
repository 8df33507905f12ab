"""Separated: any strategy, with a minimum rest between two participations of a client (Sun et al. 2025)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Int

from turnout.strategies.base import Strategy
from turnout.types import Array, Ask, Cohort, Fleet, Params, PerClient, PerSlot, RandomKey, Reports, Scalar, View


class SeparatedState(eqx.Module):
    """The state of the strategy inside, and the rests."""

    inner: Any
    rest: PerClient  # rounds until the client may be asked again


def _of_inside(name: str) -> Any:
    """A property that is that of the strategy inside."""
    return property(lambda self: getattr(self.strategy, name))


class Separated(Strategy[SeparatedState]):
    """The strategy inside sees only clients that were not asked in the last R rounds.

    R = 0 is the strategy itself. Rests make participation more even. With room for all it tends to a fixed rotation,
    and the effective weights move from those of the strategy inside towards uniform ones. Facts still describe the
    availability in the world, rests left out.
    """

    server_memory = "O(N), and that of the strategy inside"
    consistent = "as the strategy inside with the clients that resting leaves"
    references = ("sun2025debiasing",)

    strategy: Strategy
    separation: Scalar  # R

    needs = _of_inside("needs")
    probes = _of_inside("probes")
    moves_alone = _of_inside("moves_alone")
    plain_step = _of_inside("plain_step")
    starts_shared = _of_inside("starts_shared")
    admits_all = _of_inside("admits_all")
    client_memory = _of_inside("client_memory")
    remembers_models = _of_inside("remembers_models")
    fixes_fleet_size = _of_inside("fixes_fleet_size")

    def init(self, fleet: Fleet, params: Params) -> SeparatedState:
        return SeparatedState(self.strategy.init(fleet, params), jnp.zeros_like(fleet.importance))

    def select(self, state: SeparatedState, view: View, key: RandomKey) -> tuple[Ask, SeparatedState]:
        ask, inner = self.strategy.select(state.inner, _rested(state, view), key)
        return ask, replace(state, inner=inner)

    def weigh(self, state: SeparatedState, view: View, cohort: Cohort) -> PerSlot:
        return self.strategy.weigh(state.inner, _rested(state, view), cohort)

    def aggregate(
        self, state: SeparatedState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Params, SeparatedState]:
        direction, inner = self.strategy.aggregate(state.inner, params, _rested(state, view), cohort, reports)
        return direction, replace(state, inner=inner)

    def capacity(self, most_available: int) -> int:
        return self.strategy.capacity(most_available)

    def check(self, fleet: Fleet) -> None:
        rounds = float(self.separation)
        if rounds < 0 or rounds != int(rounds):
            raise ValueError(f"separation must be a whole number of 0 or more, not {self.separation}")
        self.strategy.check(fleet)

    def start(self, state: SeparatedState, params: Params, client: Int[Array, ""]) -> Params:
        return self.strategy.start(state.inner, params, client)

    def admit(self, state: SeparatedState, view: View, cohort: Cohort, norms: PerSlot, key: RandomKey) -> Cohort:
        return self.strategy.admit(state.inner, _rested(state, view), cohort, norms, key)

    def settle(self, state: SeparatedState, params: Params, view: View, cohort: Cohort) -> SeparatedState:
        inner = self.strategy.settle(state.inner, params, _rested(state, view), cohort)
        waited = jnp.maximum(state.rest - 1.0, 0.0)
        # By slot rather than by `active`: a client that trained and was not admitted has taken part, too.
        rest = waited.at[cohort.ids].set(jnp.asarray(self.separation, waited.dtype), mode="drop")
        return SeparatedState(inner, rest)

    def recount(self, state: SeparatedState, fleet: Fleet) -> SeparatedState:
        return replace(state, inner=self.strategy.recount(state.inner, fleet))

    def model(self, state: SeparatedState, params: Params) -> Params:
        return self.strategy.model(state.inner, params)


def _rested(state: SeparatedState, view: View) -> View:
    """The view without resting clients. Rests change at the end of a round, so all hooks of a round see the same."""
    rested = view.available & (state.rest <= 0)
    losses = None if view.losses is None else jnp.where(rested, view.losses, 0.0)
    return replace(view, available=rested, losses=losses)
