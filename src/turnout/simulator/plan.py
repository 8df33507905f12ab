"""What fixes the shapes of a program: each of these is a program of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Shapes of the clients' work."""

    slots: int
    most_available: int
    common_steps: int | None  # local steps, if the same for all clients and rounds
    most_steps: int
    chunk: int  # slots trained together when numbers of steps differ
    places: int = 0  # rows for work under way, where work takes time
    closing: int = 0  # slots for the updates of one step, likewise
    first: int | None = None  # slots trained before all others, if not `chunk`, where numbers of steps are equal


@dataclass(frozen=True)
class RecordPlan:
    """What is recorded of a run, and for how many evaluations and rounds there is space."""

    evaluations: int
    rounds: int
    metrics: tuple[str, ...] | None  # those to compute; all that the task has if None
