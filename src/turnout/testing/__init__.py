"""Contracts that every strategy, process and task keeps, ours and yours: call these in your own tests."""

from turnout.testing.process import check_process
from turnout.testing.strategy import check_strategy
from turnout.testing.task import check_task
from turnout.testing.upload import check_upload

__all__ = ["check_process", "check_strategy", "check_task", "check_upload"]
