"""The clients' optimizer: the steps that a client takes along its gradients, and how far so many of them go."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from turnout import tree
from turnout.declarations import Count, Declared, NotNegativeScalar, check_fields
from turnout.optimizers import first_updates
from turnout.types import Params, PyTree, Round, Scalar, Schedule, rate_at

Batches = Literal["drawn", "shuffled"]
Probed = Literal["batch", "train", "validation", "test"]
Precision = Literal["float32", "bfloat16"]
_SETTLING_STEPS = 10_000  # after which a momentum of up to 0.999 has settled
_TINY_GRADIENT = 1e-6  # below any clipping threshold


class Local(Declared):
    """The clients' optimizer: fresh in every round, unless it is `lasting`: then a client keeps its momentum.

    Step s of a round moves by `learning_rate(t) · scale / (1 + decay · s)` times the result of the optax transformation
    of the gradient; without one it is plain SGD. The transformation's own learning rate multiplies that: set it to 1.
    `Local(learning_rate=1e-3, optimizer=optax.adam(1.0))` is Adam at 1e-3. `proximal` adds μ (w - w_start) to the
    gradient, as FedProx does. `probed` says on what data strategies such as CA-Fed ask for a loss: one training batch,
    or a whole split. Selecting clients by their test data, as CA-Fed's public code does, spoils these for judging.
    `precision` is what the model computes in while it trains. With "bfloat16" inputs, activations and weights of a step
    have 16 bits; sums of products, the gradient's way into the model, the model itself and evaluations keep 32.
    """

    example: ClassVar[str] = "Local(learning_rate=0.1)"

    learning_rate: NotNegativeScalar | Schedule = 0.1  # η
    proximal: NotNegativeScalar | None = None  # μ
    decay: NotNegativeScalar | None = None
    batch_size: Count = eqx.field(static=True, default=32)
    batches: Batches = eqx.field(static=True, default="drawn")
    optimizer: optax.GradientTransformation | None = eqx.field(static=True, default=None)
    probed: Probed = eqx.field(static=True, default="batch")  # where a loss is asked for
    lasting: bool = eqx.field(static=True, default=False)  # clients keep the optimizer's state between rounds
    precision: Precision = eqx.field(static=True, default="float32")

    def __check_init__(self) -> None:
        check_fields(self)
        if self.lasting and self.optimizer is None:
            raise ValueError("lasting needs an optimizer whose state can be kept, such as optax.sgd(1.0, momentum=0.9)")
        if self.optimizer is not None:
            _check_unit_rate(self.optimizer)

    def rate(self, t: Round) -> Scalar:
        """η in round t."""
        return rate_at(self.learning_rate, t)

    def with_pull(self, pull: Scalar | None) -> Local:
        """The same with A (w - w_start) added to every gradient, besides the proximal term of its own."""
        if pull is None:
            return self
        return replace(self, proximal=pull if self.proximal is None else self.proximal + pull)

    def fresh(self, params: Params) -> PyTree:
        """State of the optimizer before its first step."""
        return None if self.optimizer is None else self.optimizer.init(params)

    def move(
        self, params: Params, start: Params, gradient: Params, state: PyTree, s: Int[Array, ""], lr: Scalar
    ) -> tuple[Params, PyTree]:
        """The model after step s along this gradient, and the state of the optimizer."""
        if self.proximal is not None:
            gradient = tree.add(gradient, tree.scale(tree.subtract(params, start), self.proximal))
        if self.optimizer is None:
            updates = jax.tree.map(jnp.negative, gradient)
        else:
            updates, state = self.optimizer.update(gradient, state, params)
        rate = lr if self.decay is None else lr / (1.0 + self.decay * s.astype(jnp.float32))
        return tree.add(params, tree.scale(updates, rate)), state

    def reach(self, steps: Int[Array, "*any"], lr: Scalar, most: int) -> Float[Array, "*any"]:
        """‖a‖₁ of so many steps: how far the optimizer goes, in units of η, under a gradient that is always one.

        Exact for whatever is linear in the gradients: SGD, momentum, proximal and decayed SGD. A step scale that a
        strategy asks for is left out: the strategy knows it. A lasting optimizer is taken in its steady state, where
        the first step already has the momentum of earlier rounds.
        """
        if self.optimizer is None and self.proximal is None and self.decay is None:
            return steps.astype(jnp.float32)
        origin, lr = jnp.zeros(()), jnp.maximum(lr, 1e-12)  # the limit where a schedule has reached zero

        def body(carry: tuple[Array, PyTree], s: Array) -> tuple[tuple[Array, PyTree], Array]:
            place, state = self.move(carry[0], origin, jnp.ones(()), carry[1], s, lr)
            return (place, state), -place / lr

        state = self._steady_state() if self.lasting else self.fresh(origin)
        _, distances = jax.lax.scan(body, (origin, state), jnp.arange(most))
        return jnp.concatenate([jnp.zeros(1), distances])[jnp.minimum(steps, most)]

    def _steady_state(self) -> PyTree:
        """State of the optimizer after many steps along a gradient that is always one; computed once, while tracing."""
        optimizer, place = self.optimizer, jnp.zeros(())
        assert optimizer is not None  # or nothing would last

        def body(state: PyTree, _: None) -> tuple[PyTree, None]:
            return optimizer.update(jnp.ones(()), state, place)[1], None

        with jax.ensure_compile_time_eval():
            return jax.lax.scan(body, optimizer.init(place), length=_SETTLING_STEPS)[0]


@functools.lru_cache(maxsize=64)  # one warning per optimizer, however often its Local is copied
def _check_unit_rate(optimizer: optax.GradientTransformation) -> None:
    """Refuse an optimizer that climbs the gradient, and warn of one that has a learning rate of its own."""
    updates, gentle = first_updates(optimizer, (1.0, 1.0)), first_updates(optimizer, (_TINY_GRADIENT,))
    if updates is None or gentle is None:
        return
    if updates.sum() > 0:
        raise ValueError(
            f"the optimizer moves by {updates[0, 0]:+.3g} under a gradient of 1, which is up: it must go down, as "
            "optax.sgd(1.0, momentum=0.9) does and optax.trace(0.9) does not"
        )
    # At rate 1 adaptive optimizers make steps of about 1. Clipping ones do not, but leave tiny gradients as they are.
    length, slope = np.abs(updates).max(), np.abs(gentle).max() / _TINY_GRADIENT
    if not (0.9 < length < 4 or 0.9 < slope < 2):
        warnings.warn(
            f"the optimizer's first steps under a gradient of 1 are up to {length:.3g} long, and learning_rate "
            "multiplies that: give the rate once, as in Local(learning_rate=1e-3, optimizer=optax.adam(1.0))",
            stacklevel=4,
        )
