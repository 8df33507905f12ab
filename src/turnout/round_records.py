"""What is logged of every round: what each record is called and means.

A new one is an entry of RECORDS, and the place that counts it: `_record` in `simulator/loop.py`, on real nodes
`flower/run/chronicle.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnout.metrics import spell_out


@dataclass(frozen=True)
class Record:
    """One number about a round."""

    name: str
    title: str
    cost: bool = False  # adds up over the rounds: tables have its sum, curves can be drawn over it
    simulated: bool = True  # whether simulations have it; runs on real nodes have all but those of time
    counted: bool = True  # by the compiled loop, rather than from what it counts
    in_bytes: bool = False
    timed: bool = False  # only where work takes time

    def number(self, value: float | int) -> str:
        """A value as it is shown."""
        if not self.in_bytes:
            return f"{value:,.0f}"
        power = min(4, max(0, len(f"{value:.0f}") - 1) // 3)
        return f"{value / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


BYTES_UPLOADED = "bytes_uploaded"  # simulated: lost uploads included; on real nodes: what was received

RECORDS = (
    Record("available", "Available clients"),
    Record("cohort", "Clients asked to train"),
    Record("uploads", "Uploads", cost=True),
    Record(BYTES_UPLOADED, "Bytes uploaded", cost=True, counted=False, in_bytes=True),
    Record("arrived", "Uploads that arrived"),
    Record("weight_sum", "Sum of the weights"),
    Record("local_steps", "Local steps", cost=True),
    Record("server_steps", "Server steps", cost=True, timed=True),
    Record("used", "Updates used", timed=True),
    Record("at_work", "Clients at work", timed=True),
    Record("wasted_steps", "Wasted local steps", cost=True, timed=True),
    Record("seconds", "Seconds", cost=True, simulated=False),
    Record("dropped", "Dropped replies", simulated=False),
)
OF_NODES = tuple(record for record in RECORDS if not record.timed)  # what real nodes have
COSTS = tuple(record for record in RECORDS if record.cost and record.simulated)
OVERFLOW = "overflow"  # of a simulated round: clients without a slot; it must be 0, and is checked rather than kept


def record_named(name: str) -> Record:
    """A record by its name, also one that is not listed."""
    return next((record for record in RECORDS if record.name == name), Record(name, spell_out(name)))
