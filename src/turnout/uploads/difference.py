"""What has changed since the last upload: a memory of updates that lives on the clients instead of the server."""

from __future__ import annotations

from typing import Any

from turnout import tree
from turnout.types import Params
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize, refuse_inside
from turnout.uploads.plain import Plain


class Difference(Upload[Params]):
    """sent = inner(Δ / η - held), held ← held + sent: server and client agree on what the client has sent in all.

    Strategies with their memory on the clients place it around whatever transform the user has chosen. It advances by
    what was sent, so that a compressor inside it is corrected by the next uploads.
    """

    has_memory = True

    inner: Upload = Plain()

    def __check_init__(self) -> None:
        refuse_inside(
            "Difference",
            self.inner,
            memory="the difference to what was sent is a memory already; give the compressor alone",
            noise="the next upload would take the noise out again",
        )

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def encode(self, update: Params, state: Params, context: UploadContext) -> tuple[Params, Params]:
        change = tree.subtract(tree.per_rate(update, context.lr), state)
        sent, _ = self.inner.encode(change, None, context)
        return sent, tree.add(state, sent)

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        return self.inner.wire_size(size, params)

    def inside(self) -> tuple[Upload[Any], ...]:
        return (self.inner,)
