"""Updates cut to a length."""

from turnout import tree
from turnout.declarations import LengthScalar
from turnout.types import Params
from turnout.uploads.base import Upload, UploadContext


class Clip(Upload[None]):
    """An update longer than `norm` is scaled down to that Euclidean length; all others stay as they are.

    Clipping alone is no claim of privacy: weights, copies and echoes of a strategy multiply what was clipped.
    """

    norm: LengthScalar

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        return tree.project(update, self.norm), state
