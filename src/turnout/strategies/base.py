"""The interface of a strategy: which clients to ask, with what weight, and how to combine their updates."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import equinox as eqx
from jaxtyping import Int

from turnout import tree
from turnout.strategies.sampling import check_cohort
from turnout.types import Array, Ask, ClientMemory, Cohort, Fleet, Params, PerSlot, RandomKey, Reports, View

State = TypeVar("State")


class Strategy(eqx.Module, Generic[State]):
    """The server's side of one federated algorithm, as pure functions of an explicit state.

    Fields are hyper-parameters and pytree leaves, so a grid of them is one `vmap`; only what fixes a shape is static.
    All methods have a neutral default: a strategy overrides what its paper changes. Every strategy derives from this
    class directly; what two share is a function. A field `cohort` is the number of clients asked per round, None for
    everyone available: `capacity` and `check` follow it.

    Every method must be finite and sensible when nobody is available or arrives, in round 0 too, and must treat clients
    alike: relabelling them relabels the result.
    """

    title: ClassVar[str] = ""  # what papers call it; the name of the class if not given
    needs: ClassVar[tuple[str, ...]] = ()  # fields of `Known` that are read
    probes: ClassVar[bool] = False  # wants the loss of every available client before it selects
    moves_alone: ClassVar[bool] = False  # may move the model in a round in which nothing arrives
    plain_step: ClassVar[bool] = False  # sets the model itself: the server must have rate 1, no optimizer, no radius
    server_memory: ClassVar[str] = "O(1)"  # size of the state beside the facts: O(1), O(N) or O(N · model)
    consistent: ClassVar[str] = ""  # in which worlds the limit is the optimum, in a few words
    references: ClassVar[tuple[str, ...]] = ()  # keys of references.bib

    @property
    def starts_shared(self) -> bool:
        """Whether every client starts from the server's own model."""
        return type(self).start is Strategy.start

    @property
    def admits_all(self) -> bool:
        """Whether every client that trained uploads, so that norms of updates are not needed."""
        return type(self).admit is Strategy.admit

    @property
    def remembers_models(self) -> bool:
        """Whether the server keeps a model or an update per client."""
        return "model" in self.server_memory and self.client_memory is None

    @property
    def client_memory(self) -> ClientMemory | None:
        """How each client remembers its last update, so that it sends what has changed; None if it does not."""
        return None

    @property
    def fixes_fleet_size(self) -> bool:
        """Whether a field has one entry per client, so that a fleet on real nodes can have no spare places."""
        return False

    def init(self, fleet: Fleet, params: Params) -> State:
        """State before round 0; per-client parts have the clients as leading axis and hold sums, not means."""
        return None  # pyright: ignore[reportReturnType]

    def select(self, state: State, view: View, key: RandomKey) -> tuple[Ask, State]:
        """Clients to ask; by default everyone available, weighted by the target."""
        return Ask.of(view.available, view.target), state

    def weigh(self, state: State, view: View, cohort: Cohort) -> PerSlot:
        """Factor of each arrived update in the direction; by default its weight times its number of copies."""
        return cohort.weight * cohort.copies

    def aggregate(
        self, state: State, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Params, State]:
        """Direction for the server optimizer; by default the weighted sum of what arrived."""
        return tree.weighted_sum(reports.updates, self.weigh(state, view, cohort)), state

    def capacity(self, most_available: int) -> int:
        """Slots needed when at most `most_available` clients are available: the cohort if there is one, else as many.

        Called on the host, with concrete fields, and so is `check`.
        """
        cohort = getattr(self, "cohort", None)
        return most_available if cohort is None else int(cohort)

    def check(self, fleet: Fleet) -> None:
        """Raise a ValueError if this fleet cannot be served; by default, if it is too small for the cohort."""
        check_cohort(getattr(self, "cohort", None), fleet)

    def start(self, state: State, params: Params, client: Int[Array, ""]) -> Params:
        """Model from which a client starts its local work; by default the server's."""
        return params

    def admit(self, state: State, view: View, cohort: Cohort, norms: PerSlot, key: RandomKey) -> Cohort:
        """The cohort after training, with `active` narrowed to the clients that may upload; by default all of them."""
        return cohort

    def settle(self, state: State, params: Params, view: View, cohort: Cohort) -> State:
        """State after the server optimizer has moved the model."""
        return state

    def recount(self, state: State, fleet: Fleet) -> State:
        """State after clients of a real fleet have left for good; their rows are as new, sums over rows are not yet."""
        return state

    def model(self, state: State, params: Params) -> Params:
        """The model to evaluate and to ship; by default the server's."""
        return params
