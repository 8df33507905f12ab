"""What has changed since the last upload: a memory of updates that lives on the clients instead of the server."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from turnout import tree
from turnout.types import Array, ClientMemory, Params, divide
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize, refuse_inside
from turnout.uploads.plain import Plain


class Held(eqx.Module):
    """What server and client agree on that the client has sent in all."""

    rows: Params
    t: Array  # the round of the last upload that arrived


class Difference(Upload[Held]):
    """sent = inner(Δ / η - held), held ← held + sent: server and client agree on what the client has sent in all.

    Strategies with their memory on the clients place it around whatever transform the user has chosen, and say by
    `memory` in which units updates are remembered, and how they fade: what is held is first scaled by
    ((l + 1) / (t + 1))^fading, with l the round of the last upload that arrived. It advances by what was sent, so that
    a compressor inside it is corrected by the next uploads. Where updates count per unit of work, none says nothing.
    """

    has_memory = True

    inner: Upload = Plain()
    memory: ClientMemory = ClientMemory()

    def __check_init__(self) -> None:
        refuse_inside(
            "Difference",
            self.inner,
            memory="the difference to what was sent is a memory already; give the compressor alone",
            noise="the next upload would take the noise out again",
        )

    def init(self, params: Params) -> Held:
        return Held(tree.zeros_like(params), jnp.zeros(()))

    def encode(self, update: Params, state: Held, context: UploadContext) -> tuple[Params, Held]:
        lr, reach, t = (
            jnp.asarray(otherwise if given is None else given, jnp.float32)
            for given, otherwise in ((context.lr, 1.0), (context.reach, 1.0), (context.t, 0.0))
        )
        unit, fading = lr * reach if self.memory.per_work else lr, jnp.asarray(self.memory.fading, jnp.float32)
        faded = tree.scale(state.rows, divide(state.t + 1.0, t + 1.0) ** fading)
        sent, _ = self.inner.encode(tree.subtract(tree.per_rate(update, unit), faded), None, context)
        after = Held(tree.add(faded, sent), t)
        if not self.memory.per_work:
            return sent, after
        worked = unit > 0
        return tree.where(worked, sent, tree.zeros_like(sent)), tree.where(worked, after, state)

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        return self.inner.wire_size(size, params)

    def inside(self) -> tuple[Upload[Any], ...]:
        return (self.inner,)
