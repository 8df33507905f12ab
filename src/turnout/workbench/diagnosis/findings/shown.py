"""Whether a log shows who was available, or only who took part."""

from __future__ import annotations

from turnout.workbench.diagnosis.findings.rests import Gaps
from turnout.workbench.diagnosis.reading.log import AVAILABILITY, PARTICIPATION, Log, Shows

MIN_ROUNDS = 10  # with the same number of participants, for that not to be chance


def shown(log: Log, gaps: Gaps) -> Shows:
    """What the log shows of absent clients: as the user or its columns say, else by the numbers of participants.

    A server that draws a fixed number of clients leaves the same number in every round, fleets do not.
    """
    if log.shows is not None and log.shows.surely:
        return log.shows
    if gaps.batch is not None and gaps.batch < log.num_clients and log.num_slots >= MIN_ROUNDS:
        return Shows(PARTICIPATION, f"every round has exactly {gaps.batch:,}, as where a server draws them")
    return log.shows or Shows(AVAILABILITY, "nothing says otherwise")
