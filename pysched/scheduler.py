"""The command scheduler, under the name of the module that the reference has it in."""

from __future__ import annotations

from pysched.engine import CommandScheduler

__all__ = ["CommandScheduler"]
