"""What a compressor leaves out is sent later (Seide et al. 2014; Karimireddy et al. 2019)."""

from turnout import tree
from turnout.declarations import check_fields
from turnout.types import Params, PyTree
from turnout.uploads.base import Shapes, Upload, UploadContext, WireSize, refuse_inside


class ErrorFeedback(Upload[Params]):
    """sent = inner(u + e), e ← u + e - sent: a client adds to its update u what its earlier uploads left out.

    A lost upload is lost, and e stays: otherwise clients with bad links would count for more.
    """

    has_memory = True

    inner: Upload[PyTree]

    def __check_init__(self) -> None:
        check_fields(self)
        refuse_inside(
            "ErrorFeedback",
            self.inner,
            memory="one memory is enough",
            noise="the next upload would take the noise out again",
        )

    def init(self, params: Params) -> Params:
        return tree.zeros_like(params)

    def encode(self, update: Params, state: Params, context: UploadContext) -> tuple[Params, Params]:
        whole = tree.add(update, state)
        sent, _ = self.inner.encode(whole, None, context)
        return sent, tree.subtract(whole, sent)

    def wire_size(self, size: WireSize, params: Shapes) -> WireSize:
        return self.inner.wire_size(size, params)

    def inside(self) -> tuple[Upload[PyTree], ...]:
        return (self.inner,)
