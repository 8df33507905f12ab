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
    probed: set[str] = field(default_factory=set)  # they have told their loss, so they are there
    closed_early: bool = False  # before the timeout: who has not answered is still at work

    def unknown(self, heard: Collection[str], doubted: bool) -> list[str]:
        """Clients of which nothing is known: listed but not asked, if that is doubted, or still at work."""
        unasked = self.questioned if doubted else self.asking
        certain = {*heard, *self.probed}
        return [name for name in self.listed if name not in certain and (name not in unasked or name in self.busy)]
