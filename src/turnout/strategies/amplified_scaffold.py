"""Amplified SCAFFOLD: corrections that hold for a window, and a longer step at its end (Crawshaw & Liu 2024)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout import tree
from turnout.declarations import ClientCount
from turnout.strategies.averaging import averaged
from turnout.strategies.base import Strategy
from turnout.strategies.client_side import ClientSide
from turnout.strategies.last_updates import Words
from turnout.strategies.sampling import ask_uniformly
from turnout.strategies.windows import Gain, WindowLength, WindowStart
from turnout.types import Answer, Ask, Cohort, Fleet, Move, Params, RandomKey, Reports, View, Work, divide

Number = Float[Array, ""]


class Common(eqx.Module):
    """What all clients are sent beside the model."""

    control: Params  # c
    window: Number  # which one it is


class Gathered(eqx.Module):
    """What a client keeps."""

    control: Params  # c_k, which holds for the window of its last work
    mean: Params  # of all raw gradients of that window; c_k of a later one
    count: Number  # gradients behind it
    window: Number

    def seen_from(self, window: Number) -> Gathered:
        """The same in this window: at the first work in a new one the gathered mean becomes c_k."""
        fresh = Gathered(self.mean, self.mean, jnp.zeros(()), window)
        return tree.where(window > self.window, fresh, self)


class WindowedControl(ClientSide[Gathered]):
    """Steps by q - c_k + c; gathers its raw gradients; sends Δ_k and the change of their mean."""

    gradients = ("mean",)
    sends_second = True

    def init(self, params: Params) -> Gathered:
        zeros = tree.zeros_like(params)
        return Gathered(zeros, zeros, jnp.zeros(()), jnp.full((), -1.0))

    def receives(self, params: Params) -> Common:
        return Common(tree.zeros_like(params), jnp.zeros(()))

    def push(self, kept: Gathered, shared: Common) -> Params:
        return tree.subtract(shared.control, kept.seen_from(shared.window).control)

    def say(self, kept: Gathered, work: Work) -> Answer:
        share = divide(work.reach, kept.seen_from(work.shared.window).count + work.reach)
        return Answer(work.update, tree.scale(tree.subtract(work.mean_gradient, kept.mean), share))

    def keep(self, kept: Gathered, work: Work, sent: Answer) -> Gathered:
        now = kept.seen_from(work.shared.window)
        return Gathered(now.control, tree.add(now.mean, sent.second), now.count + work.reach, now.window)

    def goodbye(self, kept: Gathered) -> Answer:
        return Answer(tree.scale(kept.mean, -1.0))


class AmplifiedState(eqx.Module):
    """What the server keeps."""

    words: Words  # the gathered means, whose sum alone is here
    control: Params  # c, their mean at the start of the window
    window: WindowStart


class AmplifiedSCAFFOLD(Strategy[AmplifiedState]):
    """SCAFFOLD in windows of P rounds, at whose end w ← w̄ + γ (w - w̄), with w̄ the model at their start.

    c_k and c do not change in a window. Meanwhile a client gathers all raw gradients of its work, and after the window
    c_k is their mean, as it was for clients that did not come; c = Σ_k α_k c_k over all. With P a cycle of
    availability everybody comes in a window, and no correction is of another time of the cycle than the others. P = 1
    and γ = 1 is SCAFFOLD. A window ends by the count of the server's steps, also with a round in which nothing arrives.

    Deviation: the target α_k stands where the paper has 1 / N and 1 / |S|.
    Deviation: gradients are counted by the reach of the work; for plain SGD that is their number.
    Deviation: all c_k begin at zero, as in the authors' code.

    Reference: M. Crawshaw and M. Liu, Federated Learning under Periodic Client Participation and Heterogeneous Data: A
    New Communication-Efficient Algorithm and Analysis, NeurIPS 2024.
    """

    title = "Amplified SCAFFOLD"
    server_memory = "O(N)"
    consistent = "if everybody comes again and again and steps are small"
    references = ("crawshaw2024federated",)
    plain_step = True

    window: WindowLength = 10  # P, rounds
    gain: Gain = 1.5  # γ
    cohort: ClientCount | None = None  # clients asked per round; everyone available if not given

    @property
    def moves_alone(self) -> bool:
        return True  # a window may end in a round in which nothing arrives

    @property
    def client_side(self) -> WindowedControl:
        return WindowedControl()

    def init(self, fleet: Fleet, params: Params) -> AmplifiedState:
        words = Words.empty(fleet, params, keeper="clients")
        return AmplifiedState(words, tree.zeros_like(params), WindowStart(params))

    def select(self, state: AmplifiedState, view: View, key: RandomKey) -> tuple[Ask, AmplifiedState]:
        return ask_uniformly(view, key, self.cohort), state

    def shared(self, state: AmplifiedState, view: View) -> Common:
        return Common(state.control, WindowStart.number(view.t, self.window).astype(jnp.float32))

    def aggregate(
        self, state: AmplifiedState, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, AmplifiedState]:
        weight = averaged(cohort, "received")
        step = tree.weighted_sum(reports.updates, weight)
        direction, window = state.window.move(view.t, self.window, self.gain, params, step)
        words = state.words.hear(cohort, reports, reports.second, cohort.take(view.importance)).words
        control = tree.where(WindowStart.ends(view.t, self.window), words.mean(view), state.control)
        return Move(weight, direction), AmplifiedState(words, control, window)
