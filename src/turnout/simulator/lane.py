"""A lane: one training, that is a trial with a seed, on a task."""

from __future__ import annotations

import equinox as eqx

from turnout.server.server import Server
from turnout.simulator.plan import Plan, RecordPlan
from turnout.simulator.trial import Trial
from turnout.tasks.base import Task
from turnout.types import Law, PyTree, RandomKeys


class Lane(eqx.Module):
    """One training; or several side by side, with the lanes as leading axis of all arrays but those of `shared`."""

    shared: Task | None  # of the task, what all lanes have in common; None where clients only vote
    own: Task | None  # of the task, what this lane has of its own, where seeds draw their own
    trial: Trial
    law: Law | None  # None: the world has none
    root: RandomKeys
    plan: Plan = eqx.field(static=True)
    record_plan: RecordPlan = eqx.field(static=True)

    @property
    def task(self) -> Task:
        assert self.shared is not None  # or nothing would be trained
        return self.shared if self.own is None else eqx.combine(self.shared, self.own)

    @property
    def server(self) -> Server:
        return self.trial.make_server(self.task.fleet, self.plan.slots)

    @property
    def axes(self) -> Lane:
        """Which axis of each array is that of the lanes, for `vmap`."""
        by_lane = eqx.if_array(0)

        def parts(lane: Lane) -> tuple[PyTree, ...]:
            return lane.shared, lane.own, lane.trial, lane.law, lane.root

        return eqx.tree_at(parts, self, (None, *[by_lane] * 4), is_leaf=lambda part: part is None)
