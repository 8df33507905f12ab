"""Updates in whole numbers of one unit, so that sums of them are exact."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from turnout.declarations import Numbers, check_fields
from turnout.streams import scramble
from turnout.types import Params
from turnout.uploads.base import Upload, UploadContext
from turnout.uploads.eight_bit import uniform

_BITS = 32  # of a sum, sign included
_MOST_NUMBERS = 2.0**44  # units of a number beside the vector: it is summed in two parts
_OF_NUMBERS = 2**31  # apart from the seeds of arrays


class FixedPoint(Upload[None]):
    """Every entry as a whole multiple of `quantum` between ± `most`, rounded up or down by chance.

    Both are powers of two, so that multiples are exact in 32-bit floats. A sum of up to `room` such updates is exact in
    32-bit whole numbers. Where clients send changes of what they have sent, neither rounding nor clipping adds up: the
    next change has what was left out. Otherwise what is beyond `most` is lost.

    The numbers beside a vector are multiples of the same unit, and much larger ones have room.
    """

    quantum: Annotated[float, Numbers(0, 2.0**20, above=True)] = eqx.field(static=True, default=2.0**-16)
    most: Annotated[float, Numbers(0, 2.0**40, above=True)] = eqx.field(static=True, default=2.0**8)

    def __check_init__(self) -> None:
        check_fields(self)
        for name in ("quantum", "most"):
            if np.frexp(getattr(self, name))[0] != 0.5:
                raise ValueError(f"{name} of FixedPoint must be a power of two, not {getattr(self, name)}")
        if self.room < 1:
            units = self.most / self.quantum
            raise ValueError(f"{units:.4g} units in one number of FixedPoint are too many: a sum has 32 bits")

    @property
    def room(self) -> int:
        """Uploads of which a sum is exact in 32 bits, whatever they hold."""
        return int((2 ** (_BITS - 1) - 1) * self.quantum / self.most)

    @classmethod
    def with_room(cls, uploads: int, quantum: float = 2.0**-16) -> "FixedPoint":
        """The one with the widest range that has room for so many uploads."""
        free = int((2 ** (_BITS - 1) - 1) // max(uploads, 1))
        return cls(quantum, quantum * 2.0 ** (free.bit_length() - 1))

    def encode(self, update: Params, state: None, context: UploadContext) -> tuple[Params, None]:
        leaves, structure = jax.tree.flatten(update)
        seeds = [scramble(context.seed + jnp.uint32(number + 1)) for number in range(len(leaves))]
        rounded = [self._round(leaf, seed, self.most) for leaf, seed in zip(leaves, seeds, strict=True)]
        return jax.tree.unflatten(structure, rounded), state

    def encode_numbers(self, numbers: Array, context: UploadContext) -> Array:
        seed = scramble(context.seed + jnp.uint32(_OF_NUMBERS))
        return self._round(numbers, seed, _MOST_NUMBERS * self.quantum)

    def _round(self, values: Array, seed: UInt32[Array, ""], most: float) -> Array:
        # A number of units that needs more than 24 bits is whole already, and chance must not be added to it.
        units = values / self.quantum
        below = jnp.floor(units)
        up = uniform(seed, values.shape).astype(values.dtype) < units - below
        whole = below + up.astype(values.dtype)
        return jnp.clip(whole * self.quantum, -most, most)
