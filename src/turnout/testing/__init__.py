"""Contracts of strategies, processes, tasks, durations and paces, ours and yours: call these in your own tests."""

from turnout.testing.durations import check_durations
from turnout.testing.pace import check_pace
from turnout.testing.process import check_process
from turnout.testing.strategy import check_strategy
from turnout.testing.task import check_task
from turnout.testing.upload import check_upload

__all__ = ["check_durations", "check_pace", "check_process", "check_strategy", "check_task", "check_upload"]
