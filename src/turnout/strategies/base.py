"""The interface of a strategy: which clients to ask, with what weight, and how to combine what they send."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from turnout.declarations import Declared, hold
from turnout.strategies.client_side import ClientSide
from turnout.strategies.sampling import check_cohort
from turnout.types import Ask, Cohort, Fleet, Move, Params, PerSlot, PyTree, RandomKey, Reports, View

State = TypeVar("State")
# Silently ignored, a hook that is no more would train another algorithm.
_FORMER = {
    "weigh": "return Move(weight) from aggregate",
    "settle": "return the new state from aggregate",
    "recount": "keep sums over clients in Words",
    "client_memory": "give a client_side",
    "probes": 'name "losses" in needs',
}
_MODEL_SIZE = 64  # of a made-up model, to see whether a state has one per client


def per_client(default: Any = None, **options: Any) -> Any:
    """A field that may hold one entry per client, so that a fleet on real nodes can have no spare places."""
    return eqx.field(default=default, metadata={"per_client": True}, **options)


def listed(annotation: Any) -> Callable[[Any], Any]:
    """A converter of fields that hold an array of such numbers: a list is taken, too, if it holds them."""

    def convert(values: Any) -> Any:
        try:
            return hold("values", values, annotation)
        except (TypeError, ValueError):
            return values  # for the check of the field, which knows its name

    return convert


class Strategy(Declared, Generic[State]):
    """One federated algorithm, as pure functions of an explicit state.

    Fields are hyper-parameters and pytree leaves, so a grid of them is one `vmap`; only what fixes a shape is static.
    All methods have a neutral default: a strategy overrides what its paper changes. Every strategy derives from this
    class directly; what two share is a function. A field `cohort` is the number of clients asked per round, None for
    everyone available: `capacity` and `check` follow it. A field `moves_when_empty` says whether the model may move in
    a round in which nothing arrives: `moves_alone` follows it.

    Every method must be finite and sensible when nobody is available or arrives, in round 0 too, and must treat clients
    alike: relabelling them relabels the result.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if former := [name for name in _FORMER if name in vars(cls)]:
            raise TypeError(f"{cls.__name__} has {former[0]}, which is not called any more: {_FORMER[former[0]]}")

    # For tables and citations, read from the source without importing it; nothing else may depend on them.
    example: ClassVar[str] = "FedAvg()"
    title: ClassVar[str] = ""  # what papers call it; the name of the class if not given
    server_memory: ClassVar[str] = "O(1)"  # size of the state beside the facts: O(1), O(N) or O(N · model)
    consistent: ClassVar[str] = ""  # in which worlds the limit is the optimum, in a few words
    references: ClassVar[tuple[str, ...]] = ()  # keys of references.bib

    # Fields of `Known`; "losses": a probe of every available client; "starts": the models that were sent; "lost": the
    # updates that did not arrive, which only a simulation has, and only where work takes no time.
    needs: ClassVar[tuple[str, ...]] = ()
    plain_step: ClassVar[bool] = False  # sets the model itself: the server must have rate 1, no optimizer, no radius

    def init(self, fleet: Fleet, params: Params) -> State:
        """State before round 0; per-client parts have the clients as leading axis and hold sums, not means."""
        return None  # pyright: ignore[reportReturnType]

    def select(self, state: State, view: View, key: RandomKey) -> tuple[Ask, State]:
        """Clients to ask; by default everyone available, weighted by the target."""
        return Ask.of(view.available, view.target), state

    def aggregate(
        self, state: State, params: Params, view: View, cohort: Cohort, reports: Reports
    ) -> tuple[Move, State]:
        """How the model moves; by default along the sum of what arrived, by weight and number of copies."""
        return Move(cohort.factors), state

    @property
    def client_side(self) -> ClientSide[PyTree] | None:
        """What clients do besides plain training and sending their update; None if nothing."""
        return None

    def shared(self, state: State, view: View) -> PyTree:
        """What every client is sent beside the model, such as a second vector of its shape; None if nothing."""
        return None

    def start(self, state: State, params: Params, client: Int[Array, ""]) -> Params:
        """Model from which a client starts its local work; by default the server's."""
        return params

    def admit(self, state: State, view: View, cohort: Cohort, norms: PerSlot, key: RandomKey) -> Cohort:
        """The cohort after training, with `uploading` narrowed to those that may upload; by default all of them."""
        return cohort

    def model(self, state: State, params: Params) -> Params:
        """The model to evaluate and to ship; by default the server's."""
        return params

    @property
    def moves_alone(self) -> bool:
        """Whether the model may move in a round in which nothing arrives."""
        return bool(getattr(self, "moves_when_empty", False))

    def capacity(self, most_available: int) -> int:
        """Slots needed when at most `most_available` clients are available: the largest cohort if known, else as many.

        Called on the host, with concrete fields, and so is `check`.
        """
        cohort = getattr(self, "cohort", None)
        return most_available if cohort is None or callable(cohort) else int(np.max(np.asarray(cohort)))

    def check(self, fleet: Fleet) -> None:
        """Raise a ValueError if this fleet cannot be served; by default, if it is too small for the cohort."""
        check_cohort(getattr(self, "cohort", None), fleet)

    # What follows from the above, for drivers; not to be overridden.

    @property
    def needs_losses(self) -> bool:
        """Whether the loss of every available client is wanted before clients are selected."""
        return "losses" in self.needs

    @property
    def needs_starts(self) -> bool:
        """Whether the model that each client was sent is wanted when its update is used."""
        return "starts" in self.needs

    @property
    def starts_shared(self) -> bool:
        """Whether every client starts from the server's own model."""
        return type(self).start is Strategy.start

    @property
    def needs_lost(self) -> bool:
        """Whether updates that did not arrive are wanted, which real nodes do not have."""
        return "lost" in self.needs

    @property
    def admits_all(self) -> bool:
        """Whether every client that trained uploads, so that norms of updates are not needed."""
        return type(self).admit is Strategy.admit

    @property
    def fixes_fleet_size(self) -> bool:
        """Whether a field has one entry per client."""
        named = [getattr(self, field.name) for field in dataclasses.fields(self) if field.metadata.get("per_client")]
        return any(np.ndim(leaf) > 0 for leaf in jax.tree.leaves(named))

    @property
    def remembers_models(self) -> bool:
        """Whether the server keeps a model or an update per client: one client more adds that much to the state."""
        vector = jax.ShapeDtypeStruct((_MODEL_SIZE,), jnp.float32)

        def size(num_clients: int, model: PyTree) -> int:
            importance = jax.ShapeDtypeStruct((num_clients,), jnp.float32)
            state = eqx.filter_eval_shape(lambda worth, params: self.init(Fleet(worth), params), importance, model)
            return sum(leaf.size for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.ShapeDtypeStruct))

        try:
            return size(4, vector) - size(3, vector) >= _MODEL_SIZE
        except (AttributeError, IndexError, KeyError, TypeError):  # written for models that are dictionaries of arrays
            named = {"weights": vector}
            return size(4, named) - size(3, named) >= _MODEL_SIZE
