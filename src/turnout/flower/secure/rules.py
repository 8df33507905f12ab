"""What a client insists on in a sum, whatever the server says; and how a sum ends that does not come out."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real


class LostError(Exception):
    """The sum of a round cannot be unmasked: nothing of it is known, and nothing of it counts."""


class RefusedError(Exception):
    """A client does not go on: what it is asked for could expose somebody, or does not fit to what came before."""


@dataclass(frozen=True)
class Rules:
    """Set on the client; the server never sends them. Experimental.

    With all neighbours in one group `least` is the number of uploads in the sum. In a ring a client sees its own group
    only, and it is the number there.
    """

    least: int = 3  # uploads in a sum
    majority: float = 0.5  # share of a group above which the threshold must be, or two halves could be asked apart

    def __post_init__(self) -> None:
        # By hand: the declared checks of fields would load jax, which a node does only to train.
        if isinstance(self.least, bool) or not isinstance(self.least, Integral) or self.least < 2:
            raise ValueError(f"least must be a whole number of 2 or more, not {_in_a_line(self.least)}")
        if isinstance(self.majority, bool) or not isinstance(self.majority, Real) or not 0.5 <= self.majority < 1:
            raise ValueError(f"majority must be a number from 0.5 to below 1, not {_in_a_line(self.majority)}")

    def check_group(self, members: int, threshold: int) -> None:
        """Raise a RefusedError, unless so many members and shares are enough."""
        if members < self.least:
            raise RefusedError(f"{members} clients are in the group, {self.least} are needed")
        if not self.majority * members < threshold <= members:
            raise RefusedError(
                f"the threshold is {threshold} of {members}: it must be above {self.majority:g} of them, and no more "
                "than there are"
            )

    def check_sum(self, uploads: int, threshold: int) -> None:
        """Raise a RefusedError, unless so many uploads may be summed up."""
        needed = max(threshold, self.least)
        if uploads < needed:
            raise RefusedError(f"{uploads} uploads are in the sum, {needed} are needed")


def _in_a_line(value: object) -> str:
    return " ".join(repr(value).split())[:60]
