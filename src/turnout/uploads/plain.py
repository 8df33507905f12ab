"""Updates sent as they are."""

from turnout.types import Params
from turnout.uploads.base import Upload, UploadContext


class Plain(Upload[None]):
    """The update itself, with as many bytes as the model has."""

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        return update, state
