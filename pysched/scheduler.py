"""The command scheduler and what it submits, under the name of the module that the reference has them in."""

from __future__ import annotations

from pysched.commands import ScheduledCommand
from pysched.engine import CommandScheduler

__all__ = ["CommandScheduler", "ScheduledCommand"]
