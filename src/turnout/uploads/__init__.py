"""What happens to an update between the client's work and the server: one transform per file.

Transforms are pure and written for one client. They nest: a compressor stands inside the memory that corrects it.
"""

from turnout.uploads.base import Upload, UploadContext, WireSize
from turnout.uploads.chain import Chain
from turnout.uploads.clip import Clip
from turnout.uploads.eight_bit import EightBit
from turnout.uploads.error_feedback import ErrorFeedback
from turnout.uploads.fixed_point import FixedPoint
from turnout.uploads.noise import Noise
from turnout.uploads.plain import Plain
from turnout.uploads.top_k import TopK

__all__ = ["Upload", "UploadContext", "WireSize"]
__all__ += ["Chain", "Clip", "EightBit", "ErrorFeedback", "FixedPoint", "Noise", "Plain", "TopK"]
