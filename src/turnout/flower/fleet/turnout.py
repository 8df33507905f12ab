"""Who is there in a round, and what is known of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass
class Turnout:
    """Who is there in a round, and what is known of them."""

    listed: list[str] = field(default_factory=list)
    asking: list[str] = field(default_factory=list)  # the strategy selects from these
    busy: set[str] = field(default_factory=set)  # still at work on an earlier order
    questioned: set[str] = field(default_factory=set)  # asked to train, or for their loss
    closed_early: bool = False  # before the timeout: who has not answered is still at work

    def unknown(self, heard: Collection[str], doubted: bool) -> list[str]:
        """Clients of which nothing is known: listed but not asked, if that is doubted, or still at work."""
        unasked = self.questioned if doubted else self.asking
        return [n for n in self.listed if n not in heard and (n not in unasked or n in self.busy)]
